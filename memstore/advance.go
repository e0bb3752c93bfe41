package memstore

import (
	"fmt"
	"slices"
)

// advance grants the lock to the head of the line for as long as the head fits.
//
//   - A waiter whose patience is over is removed.
//   - A waiter who does not fit stops the walk: nobody may overtake it.
//   - A waiter who fits is granted if its client hears the push. If nobody
//     hears it, the waiter is passed over and keeps its place.
//
// caller is the attempt that asks right now ("": nobody does): it is not
// overdue, and its answer says what a push would. advance answers the caller's
// token if it was granted (else 0), and whether a waiter stands that nobody
// may overtake.
func (t *step) advance(caller string) (token int64, blocked bool) {
	for _, w := range slices.Clone(t.line.waiters) {
		if t.holder != nil {
			break
		}
		asks := w.attempt == caller
		if w.patience <= t.now && !asks {
			t.line.leave(w.attempt)
			continue
		}
		if !t.fits(w.mode, w.weight) {
			blocked = true
			break
		}
		if asks || t.push(w) {
			t.line.leave(w.attempt)
			granted := t.grant(w.request)
			if asks {
				token = granted
			}
		}
	}
	t.line.skipHoles()
	return token, blocked || t.holder != nil && t.line.len() > 0
}

// push tells a waiter's client of the grant that is about to be written, and
// answers whether it listens.
func (t *step) push(w *waiter) bool {
	channel := t.base + clientOf(w.attempt)
	if t.listening(channel) == 0 {
		return false
	}
	payload := fmt.Sprintf("granted %s %d %d", w.attempt, t.nextToken(), t.line.len()-1)
	t.pushes = append(t.pushes, message{channel, payload})
	return true
}
