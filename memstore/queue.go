package memstore

import (
	"fmt"
	"slices"
)

// queue is the wait queue: one for all modes, in order of arrival.
//
// A waiter that leaves makes a hole. No place is used twice while anybody waits. An empty
// queue starts again at place 1.
type queue struct {
	waiters   []*waiter // by place
	tail      int64     // the last place given
	head      int64     // no place before this one is taken
	cursor    int64     // where a step goes on after the places near head
	pollAt    int64     // ms: when the waiter at pollPlace polls, because it was asked to
	pollPlace int64

	// If a pushed grant was not confirmed, the other waiters were asked to poll.
	askedUntil int64   // ms: when the time to answer ends
	askedEnd   int64   // those before this place were asked; 0: none
	answers    []int64 // the places of those that have polled since
	doubt      bool    // in this step, a pushed grant turned out not to be confirmed

	// If the waiter that was asked to poll leaves in this step, missedPollAt keeps its pollAt.
	missedPollAt int64
	silent       []string // clients that did not confirm a push; serveQueue skips them
}

// waiter is an attempt in the queue. It loses its position unless it polls in time.
type waiter struct {
	request
	place  int64
	expiry int64 // ms: when it loses its position unless it polls
	joined int64
}

func (q *queue) len() int64 { return int64(len(q.waiters)) }

// find returns the waiter of an attempt, nil if it does not wait.
func (q *queue) find(attempt string) *waiter {
	for _, w := range q.waiters {
		if w.attempt == attempt {
			return w
		}
	}
	return nil
}

// join adds a waiter at the next place.
func (q *queue) join(w *waiter) {
	if len(q.waiters) == 0 {
		q.head, q.tail = 1, 0
	}
	q.tail++
	w.place = q.tail
	q.waiters = append(q.waiters, w)
}

// leave removes an attempt from the queue and reports whether it was there. If it was the
// waiter that polls next, serveQueue asks another.
func (q *queue) leave(attempt string) bool {
	was := len(q.waiters)
	if w := q.find(attempt); w != nil && w.place == q.pollPlace {
		q.missedPollAt, q.pollAt, q.pollPlace = q.pollAt, 0, 0
	}
	q.waiters = slices.DeleteFunc(q.waiters, func(w *waiter) bool { return w.attempt == attempt })
	if len(q.waiters) == 0 {
		q.silent, q.pollAt, q.pollPlace, q.cursor = nil, 0, 0, 0
		q.forgetAnswers()
	}
	return len(q.waiters) < was
}

// A step reads at most headWindow places from head on, cursorWindow from cursor on, and tailWindow
// before the end. So its cost does not grow with the queue.
const (
	headWindow   = 64
	cursorWindow = 64
	tailWindow   = 32
)

// inReach are the waiters in the two windows, and the place after them. Between the windows
// are waiters that earlier steps have skipped and that have not polled since.
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

// mostSilent is the number of silent clients that a queue remembers.
const mostSilent = 15

// markSilent notes that a client is silent: it has not confirmed a push.
func (q *queue) markSilent(client string) {
	q.doubt = true
	if len(q.waiters) == 0 || slices.Contains(q.silent, client) {
		return
	}
	for q.silent = append(q.silent, client); len(q.silent) > mostSilent; {
		q.unmark(0)
	}
}

// clearSilent removes that note, because the client has sent a request.
func (q *queue) clearSilent(client string) {
	if i := slices.Index(q.silent, client); i >= 0 {
		q.unmark(i)
	}
}

// unmark removes a note. Earlier steps have skipped that client's waiters, and a push may
// reach them now. So the cursor and askedEnd go, because they are before it.
func (q *queue) unmark(i int) {
	q.silent, q.cursor = slices.Delete(q.silent, i, i+1), 0
	q.forgetAnswers()
}

func (q *queue) forgetAnswers() { q.askedUntil, q.askedEnd, q.answers = 0, 0, nil }

