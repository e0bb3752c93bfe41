package memstore

import (
	"fmt"
	"slices"
)

// line is where attempts wait: one line for all modes, in order of arrival.
//
// A waiter that goes leaves a hole: places are never given again while
// anybody waits. An empty line starts over at place 1.
type queue struct {
	waiters   []*waiter // by place
	tail      int64     // the last place given
	head      int64     // no place before this one is taken
	cursor    int64     // where a walk goes on behind those near head
	pollAt    int64     // when the waiter at pollPlace looks, told by hint; ms
	pollPlace int64

	// missedPollAt is what watched was before this step, if who was to look has left in it.
	missedPollAt int64
	silent       []string // clients that did not confirm what was pushed to them; they are passed over
}

// waiter stands in the line. It must be heard of before its place expires.
type waiter struct {
	request
	place  int64
	expiry int64 // when its place in the line ends unless it is heard of
	joined int64
}

func (q *queue) len() int64 { return int64(len(q.waiters)) }

// find finds the waiter of an attempt, nil if it does not wait.
func (q *queue) find(attempt string) *waiter {
	for _, w := range q.waiters {
		if w.attempt == attempt {
			return w
		}
	}
	return nil
}

// join gives the next place.
func (q *queue) join(w *waiter) {
	if len(q.waiters) == 0 {
		q.head, q.tail = 1, 0
	}
	q.tail++
	w.place = q.tail
	q.waiters = append(q.waiters, w)
}

// leave takes an attempt out of the line and says whether it stood there. Who has left
// looks no more.
func (q *queue) leave(attempt string) bool {
	was := len(q.waiters)
	if w := q.find(attempt); w != nil && w.place == q.pollPlace {
		q.missedPollAt, q.pollAt, q.pollPlace = q.pollAt, 0, 0
	}
	q.waiters = slices.DeleteFunc(q.waiters, func(w *waiter) bool { return w.attempt == attempt })
	if len(q.waiters) == 0 {
		q.silent, q.pollAt, q.pollPlace, q.cursor = nil, 0, 0, 0
	}
	return len(q.waiters) < was
}

// A step looks at so many places from head on, and at so many from cursor on: it costs
// the same however long the line is.
const (
	headWindow   = 64
	cursorWindow = 256
)

// inReach are those whom one step looks at, and the place behind them: those near head,
// and those from cursor on, behind others who were passed over and have not asked since.
func (q *queue) inReach() (some []*waiter, end int64) {
	from := max(q.head+headWindow, q.cursor)
	for _, w := range q.waiters {
		if w.place < q.head+headWindow || from <= w.place && w.place < from+cursorWindow {
			some = append(some, w)
		}
	}
	if q.tail < q.head+headWindow-1 {
		return some, q.tail + 1
	}
	return some, max(from, min(from+cursorWindow, q.tail+1))
}

// mostSilent is how many silent clients a line remembers.
const mostSilent = 16

// markSilent notes that a client is silent.
func (q *queue) markSilent(client string) {
	if len(q.waiters) == 0 || slices.Contains(q.silent, client) {
		return
	}
	if q.silent = append(q.silent, client); len(q.silent) > mostSilent {
		q.silent = q.silent[1:]
	}
}

// clearSilent takes that note away: the client asks.
func (q *queue) clearSilent(client string) {
	q.silent = slices.DeleteFunc(q.silent, func(other string) bool { return other == client })
}

// ahead is an upper bound of the waiters up to and including w: holes count.
func (q *queue) ahead(w *waiter) int64 { return w.place - q.head + 1 }

func (q *queue) clone() queue {
	c := *q
	c.missedPollAt = 0
	c.silent = slices.Clone(q.silent)
	c.waiters = make([]*waiter, len(q.waiters))
	for i, w := range q.waiters {
		copied := *w
		c.waiters[i] = &copied
	}
	return c
}

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
	q := &t.queue
	if own := q.find(caller); own != nil {
		q.cursor = min(q.cursor, own.place)
		if t.aboveLimit(own) {
			q.leave(caller)
			caller = ""
		}
	}
	place, token, blocked, pushed := t.grantWaiting(caller)
	t.unfinished = q.len() > 0 && place <= q.tail && t.holder == nil && !blocked
	if q.len() > 0 {
		q.cursor = max(q.cursor, place)
		q.head = min(q.waiters[0].place, q.head+headWindow/2)
	}
	if t.unfinished {
		t.askOneToPoll(place, caller)
	}
	if till := t.pollTime(token, pushed); till > t.now && q.len() > 0 &&
		!(q.pollAt > t.now && q.pollPlace >= place) {
		t.askNextToPoll(place, t.unconfirmedClient(pushed), caller, till)
	}
	return token, blocked || t.unfinished || t.holder != nil && q.len() > 0
}

