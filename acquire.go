// From the call of a kind to its lease: the checks, the turn in this process, the hold.

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/localqueue"
	"github.com/holdfast-go/holdfast/internal/pushes"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/waitsfor"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// acquire acquires the lock. It waits as long as the options allow, or not at all if try is
// set.
func (lk *lock) acquire(ctx context.Context, try bool) (*Lease, error) {
	l, err := lk.checkOrReenter(ctx)
	switch {
	case l != nil || err != nil:
	case try || lk.maxWait == 0:
		l, err = lk.acquireAs(ctx, ctx, true)
	case lk.tries > 0:
		l, err = lk.tryOften(ctx)
	case lk.maxWait < 0:
		l, err = lk.acquireAs(ctx, ctx, false)
	default:
		limited, cancel := bounded(ctx, lk.maxWait)
		defer cancel()
		l, err = lk.acquireAs(limited, ctx, false)
	}
	if l != nil && lk.client.events.logs {
		l.state.acquiredPC = caller(2) // of the kind's method
	}
	return l, err
}

// checkOrReenter refuses calls that need no request to be refused. If ctx belongs to a lease
// of the same lock and the options allow it, it re-enters. If it returns neither a lease nor
// an error, the caller must ask the server.
func (lk *lock) checkOrReenter(ctx context.Context) (*Lease, error) {
	switch {
	case lk.err != nil:
		return nil, lk.err
	case ctx == nil:
		return nil, errNoContext
	case lk.client.life.IsClosing():
		return nil, ErrClosed
	case ctx.Err() != nil:
		return nil, fmt.Errorf("holdfast: lock %q: %w", lk.name, ctx.Err())
	case leaseOf(ctx) == nil:
		return nil, nil
	}
	held, reenters := lk.heldBy(ctx), lk.reentrant || lk.owner != ""
	switch {
	case held == nil || !reenters && lk.want != wire.Exclusive:
		return nil, nil
	case held.hold.lock.rw.any(), held.hold.lock.want != lk.want, lk.owner != held.hold.lock.owner,
		!reenters && !lk.canReenter:
		// The caller would wait for itself.
		return nil, held.deadlock()
	case !reenters:
		return nil, reenterableError{held.deadlock()}
	}
	return held.reenter(ctx)
}

// acquireAs acquires the lock as its mode wants: first the turn in this process, then the lock on
// the server.
// If a hold comes with the turn, it asks no server. ctx bounds the wait. parent is the
// parent of the lease's own context.
func (lk *lock) acquireAs(ctx, parent context.Context, try bool) (*Lease, error) {
	c := lk.client
	if !c.life.BeginCall() {
		return nil, ErrClosed
	}
	defer c.life.EndCall()
	var observed *call
	if c.events.observed() {
		ctx, observed = c.events.begin(ctx, parent, c.now())
	}
	var chain *chainWait
	if outer := waitsfor.OuterOf(parent); outer != nil || leaseOf(parent) != nil {
		ctx, chain = lk.beginChain(ctx, parent, outer)
	}
	acquire := lk.acquireExclusive
	switch lk.want[0] { // the mode, as in the script
	case 's':
		acquire = lk.acquireShared
	case 'p':
		acquire = lk.acquirePermits
	}
	l, wake, err := acquire(ctx, parent, try)
	if chain != nil {
		err = chain.end(ctx, err)
	}
	//nolint:errorlint // only the bare errors: every wrapped error has the lock's name already
	if err == ctx.Err() && err != nil || err == ErrClosed {
		err = fmt.Errorf("holdfast: lock %q: %w", lk.name, err)
	}
	if err != nil {
		err = lk.asHeldError(ctx, parent, err)
	}
	switch {
	case observed == nil:
	case err != nil:
		lk.reportFailure(observed, err)
	default:
		c.events.tellGrant(l.state, Event{Wake: wake, Wait: c.now() - observed.start, Waited: observed.waited})
	}
	return l, err
}

// acquireExclusive acquires the lock for one holder. The turn of this process goes with the hold. After
// an error it is passed on.
func (lk *lock) acquireExclusive(ctx, parent context.Context, try bool) (*Lease, Wake, error) {
	c := lk.client
	wake := WakeNone
	if lk.usesLocalQueue() {
		turn, err := c.localQueue.TakeTurn(ctx, lk.key(), localqueue.Exclusive, lk, try)
		if err != nil {
			return nil, wake, lk.endedHere(ctx, err)
		}
		if turn.Waited {
			wake = WakeLocal
		}
		if handedOver := turn.Hold; handedOver != nil {
			if !lk.noHandOver && fits(handedOver, lk) {
				if l := handedOver.newLease(parent); l != nil {
					tagHold(handedOver, lk.tags)
					return l, wake, nil
				}
			}
			// The hold was lost during the hand-over, or it has other parameters than this
			// call wants.
			if c.renewer.Remove(&handedOver.Item) {
				untilEnd(ctx, c, func() { _ = handedOver.release(ctx, releaseMode{}) })
			}
		}
	}
	h, w, err := lk.runAttempt(ctx, &retries{c: c, lock: lk, try: try})
	if err == nil {
		if lk.usesLocalQueue() {
			lk.turn().SetHold(h)
		}
		if l := h.newLease(parent); l != nil {
			return l, max(wake, w), nil
		}
		err = h.endReason()
	}
	if lk.usesLocalQueue() {
		lk.turn().PassOn()
	}
	return nil, wake, err
}