// unanswered reports whether a waiter was asked to poll, and has not done so.
func (q *queue) unanswered(w *waiter) bool {
	return w.place < q.askedEnd && !slices.Contains(q.answers, w.place)
}

// mostAnswers is the number of answers that a queue remembers.
const mostAnswers = 16

// noteAnswer notes that a waiter has polled. If there are too many answers, the last places are
// forgotten. Then those waiters are as if they had not been asked.
func (q *queue) noteAnswer(w *waiter) {
	if !q.unanswered(w) {
		return
	}
	if q.answers = append(q.answers, w.place); len(q.answers) > mostAnswers {
		q.askedEnd = slices.Max(q.answers)
		q.answers = slices.DeleteFunc(q.answers, func(place int64) bool { return place >= q.askedEnd })
	}
}

// ahead is an upper bound of the waiters up to and including w: holes count.
func (q *queue) ahead(w *waiter) int64 { return w.place - q.head + 1 }

func (q *queue) clone() queue {
	c := *q
	c.missedPollAt, c.doubt = 0, false
	c.silent, c.answers = slices.Clone(q.silent), slices.Clone(q.answers)
	c.waiters = make([]*waiter, len(q.waiters))
	for i, w := range q.waiters {
		copied := *w
		c.waiters[i] = &copied
	}
	return c
}

// serveQueue grants the lock to the first waiters, as long as they are compatible.
//
//   - It removes a waiter that has expired, or that wants more permits than the limit.
//   - It skips a waiter that no push can reach, compatible or not. That waiter keeps its
//     position until it expires.
//   - A waiter that is not compatible ends the walk, because nobody may overtake it.
//   - A grant by a push is provisional until its client confirms it.
//   - After a pushed grant that nobody confirmed it pushes no grant, and asks instead: it tells
//     all waiters that it visits to poll within answerTime. The caller has answered. Until then
//     nobody overtakes a waiter that has not answered. After that, such a waiter is passed over
//     until it polls. So the queue waits once for all clients that are frozen.
//   - If the lock may be free and there are waiters beyond the two windows, one waiter is
//     asked to poll at once. So it is while a sweep is under way.
//
// caller is the attempt whose request this is, or empty. It cannot have expired, and it
// needs no push. The step visits it although earlier steps have skipped it. serveQueue
// returns the caller's token if it was granted (else 0), and whether a newcomer must queue
// up.
//
// For example, a writer releases, and in the queue are: R1 at place 4, R2 at 5, R3 at 6, the
// writer W at 7, R4 at 8. R1 to R4 are readers, and R2's client has no subscription now. The walk
// begins at head, which is 4. R1 gets a push and a provisional grant. R2 is skipped and keeps
// place 5. R3 may read beside R1, so it gets a grant too. W may not: it ends the walk (blocked), and
// R4 does not overtake it. head is now 5, the first place that is taken, and cursor is 7. R1 and R3
// may both have died after they subscribed. Then nobody would ask when their grants expire. So the
// step asks R4, the last waiter, to poll at that time (pollTime, askNextToPoll), and W as well if R4 has
// waited for long.
func (st *step) serveQueue(caller string) (token int64, blocked bool) {
	q := &st.queue
	q.askedUntil = min(q.askedUntil, st.now+answerTime) // the clock was set back
	if own := q.find(caller); own != nil {
		q.cursor = min(q.cursor, own.place)
		q.noteAnswer(own)
		if st.aboveLimit(own) {
			q.leave(caller)
			caller = ""
		}
	}
	place, token, blocked, pushed := st.grantWaiting(caller)
	st.unfinished = q.len() > 0 && place <= q.tail && st.holder == nil && !blocked
	if q.len() > 0 {
		q.cursor = max(q.cursor, place)
		q.head = min(q.waiters[0].place, q.head+headWindow/2)
		if q.askedEnd <= q.head {
			q.forgetAnswers()
		}
	}
	if st.unfinished || st.sweeping() && q.len() > 0 {
		st.askOneToPoll(place, caller)
	}
	if till := st.pollTime(token, pushed); till > st.now && q.len() > 0 &&
		(q.pollAt <= st.now || q.pollPlace < place) {
		st.askNextToPoll(place, st.unconfirmedClient(pushed), caller, till)
	}
	st.mustQueue = blocked || st.unfinished || st.holder != nil && q.len() > 0
	return token, st.mustQueue
}

