package memstore

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// stay gives up a hold, or one entry of it, but leaves the lock taken until
// least has passed since its grant and after has passed from now.
//
// Answers: stays LEFT · released · held ENTRIES · gone.
func stay(t *step, args *arguments) string {
	attempt, word := args.text(), args.text()
	least, after := args.whole(), args.whole()
	t.retention, t.base = args.whole(), args.text()
	owner := args.owner()
	token, _ := strconv.ParseInt(word, 10, 64) // what is no number was never a token

	h := t.holder
	switch {
	case h != nil && h.is(attempt, staying): // asked again
		if h.expiry > t.now {
			return stays(h.expiry - t.now)
		}
	case h != nil && h.is(attempt, owner):
		till := max(min(t.now, t.fence/1000)+least, t.now+after)
		if len(h.attempts()) == 1 && till > t.now {
			t.keep(till - t.now)
			nearer := till < h.expiry
			t.holder = &holder{name: staying, entries: []string{attempt}, expiry: till}
			if nearer {
				t.tell(till - t.now)
			}
			return stays(till - t.now)
		}
		if t.overForAll() {
			return "gone"
		}
		if rest := t.exit(attempt); rest > 0 {
			t.keep(max(till-t.now, 0))
			h.expiry = max(h.expiry, till)
			return fmt.Sprintf("held %d", rest)
		}
	case h != nil && h.admits(owner) && token == t.fence:
		// This entry has ended before; others of its owner remain.
		return fmt.Sprintf("held %d", len(h.entries))
	case t.released(token):
		return "released"
	default:
		return "gone"
	}
	t.settle()
	t.advance("")
	return "released"
}

func stays(left int64) string { return fmt.Sprintf("stays %d", left) }

// hint tells some who wait, the last and the next two from place on, to look in left ms: no
// more than most, each of another client, and none of the client of but. It answers the
// place of the first who was told, 0 if nobody was.
func (t *step) hint(place, left int64, most int, but, caller string) (at int64) {
	tried := []string{clientOf(but)}
	for _, next := range []int64{t.line.tail, place, place + 1} {
		other := t.line.at(next)
		if most == 0 || other == nil || other.attempt == caller || slices.Contains(tried, clientOf(other.attempt)) {
			continue
		}
		tried = append(tried, clientOf(other.attempt))
		if t.hears(other) {
			t.sooner(other, left)
			most--
			at = cmp.Or(at, next)
		}
	}
	return at
}

// goesOn lets one who waits look at once: the lock may be free, and who is next is out
// of the reach of this step.
func (t *step) goesOn(place int64, caller string) {
	if w := t.line.seat(caller); w != nil && t.hears(w) {
		t.sooner(w, 1)
		return
	}
	t.hint(place, 1, 1, "", caller)
}

// sooner lets a waiter know that the lock may be free in so many ms.
func (t *step) sooner(w *waiter, left int64) {
	t.pushes = append(t.pushes, message{t.base + clientOf(w.attempt), fmt.Sprintf("stays %s %d", w.attempt, left)})
}

// tell lets the first waiter within reach who listens know that the lock is free earlier.
func (t *step) tell(left int64) {
	for _, w := range t.line.within(max(t.line.head, t.line.cursor)) {
		if t.hears(w) {
			t.sooner(w, left)
			return
		}
	}
}
