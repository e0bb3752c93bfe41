package memstore

import (
	"fmt"
	"strconv"
)

// releaseAfter gives up a hold, or one entry of it, and keeps the lock until minHold after
// its grant and until keep from now.
//
// Answers: kept LEFT · released · held ENTRIES · gone.
func releaseAfter(t *step, args *arguments) string {
	attempt, word := args.text(), args.text()
	minHold, keep := args.whole(), args.whole()
	t.retention, t.channelPrefix = args.whole(), args.text()
	owner := args.owner()
	token, _ := strconv.ParseInt(word, 10, 64) // if it is no number, it never was a token

	h := t.holder
	switch {
	case h != nil && h.is(attempt, keptHolder): // a repeated request
		t.queue.leave(attempt) // a late copy of its acquire may have queued it since
		if h.expiry > t.now {
			return kept(h.expiry - t.now)
		}
	case h != nil && h.is(attempt, owner):
		till := max(min(t.now, t.fence/1000)+minHold, t.now+keep)
		if len(h.attempts()) == 1 && till > t.now {
			t.extendRecord(till - t.now)
			nearer := till < h.expiry
			t.holder = &holder{name: keptHolder, entries: []string{attempt}, expiry: till}
			if nearer {
				t.askFirstToPoll(till - t.now)
			}
			return kept(till - t.now)
		}
		if t.expiredForAll() {
			return "gone"
		}
		if rest := t.removeEntry(attempt); rest > 0 {
			t.extendRecord(max(till-t.now, 0))
			h.expiry = max(h.expiry, till)
			return fmt.Sprintf("held %d", rest)
		}
	case h != nil && h.admits(owner) && token == t.fence:
		// This entry has ended before; others of its owner remain.
		return fmt.Sprintf("held %d", len(h.entries))
	case t.wasReleased(token):
		return "released"
	default:
		return "gone"
	}
	t.expire()
	t.serveQueue("")
	return "released"
}

func kept(left int64) string { return fmt.Sprintf("kept %d", left) }