// grantWaiting grants the lock to waiters in the two windows. It returns the place at which
// it ended.
func (st *step) grantWaiting(caller string) (place, token int64, blocked bool, pushed *waiter) {
	if st.holder != nil {
		return st.queue.head, 0, false, nil
	}
	q := &st.queue
	some, place := q.inReach()
	doubt, asked := q.doubt && q.askedUntil <= st.now, int64(0)
	var answers []int64
walk:
	for _, w := range some {
		asks := w.attempt == caller
		if w.expiry <= st.now && !asks || st.aboveLimit(w) {
			q.leave(w.attempt)
			continue
		}
		if !asks && (st.passedOver(w) || !st.canReach(w)) {
			continue
		}
		switch {
		case !st.compatible(w.mode, w.weight), !asks && !doubt && q.unanswered(w):
			place, blocked = w.place, true
			break walk
		case asks && asked > 0:
			answers = []int64{w.place}
		case asks:
			q.leave(w.attempt)
			token = st.grant(w.request)
		case doubt:
			st.askToPoll(w, 1)
			asked = max(asked, min(w.ttl, answerTime))
		default:
			st.notify(w, st.nextToken())
			q.leave(w.attempt)
			st.grantProvisional(w)
			pushed = w
		}
		if st.holder != nil {
			if st.holder.admits(w.owner) {
				st.grantSameOwner(caller)
			}
			return w.place, token, false, pushed
		}
	}
	if asked > 0 {
		q.askedUntil, q.askedEnd, q.answers, blocked = st.now+asked, place, answers, true
	}
	return place, token, blocked, pushed
}

// answerTime is how long, in ms, waiters that were asked to poll have for that.
const answerTime = 1500

// passedOver reports whether a waiter was asked to poll, and has not done so in time.
func (st *step) passedOver(w *waiter) bool {
	return st.queue.askedUntil <= st.now && st.queue.unanswered(w)
}

// aboveLimit reports whether a waiter wants more permits than the limit, which was lowered
// since. Such a waiter leaves the queue, because it would block the queue for ever.
func (st *step) aboveLimit(w *waiter) bool {
	return w.mode == permit && st.limit > 0 && w.weight > st.limit
}

// pollTime is when a waiter must poll although no push reaches it: when a pushed grant may
// have expired unconfirmed, or when a waiter that has left would have polled.
func (st *step) pollTime(token int64, pushed *waiter) int64 {
	switch {
	case pushed != nil && st.holder != nil:
		return st.holder.expiry
	case pushed != nil:
		return st.soonest
	case token == 0 && (st.holder != nil || len(st.shares) > 0):
		return st.queue.missedPollAt
	}
	return 0
}

// unconfirmedClient is the client that has not confirmed its grant yet.
func (st *step) unconfirmedClient(pushed *waiter) string {
	switch {
	case pushed != nil:
		return clientOf(pushed.attempt)
	case st.holder != nil && st.holder.provisional:
		return clientOf(st.holder.attempts()[0])
	}
	return ""
}

// canReach reports whether a push can reach a waiter: its client subscribes here, and is
// not silent.
func (st *step) canReach(w *waiter) bool { return st.canReachClient(clientOf(w.attempt)) }

func (st *step) canReachClient(client string) bool {
	return !slices.Contains(st.queue.silent, client) && st.listening(st.channelPrefix+client) > 0
}