// acquirePermits acquires permits. Each acquisition has a hold of its own. Of the
// goroutines of this process, only one at a time waits at the server. So a process has one
// position in the wait queue, and serves its goroutines in order. Goroutines that only try
// do not wait for their turn. They cannot overtake, because the server grants them nothing
// while others wait.
func (lk *lock) acquirePermits(ctx, parent context.Context, try bool) (*Lease, Wake, error) {
	c := lk.client
	retry := &retries{c: c, lock: lk, try: try}
	if try || c.cfg.MaxLocalHandOvers < 0 {
		return lk.takePermits(ctx, parent, retry)
	}
	if !c.localQueue.Busy(lk.key(), localqueue.Permits) {
		// No goroutine of this process waits, so perhaps the first request is granted.
		retry.try = true
		l, w, err := lk.takePermits(ctx, parent, retry)
		if !errors.Is(err, ErrHeld) && !isTransient(lk.client, err) {
			return l, w, err
		}
		retry = retry.forWait(err)
	}
	turn, err := c.localQueue.TakeTurn(ctx, lk.key(), localqueue.Permits, lk, false)
	if err != nil {
		return nil, WakeNone, lk.endedHere(ctx, retry.ended(ctx, err))
	}
	l, w, err := lk.takePermits(ctx, parent, retry)
	turn.PassOn()
	return l, w, err
}

func (lk *lock) takePermits(ctx, parent context.Context, retry *retries) (*Lease, Wake, error) {
	h, w, err := lk.runAttempt(ctx, retry)
	if err != nil {
		return nil, w, err
	}
	if l := h.newLease(parent); l != nil {
		return l, w, nil
	}
	return nil, w, h.endReason()
}

// trying says how often a call tries, and at which interval.
type trying struct {
	tries    int // 0: the call waits
	interval time.Duration
}