// grantWaiting looks at those who are within reach, and answers the place where it ended.
func (t *step) grantWaiting(caller string) (place, token int64, blocked bool, pushed *waiter) {
	if t.holder != nil {
		return t.queue.head, 0, false, nil
	}
	some, place := t.queue.inReach()
	for _, w := range some {
		asks := w.attempt == caller
		if w.expiry <= t.now && !asks || t.aboveLimit(w) {
			t.queue.leave(w.attempt)
			continue
		}
		if !asks && !t.hears(w) {
			continue
		}
		if !t.compatible(w.mode, w.weight) {
			return w.place, token, true, pushed
		}
		if asks {
			t.queue.leave(w.attempt)
			token = t.grant(w.request)
		} else {
			t.notify(w, t.nextToken())
			t.queue.leave(w.attempt)
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
		return t.queue.missedPollAt
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
	return !slices.Contains(t.queue.silent, client) && t.listening(t.channelPrefix+client) > 0
}

// notify tells a waiter's client of its grant.
func (t *step) notify(w *waiter, token int64) {
	payload := fmt.Sprintf("granted %s %d %d %d %d", w.attempt, token, t.queue.len()-1, t.now, provisionalLease(w.ttl))
	t.pushes = append(t.pushes, message{t.channelPrefix + clientOf(w.attempt), payload})
}

// grantSameOwner lets in whoever waits in the name of the owner that has just been
// granted the lock: they hold together. Who does not listen is passed over, and
// the caller asks by itself; so does who stands out of reach.
func (t *step) grantSameOwner(caller string) {
	some, _ := t.queue.inReach()
	for _, w := range some {
		if w.attempt == caller || w.owner != t.holder.name || w.expiry <= t.now || !t.hears(w) {
			continue
		}
		t.notify(w, t.fence)
		t.queue.leave(w.attempt)
		t.extendRecord(w.ttl)
		t.holder.entries = append(t.holder.entries, w.attempt)
		t.holder.expiry = max(t.holder.expiry, t.now+provisionalLease(w.ttl))
	}
}

// askNextToPoll lets one in the line know when to look: the last, or the next from place on if
// the last is of the client that may not have heard of its grant. Caller learns it by its
// answer.
func (t *step) askNextToPoll(place int64, client, caller string, till int64) {
	other := t.queue.waiters[t.queue.len()-1]
	if other.place != t.queue.tail || clientOf(other.attempt) == client {
		other = nil
		for _, w := range t.queue.waiters {
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
	t.queue.pollAt, t.queue.pollPlace = till, other.place
}

// askToPoll lets a waiter know that the lock may be free in so many ms.
func (t *step) askToPoll(w *waiter, left int64) {
	t.pushes = append(t.pushes,
		message{t.channelPrefix + clientOf(w.attempt), fmt.Sprintf("kept %s %d", w.attempt, left)})
}

// askFirstToPoll lets the first waiter who listens know that the lock is free earlier. If it
// leaves, another is told.
func (t *step) askFirstToPoll(left int64) {
	some, _ := t.queue.inReach()
	for _, w := range some {
		if t.hears(w) {
			t.askToPoll(w, left)
			t.queue.pollAt, t.queue.pollPlace = t.now+left, w.place
			return
		}
	}
}

// askOneToPoll lets one who listens look at once: the caller, or one of the last in line.
func (t *step) askOneToPoll(place int64, caller string) {
	if w := t.queue.find(caller); w != nil && t.hears(w) {
		t.askToPoll(w, 1)
		return
	}
	first := max(place, t.queue.tail-headWindow+1)
	for _, w := range slices.Backward(t.queue.waiters) {
		if w.place >= first && t.hears(w) {
			t.askToPoll(w, 1)
			return
		}
	}
}

// keepWaiting keeps a waiter's place for longer and answers its place.
func (t *step) keepWaiting(w *waiter, waiterTTL int64) string {
	w.expiry = t.now + waiterTTL
	t.extendRecord(waiterTTL)
	return fmt.Sprintf("queued %d %d %d", t.queue.ahead(w), t.msUntilFree(), t.now)
}