// notify pushes a grant to a waiter.
func (st *step) notify(w *waiter, token int64) {
	payload := fmt.Sprintf("granted %s %d %d %d %d",
		w.attempt, token, st.queue.len()-1, st.now, provisionalLease(w.ttl))
	st.grants = append(st.grants, message{st.channelPrefix + clientOf(w.attempt), payload})
}

// grantSameOwner also grants the lock to the other waiters with the owner that has just got
// it: they hold it together. It skips waiters that no push can reach, and those beyond the
// two windows. The caller gets its answer without a push.
func (st *step) grantSameOwner(caller string) {
	some, _ := st.queue.inReach()
	for _, w := range some {
		if w.attempt == caller || w.owner != st.holder.name || w.expiry <= st.now || st.passedOver(w) ||
			!st.canReach(w) {
			continue
		}
		st.notify(w, st.fence)
		st.queue.leave(w.attempt)
		st.extendRecord(w.ttl)
		st.holder.entries = append(st.holder.entries, w.attempt)
		st.holder.expiry = max(st.holder.expiry, st.now+provisionalLease(w.ttl))
	}
}

// justJoined is how long after it joined, in ms, a waiter is taken to be alive.
const justJoined = 1000

// askNextToPoll asks the last waiter to poll at till. It may be frozen since it joined, and then nobody
// polls. So if it has not joined just now, the waiters from place on are asked, too. It asks no waiter
// of the client that may not have received its grant. The caller needs no push: its answer says it.
func (st *step) askNextToPoll(place int64, client, caller string, till int64) {
	q, poller := &st.queue, int64(0)
	tell := func(w *waiter) bool {
		if clientOf(w.attempt) == client || w.attempt != caller && !st.canReach(w) {
			return false
		}
		if w.attempt != caller {
			st.askToPoll(w, till-st.now)
		}
		q.pollAt, poller = till, max(poller, w.place)
		return true
	}
	last := q.waiters[len(q.waiters)-1]
	if last.place != q.tail || !tell(last) || st.now-last.joined > justJoined {
		for _, w := range q.waiters {
			if place <= w.place && w.place < min(q.tail, place+headWindow) {
				tell(w)
			}
		}
	}
	if poller > 0 {
		q.pollPlace = poller
	}
}

// askToPoll asks a waiter to poll in so many ms, because the lock may be free then.
func (st *step) askToPoll(w *waiter, left int64) {
	st.pushes = append(st.pushes,
		message{st.channelPrefix + clientOf(w.attempt), fmt.Sprintf("kept %s %d", w.attempt, left)})
}

// askFirstToPoll tells the first waiter that a push can reach that the lock is free earlier.
// If that waiter leaves, serveQueue tells another.
func (st *step) askFirstToPoll(left int64) {
	some, _ := st.queue.inReach()
	for _, w := range some {
		if !st.passedOver(w) && st.canReach(w) {
			st.askToPoll(w, left)
			st.queue.pollAt, st.queue.pollPlace = st.now+left, w.place
			return
		}
	}
}

// askOneToPoll asks one waiter to poll at once: the caller, or one of the last.
func (st *step) askOneToPoll(place int64, caller string) {
	if w := st.queue.find(caller); w != nil && st.canReach(w) {
		st.askToPoll(w, 1)
		return
	}
	first := max(place, st.queue.tail-tailWindow+1)
	for _, w := range slices.Backward(st.queue.waiters) {
		if w.place >= first && st.canReach(w) {
			st.askToPoll(w, 1)
			return
		}
	}
}

// keepWaiting extends the time for which a waiter keeps its position. It returns the answer.
func (st *step) keepWaiting(w *waiter, waiterTTL int64) string {
	w.expiry = st.now + waiterTTL
	st.extendRecord(waiterTTL)
	return fmt.Sprintf("queued %d %d %d", st.queue.ahead(w), st.msUntilFree(), st.now)
}
