package memstore

import (
	"fmt"
	"slices"
)

// advance grants the lock to the head of the line for as long as the head fits.
//
//   - A waiter whose patience is over is removed.
//   - A waiter whose client does not hear pushes, or is silent, is passed over and
//     keeps its place.
//   - A waiter who does not fit stops the walk: nobody may overtake it.
//   - A waiter who fits is granted, briefly until its client confirms the push.
//
// caller is the attempt that asks right now ("": nobody does): it is not
// overdue, and its answer says what a push would. advance answers the caller's
// token if it was granted (else 0), and whether a waiter stands that nobody
// may overtake.
func (t *step) advance(caller string) (token int64, blocked bool) {
	var pushed *waiter
	at := t.line.tail + 1
	for _, w := range slices.Clone(t.line.waiters) {
		if t.holder != nil {
			at = w.place
			break
		}
		asks := w.attempt == caller
		if w.patience <= t.now && !asks {
			t.line.leave(w.attempt)
			continue
		}
		if !asks && !t.hears(w) {
			continue
		}
		if !t.fits(w.mode, w.weight) {
			blocked, at = true, w.place
			break
		}
		if asks {
			t.line.leave(w.attempt)
			token = t.grant(w.request)
		} else {
			t.push(w, t.nextToken())
			t.line.leave(w.attempt)
			t.lend(w.request)
			pushed = w
		}
		if t.holder != nil && t.holder.admits(w.owner) {
			t.admit(caller)
		}
	}
	t.line.skipHoles()
	if till := t.lookAt(token, pushed); till > t.now && t.line.len() > 0 &&
		!(t.line.watched > t.now && t.line.watcher >= at) {
		t.tellNext(at, t.unheard(pushed), caller, till)
	}
	return token, blocked || t.holder != nil && t.line.len() > 0
}

// lookAt is when one who waits must look though nobody pushes to it: when a grant that
// was pushed may be over unconfirmed, or when one who has left would have looked.
func (t *step) lookAt(token int64, pushed *waiter) int64 {
	switch {
	case pushed != nil:
		return t.now + t.left()
	case token == 0 && (t.holder != nil || len(t.shares) > 0):
		return t.line.orphaned
	}
	return 0
}

// unheard is the client of which nobody knows yet whether it has heard of its grant.
func (t *step) unheard(pushed *waiter) string {
	switch {
	case pushed != nil:
		return clientOf(pushed.attempt)
	case t.holder != nil && t.holder.unsure:
		return clientOf(t.holder.attempts()[0])
	}
	return ""
}

// hears says whether a waiter's client listens and is not silent.
func (t *step) hears(w *waiter) bool {
	client := clientOf(w.attempt)
	return !slices.Contains(t.line.silent, client) && t.listening(t.base+client) > 0
}

// push tells a waiter's client of its grant.
func (t *step) push(w *waiter, token int64) {
	payload := fmt.Sprintf("granted %s %d %d %d %d", w.attempt, token, t.line.len()-1, t.now, briefly(w.ttl))
	t.pushes = append(t.pushes, message{t.base + clientOf(w.attempt), payload})
}

// admit lets in whoever waits in the name of the owner that has just been
// granted the lock: they hold together. Who does not listen is passed over, and
// the caller asks by itself.
func (t *step) admit(caller string) {
	for _, w := range slices.Clone(t.line.waiters) {
		if w.attempt == caller || w.owner != t.holder.name || w.patience <= t.now || !t.hears(w) {
			continue
		}
		t.push(w, t.fence)
		t.line.leave(w.attempt)
		t.keep(w.ttl)
		t.holder.entries = append(t.holder.entries, w.attempt)
		t.holder.expiry = max(t.holder.expiry, t.now+briefly(w.ttl))
	}
}
