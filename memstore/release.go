package memstore

import (
	"fmt"
	"strconv"
)

// release gives up a hold, or one entry of it; if the lock is free, it grants the next
// waiter.
//
// Answers: released · held ENTRIES · gone.
func release(st *step, args *arguments) string {
	attempt, word := args.text(), args.text()
	st.retention, st.channelPrefix = args.whole(), args.text()
	owner := args.owner()
	token, _ := strconv.ParseInt(word, 10, 64) // no hold has a token that is not a number

	switch {
	case st.holder != nil && st.holder.is(attempt, owner):
		if st.expiredForAll() {
			return "gone"
		}
		if rest := st.removeEntry(attempt); rest > 0 {
			return fmt.Sprintf("held %d", rest)
		}
	case st.shares[attempt] != nil:
		st.removeShare(attempt)
	case st.holder != nil && st.holder.admits(owner) && token == st.fence:
		// This entry has ended before; others of its owner remain.
		return fmt.Sprintf("held %d", len(st.holder.entries))
	case st.wasReleased(token):
		return "released"
	default:
		return "gone"
	}
	st.expire()
	st.serveQueue("")
	return "released"
}
