package memstore

import (
	"fmt"
	"slices"
	"strconv"
)

// releaseAfter gives up a hold, or one entry of it, but leaves the lock taken until
// least has passed since its grant and after has passed from now.
//
// Answers: kept LEFT · released · held ENTRIES · gone.
func releaseAfter(t *step, args *arguments) string {
	attempt, word := args.text(), args.text()
	least, after := args.whole(), args.whole()
	t.retention, t.channelPrefix = args.whole(), args.text()
	owner := args.owner()
	token, _ := strconv.ParseInt(word, 10, 64) // what is no number was never a token

	h := t.holder
	switch {
	case h != nil && h.is(attempt, keptHolder): // asked again
		t.line.leave(attempt) // nobody waits at a place that a late copy of its acquire has taken since
		if h.expiry > t.now {
			return kept(h.expiry - t.now)
		}
	case h != nil && h.is(attempt, owner):
		till := max(min(t.now, t.fence/1000)+least, t.now+after)
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

// askNextToPoll lets one in the line know when to look: the last, or the next from place on if
// the last is of the client that may not have heard of its grant. Caller learns it by its
// answer.
func (t *step) askNextToPoll(place int64, client, caller string, till int64) {
	other := t.line.waiters[t.line.len()-1]
	if other.place != t.line.tail || clientOf(other.attempt) == client {
		other = nil
		for _, w := range t.line.waiters {
			if place <= w.place && w.place < place+headWindow {
				other = w
				break
			}
		}
	}
	asks := other != nil && other.attempt == caller
	if other == nil || clientOf(other.attempt) == client || !asks && !t.hears(other) {
		return
	}
	if !asks {
		t.askToPoll(other, till-t.now)
	}
	t.line.pollAt, t.line.pollPlace = till, other.place
}

// askToPoll lets a waiter know that the lock may be free in so many ms.
func (t *step) askToPoll(w *waiter, left int64) {
	t.pushes = append(t.pushes,
		message{t.channelPrefix + clientOf(w.attempt), fmt.Sprintf("kept %s %d", w.attempt, left)})
}

// askFirstToPoll lets the first waiter who listens know that the lock is free earlier. If it
// leaves, another is told.
func (t *step) askFirstToPoll(left int64) {
	some, _ := t.line.within()
	for _, w := range some {
		if t.hears(w) {
			t.askToPoll(w, left)
			t.line.pollAt, t.line.pollPlace = t.now+left, w.place
			return
		}
	}
}

// askOneToPoll lets one who listens look at once: the caller, or one of the last in line.
func (t *step) askOneToPoll(place int64, caller string) {
	if w := t.line.seat(caller); w != nil && t.hears(w) {
		t.askToPoll(w, 1)
		return
	}
	first := max(place, t.line.tail-headWindow+1)
	for _, w := range slices.Backward(t.line.waiters) {
		if w.place >= first && t.hears(w) {
			t.askToPoll(w, 1)
			return
		}
	}
}
