package memstore

import (
	"fmt"
	"slices"
)

// serveQueue grants the lock to the head of the line for as long as the head fits.
//
//   - A waiter whose place has expired is removed.
//   - A waiter whose client does not hear pushes, or is silent, is passed over and
//     keeps its place.
//   - A waiter who does not fit stops the walk: nobody may overtake it.
//   - A waiter who fits is granted, provisionalLease until its client confirms the push.
//   - Who is out of the reach of this step is told to look, if the lock may be free.
//
// caller is the attempt that asks right now ("": nobody does): it is not
// overdue, and its answer says what a push would. Though it was passed over, it is
// looked at again. serveQueue answers the caller's token if it was granted (else 0), and
// whether a waiter stands that nobody may overtake.
func (t *step) serveQueue(caller string) (token int64, blocked bool) {
	l := &t.line
	if own := l.seat(caller); own != nil {
		l.cursor = min(l.cursor, own.place)
		if t.aboveLimit(own) {
			l.leave(caller)
			caller = ""
		}
	}
	place, token, blocked, pushed := t.grantWaiting(caller)
	t.unfinished = l.len() > 0 && place <= l.tail && t.holder == nil && !blocked
	if l.len() > 0 {
		l.cursor = max(l.cursor, place)
		l.head = min(l.waiters[0].place, l.head+headWindow/2)
	}
	if t.unfinished {
		t.askOneToPoll(place, caller)
	}
	if till := t.pollTime(token, pushed); till > t.now && l.len() > 0 &&
		!(l.pollAt > t.now && l.pollPlace >= place) {
		t.askNextToPoll(place, t.unconfirmedClient(pushed), caller, till)
	}
	return token, blocked || t.unfinished || t.holder != nil && l.len() > 0
}

// grantWaiting looks at those who are within reach, and answers the place where it ended.
func (t *step) grantWaiting(caller string) (place, token int64, blocked bool, pushed *waiter) {
	if t.holder != nil {
		return t.line.head, 0, false, nil
	}
	some, place := t.line.within()
	for _, w := range some {
		asks := w.attempt == caller
		if w.expiry <= t.now && !asks || t.aboveLimit(w) {
			t.line.leave(w.attempt)
			continue
		}
		if !asks && !t.hears(w) {
			continue
		}
		if !t.compatible(w.mode, w.weight) {
			return w.place, token, true, pushed
		}
		if asks {
			t.line.leave(w.attempt)
			token = t.grant(w.request)
		} else {
			t.notify(w, t.nextToken())
			t.line.leave(w.attempt)
			t.grantProvisional(w.request)
			pushed = w
		}
		if t.holder == nil {
			continue
		}
		if t.holder.admits(w.owner) {
			t.grantSameOwner(caller)
		}
		return w.place, token, false, pushed
	}
	return place, token, false, pushed
}

// aboveLimit says that a waiter wants more permits than there are since the limit was
// lowered: it leaves the line, or it would stop it for good.
func (t *step) aboveLimit(w *waiter) bool {
	return w.mode == permit && t.limit != 0 && w.weight > t.limit
}

// pollTime is when one who waits must look though nobody pushes to it: when a grant that
// was pushed may be over unconfirmed, or when one who has left would have looked.
func (t *step) pollTime(token int64, pushed *waiter) int64 {
	switch {
	case pushed != nil:
		return t.now + t.msUntilFree()
	case token == 0 && (t.holder != nil || len(t.shares) > 0):
		return t.line.missedPollAt
	}
	return 0
}

// unconfirmedClient is the client of which nobody knows yet whether it has heard of its grant.
func (t *step) unconfirmedClient(pushed *waiter) string {
	switch {
	case pushed != nil:
		return clientOf(pushed.attempt)
	case t.holder != nil && t.holder.provisional:
		return clientOf(t.holder.attempts()[0])
	}
	return ""
}

// hears says whether a waiter's client listens and is not silent.
func (t *step) hears(w *waiter) bool { return t.reaches(clientOf(w.attempt)) }

func (t *step) reaches(client string) bool {
	return !slices.Contains(t.line.silent, client) && t.listening(t.channelPrefix+client) > 0
}

// notify tells a waiter's client of its grant.
func (t *step) notify(w *waiter, token int64) {
	payload := fmt.Sprintf("granted %s %d %d %d %d", w.attempt, token, t.line.len()-1, t.now, provisionalLease(w.ttl))
	t.pushes = append(t.pushes, message{t.channelPrefix + clientOf(w.attempt), payload})
}

// grantSameOwner lets in whoever waits in the name of the owner that has just been
// granted the lock: they hold together. Who does not listen is passed over, and
// the caller asks by itself; so does who stands out of reach.
func (t *step) grantSameOwner(caller string) {
	some, _ := t.line.within()
	for _, w := range some {
		if w.attempt == caller || w.owner != t.holder.name || w.expiry <= t.now || !t.hears(w) {
			continue
		}
		t.notify(w, t.fence)
		t.line.leave(w.attempt)
		t.extendRecord(w.ttl)
		t.holder.entries = append(t.holder.entries, w.attempt)
		t.holder.expiry = max(t.holder.expiry, t.now+provisionalLease(w.ttl))
	}
}
