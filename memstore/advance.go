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
		if asks || t.push(w, t.nextToken()) {
			t.line.leave(w.attempt)
			granted := t.grant(w.request)
			if asks {
				token = granted
			}
			if t.holder != nil && t.holder.admits(w.owner) {
				t.admit(caller)
			}
		}
	}
	t.line.skipHoles()
	return token, blocked || t.holder != nil && t.line.len() > 0
}

// push tells a waiter's client of its grant, and answers whether it listens.
func (t *step) push(w *waiter, token int64) bool {
	channel := t.base + clientOf(w.attempt)
	if t.listening(channel) == 0 {
		return false
	}
	payload := fmt.Sprintf("granted %s %d %d", w.attempt, token, t.line.len()-1)
	t.pushes = append(t.pushes, message{channel, payload})
	return true
}

// admit lets in whoever waits in the name of the owner that has just been
// granted the lock: they hold together. Who does not listen is passed over, and
// the caller asks by itself.
func (t *step) admit(caller string) {
	for _, w := range slices.Clone(t.line.waiters) {
		if w.attempt == caller || w.owner != t.holder.name || w.patience <= t.now || !t.push(w, t.fence) {
			continue
		}
		t.line.leave(w.attempt)
		t.keep(w.ttl)
		t.holder.entries = append(t.holder.entries, w.attempt)
		t.holder.expiry = max(t.holder.expiry, t.now+w.ttl)
	}
}
