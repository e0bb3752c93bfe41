package memstore

import (
	"fmt"
	"strconv"
)

// release gives up a hold, or one entry of it; if the lock is free, it grants the next
// waiter.
//
// Answers: released · held ENTRIES · gone.
func release(t *step, args *arguments) string {
	attempt, word := args.text(), args.text()
	t.retention, t.channelPrefix = args.whole(), args.text()
	owner := args.owner()
	token, _ := strconv.ParseInt(word, 10, 64) // if it is no number, it never was a token

	switch {
	case t.holder != nil && t.holder.is(attempt, owner):
		if t.expiredForAll() {
			return "gone"
		}
		if rest := t.removeEntry(attempt); rest > 0 {
			return fmt.Sprintf("held %d", rest)
		}
	case t.shares[attempt] != nil:
		t.removeShare(attempt)
	case t.holder != nil && t.holder.admits(owner) && token == t.fence:
		// This entry has ended before; others of its owner remain.
		return fmt.Sprintf("held %d", len(t.holder.entries))
	case t.wasReleased(token):
		return "released"
	default:
		return "gone"
	}
	t.expire()
	t.serveQueue("")
	return "released"
}
