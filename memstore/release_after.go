package memstore

import (
	"fmt"
	"strconv"
)

// releaseAfter gives up a hold, or one entry of it, and keeps the lock until minHold after
// its grant and until keep from now.
//
// Answers: kept LEFT · released · held ENTRIES · gone.
func releaseAfter(st *step, args *arguments) string {
	attempt, word := args.text(), args.text()
	minHold, keep := args.whole(), args.whole()
	st.retention, st.channelPrefix = args.whole(), args.text()
	owner := args.owner()
	token, _ := strconv.ParseInt(word, 10, 64) // no hold has a token that is not a number

	h := st.holder
	switch {
	case h != nil && h.is(attempt, keptHolder): // a repeated request
		st.queue.leave(attempt) // a late copy of its acquire may have queued it since
		if h.expiry > st.now {
			return kept(h.expiry - st.now)
		}
	case h != nil && h.is(attempt, owner):
		till := max(min(st.now, st.fence/1000)+minHold, st.now+keep)
		if h.ending {
			till = st.now
		}
		if len(h.attempts()) == 1 && till > st.now {
			st.extendRecord(till - st.now)
			nearer := till < h.expiry
			st.holder = &holder{name: keptHolder, entries: []string{attempt}, expiry: till}
			if nearer {
				st.askFirstToPoll(till - st.now)
			}
			return kept(till - st.now)
		}
		if st.expiredForAll() {
			return "gone"
		}
		if rest := st.removeEntry(attempt); rest > 0 {
			st.extendRecord(max(till-st.now, 0))
			h.expiry = max(h.expiry, till)
			return fmt.Sprintf("held %d", rest)
		}
	case h != nil && h.admits(owner) && token == st.fence:
		// This entry has ended before; others of its owner remain.
		return fmt.Sprintf("held %d", len(h.entries))
	case st.wasReleased(token):
		return "released"
	default:
		return "gone"
	}
	st.expire()
	st.serveQueue("")
	return "released"
}

func kept(left int64) string { return fmt.Sprintf("kept %d", left) }