// tryOften acquires the lock by trying. Each try is an acquisition of its own: after a
// failed try the caller holds nothing. An error that is not transient ends the call.
func (lk *lock) tryOften(ctx context.Context) (*Lease, error) {
	start := lk.client.now()
	for n := 1; ; n++ {
		l, err := lk.acquireAs(ctx, ctx, true)
		var held *HeldError
		known := errors.As(err, &held)
		if err == nil || !known && !isTransient(lk.client, err) || request.Ended(ctx) != nil {
			return l, err
		}
		if n == lk.tries {
			told := HeldError{Name: lk.name, Err: reason(err)}
			if known {
				told = *held
			}
			told.Tries, told.Waited = n, lk.client.now()-start
			return nil, &told
		}
		timer := time.NewTimer(lk.interval/2 + time.Duration(lk.client.chance()*float64(lk.interval)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("holdfast: lock %q: %w", lk.name, ctx.Err())
		case <-lk.client.life.Closing():
			timer.Stop()
			return nil, fmt.Errorf("holdfast: lock %q: %w", lk.name, ErrClosed)
		}
	}
}

// attempt is one acquisition at the server.
type attempt struct {
	c       *Client
	lock    *lock
	id      string
	number  uint64        // the number in id
	askedAt time.Duration // before the client sent the last request that may have led to a grant

	unanswered  int // how many acquires got no answer
	again       again
	answered    bool // the last acquire was answered
	needsCancel bool // the server may have a hold or a position of the attempt

	inQueue      bool          // the server has put the attempt into the wait queue
	queuedAt     uint64        // when the server last said so, by its clock, in ms
	queuedSentAt time.Duration // when the client sent the request for that answer

	waiter    *pushes.Waiter // for its push; nil: the attempt does not ask to wait
	wake      Wake           // what woke it last
	buf       request.Buffer // of the first request
	sentAlone int            // how many requests were sent alone
}

// newAttemptID returns the ID and the number of a new attempt of this client.
func (c *Client) newAttemptID() (id string, number uint64) {
	number = c.attempts.Add(1)
	return attemptID(c, number), number
}

// attemptID returns the attempt ID with that number.
func attemptID(c *Client, number uint64) string {
	return string(appendAttempt(make([]byte, 0, 96), c.id, number)) // one allocation in all
}

// attemptOf returns the ID of the attempt that a hold was granted to.
func attemptOf(h *hold) string { return attemptID(h.lock.client, h.number) }

// identityOf returns the ID of a hold's attempt and the server's part of its token, as requests need
// them. Both are in one text, which is one allocation.
func identityOf(h *hold) (attempt, token string) {
	b := appendAttempt(make([]byte, 0, 120), h.lock.client.id, h.number)
	both := string(strconv.AppendUint(b, h.server.Load(), 10))
	return both[:len(b)], both[len(b):]
}

// appendAttempt appends the ID of an attempt: the client's ID, a slash and the number.
func appendAttempt(to []byte, client string, number uint64) []byte {
	return strconv.AppendUint(append(append(to, client...), '/'), number, 10)
}

// runAttempt acquires the lock at the server, or waits for it there. After an error the
// server keeps nothing for the attempt, or a cancel runs in the background.
func (lk *lock) runAttempt(ctx context.Context, retry *retries) (*hold, Wake, error) {
	c := lk.client
	if c.life.IsClosing() {
		return nil, WakeNone, ErrClosed
	}
	if !c.preflight.Passed(lk.ack) {
		if err := retry.prepare(ctx, lk); err != nil {
			return nil, WakeNone, err
		}
	}
	c.registration.Start()
	id, number := c.newAttemptID()
	at := &attempt{c: c, lock: lk, id: id, number: number, again: again{began: c.now()}}
	// To join the queue in its first request, the client must have the subscription
	// already, or know that it cannot get one.
	if !retry.try && c.hub.Active() {
		if at.waiter = c.hub.Await(lk.channel, number); at.waiter == nil && c.pushing.refused(c.now()) {
			at.waiter = c.hub.Unsubscribed(lk.channel, number)
		}
	}
	a, err := at.askUntilAnswered(ctx, retry)
	if at.waiter != nil {
		defer func() { c.hub.Forget(at.waiter) }()
	}
	defer at.untag()
	if err != nil {
		return nil, WakeNone, at.failed(ctx, err, retry)
	}
	h, err := at.handleAnswer(ctx, a)
	if err == nil && lk.ack.Wanted() {
		if err = h.confirm(ctx); err != nil {
			h = nil
		}
	}
	return h, at.wake, err
}

// askUntilAnswered asks for the lock until the server answers. If the lock is held, it joins the wait
// queue. After a request of unknown outcome it asks under a new attempt ID. Otherwise a
// late copy of the first request could be granted a lock that is already released.
func (at *attempt) askUntilAnswered(ctx context.Context, retry *retries) (wire.Answer, error) {
	a, err := at.askFirst(ctx)
	for {
		if err == nil && a.Kind == wire.Busy && !retry.try && at.waiter == nil {
			// This is the first contention of this process. So subscribe, wait for the
			// confirmation, and only then join the queue.
			a, err = at.join(ctx)
		}
		if err == nil || errors.Is(err, wire.ErrAnswer) ||
			!retry.pauseAfter(ctx, err) && !(retry.try && at.withdrawn(ctx, err)) {
			return a, err
		}
		if at.needsCancel {
			at.newAttemptID()
		}
		a, err = at.ask(ctx, script.Acquire)
	}
}

// withdrawn reports whether a call that does not wait may ask anew. Its connection broke, or was given up,
// before the request's time was over, and the server has answered the cancel. Without that answer the
// next attempt could find the lock held by this one, and call it held.
func (at *attempt) withdrawn(ctx context.Context, err error) bool {
	return at.needsCancel && isBreak(err) && at.again.may(at.lock) && withdraw(ctx, at.lock, script.Cancel, at.id)
}

// ask sends acquire or poll for the attempt.
func (at *attempt) ask(ctx context.Context, action *script.Script) (wire.Answer, error) {
	lk, c := at.lock, at.c
	waiterTTL := "0"
	if at.waiter != nil {
		waiterTTL = lk.waiterTTL
	}
	buf := &at.buf
	if at.sentAlone++; at.sentAlone > 1 {
		buf = new(request.Buffer)
	}
	args := append(buf.Args[:0], at.id, lk.ttlMS, lk.recordTTL, lk.want, waiterTTL, lk.channelPrefix)
	if action == script.Poll {
		args = append(buf.Args[:0], at.id, lk.ttlMS, c.retention, waiterTTL, lk.channelPrefix)
	}
	args = lk.owned(args)
	sent := c.now()
	limit := leasetime.AcquireLimit(c.sender.Timeout, lk.ttl, at.unanswered)
	a, err := c.sender.AskWithin(ctx, buf, limit, action, lk.keys(), args)
	if err == nil || !request.Definite(err) {
		at.askedAt = sent
		// After some answers the server keeps nothing. Then earlier requests have left
		// nothing either.
		at.needsCancel = err != nil || a.Kind != wire.Busy && a.Kind != wire.Conflict && a.Kind != wire.Gone
	}
	if action == script.Acquire {
		at.answered = err == nil
		if err != nil && at.needsCancel {
			at.unanswered++
		}
	}
	if a.Kind == wire.Queued {
		at.inQueue, at.queuedAt, at.queuedSentAt = true, a.Now, sent
		at.tag()
		waitsInChain(ctx, at.id, a.Place)
	}
	return a, err
}

// askFirst sends the first request of an attempt. If many are under way, it goes into a batch.
func (at *attempt) askFirst(ctx context.Context) (a wire.Answer, err error) {
	batch := at.lock.batch
	if batch == nil {
		return at.ask(ctx, script.Acquire)
	}
	offered := at.c.now() // before anything is sent, so the lease may be counted from it
	item := batch.Offer(request.One{Key: at.lock.key(), Attempt: at.id})
	if item == nil {
		defer batch.DoneAlone()
		return at.ask(ctx, script.Acquire)
	}
	o, answered := batch.Await(item, ctx.Done())
	if !answered {
		if item.Withdraw() {
			return a, ctx.Err() // before anything was sent
		}
		o.Err = ctx.Err()
	}
	switch {
	case o.Err != nil:
		at.needsCancel = !request.Definite(o.Err)
		return a, o.Err
	case !o.Done:
		return at.ask(ctx, script.Acquire)
	}
	at.askedAt, at.answered, at.needsCancel = offered, true, true
	return wire.Answer{Kind: wire.Granted, Token: o.Token}, nil
}

// cancel withdraws the attempt, with all that it has or may still get.
func (at *attempt) cancel() {
	c, a := at.c, at.lock.toCancel(at.id)
	if at.waiter == nil {
		c.canceller.CancelUnknown(a)
		return
	}
	c.canceller.CancelWaiter(a, at.number)
}

// toCancel returns an attempt as a cancel needs it.
func (lk *lock) toCancel(id string) request.Attempt {
	return request.Attempt{ID: id, Keys: lk.keys(), Owner: lk.owner, ChannelPrefix: lk.channelPrefix, TTL: lk.ttl}
}

// failed returns the error of an attempt that ends because a request failed. retry has what is known
// of the request before it, if that failed too. A request that was refused or not
// sent leaves nothing behind, but earlier requests may have.
func (at *attempt) failed(ctx context.Context, err error, retry *retries) error {
	c := at.c
	if at.needsCancel {
		at.cancel()
	}
	end := request.Ended(ctx)
	switch {
	case end != nil && request.Transient(err):
		return &endedError{
			name: at.lock.name, end: end, last: whyLast(err, retry.last), unknown: at.needsCancel,
			silent: cmp.Or(request.Interrupted(err), retry.silent),
		}
	case c.life.IsClosing() && request.Transient(err):
		return ErrClosed
	}
	return wrap("lock", at.lock.name, err)
}

// handleAnswer turns an answer into a hold, an error, or a wait.
func (at *attempt) handleAnswer(ctx context.Context, a wire.Answer) (*hold, error) {
	lk := at.lock
	if a.Kind == wire.Queued && at.waiter == nil {
		a.Kind = 0 // the attempt did not ask to wait, and would not receive the push
	}
	switch a.Kind {
	case wire.Granted:
		return at.granted(grant{token: a.Token, waiting: a.Waiting, since: at.askedAt})
	case wire.Busy:
		return nil, &HeldError{Name: lk.name, HeldBy: wire.Holder(a.Holder), Remaining: a.Left}
	case wire.Conflict:
		return nil, &LimitError{Name: lk.name, InUse: a.Count, Asked: lk.limit}
	case wire.Queued:
		lk.reportEvent(ctx, Event{Kind: EventWait, HolderID: at.id, Position: a.Place})
		return at.await(ctx, a)
	default:
		at.cancel()
		return nil, wrap("lock", lk.name, wire.OtherAnswer("acquire"))
	}
}

// granted makes a hold of a grant, or cancels it.
func (at *attempt) granted(g grant) (_ *hold, err error) {
	g.number, g.wasInQueue = at.number, at.inQueue
	defer at.cancelAfter(&err)
	return newHold(at.lock, g)
}

// cancelAfter cancels the attempt after an error.
func (at *attempt) cancelAfter(err *error) {
	if *err != nil {
		at.cancel()
	}
}
