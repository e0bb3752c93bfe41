// From the call of a kind to its lease: the checks, the turn in this process, the hold.

package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/localqueue"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/observe"
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
		l, err = tryOften(ctx, lk, func() (*Lease, error) { return lk.acquireAs(ctx, ctx, true) })
	case lk.maxWait < 0:
		l, err = lk.acquireAs(ctx, ctx, false)
	default:
		limited, cancel := bounded(ctx, lk.maxWait)
		defer cancel()
		l, err = lk.acquireAs(limited, ctx, false)
	}
	if l != nil && lk.client.events.log != nil {
		l.state.acquiredPC = caller(2) // of the kind's method
	}
	return l, err
}

// check refuses calls that need no request to be refused.
func (lk *lock) check(ctx context.Context) error {
	switch {
	case lk.err != nil:
		return lk.err
	case ctx == nil:
		return errNoContext
	case lk.client.life.IsClosing():
		return ErrClosed
	case ctx.Err() != nil:
		return errorf("holdfast: lock %q: %w", lk.name, ctx.Err())
	}
	return nil
}

// checkOrReenter is check for an acquisition. If ctx belongs to a lease of the same lock and the
// options allow it, it re-enters. If it returns neither a lease nor an error, the caller must ask
// the server.
func (lk *lock) checkOrReenter(ctx context.Context) (*Lease, error) {
	if err := lk.check(ctx); err != nil || leaseOf(ctx) == nil {
		return nil, err
	}
	held, reenters := lk.heldBy(ctx), lk.reentrant || lk.owner != ""
	switch {
	case held == nil || !reenters && lk.want != wire.Exclusive:
		return nil, nil
	case held.hold.lock.rw.isSet(), held.hold.lock.want != lk.want, lk.owner != held.hold.lock.owner,
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
	if len(c.cfg.Under) > 0 || leaseOf(parent) != nil {
		ctx, chain = lk.beginChain(ctx, parent)
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
		err = errorf("holdfast: lock %q: %w", lk.name, err)
	}
	if err != nil {
		err = lk.asHeldError(ctx, parent, err)
	}
	switch {
	case observed == nil:
	case err != nil:
		lk.reportFailure(observed, err)
	default:
		c.events.tellGrant(l.state, observe.Event{Wake: wake, Wait: c.now() - observed.start, Waited: observed.waited})
	}
	return l, err
}

// acquireExclusive acquires the lock for one holder. The turn of this process goes with the hold. After
// an error it is passed on.
func (lk *lock) acquireExclusive(ctx, parent context.Context, try bool) (*Lease, observe.Wake, error) {
	c := lk.client
	wake := observe.WakeNone
	if lk.usesLocalQueue() {
		turn, err := c.localQueue.TakeTurn(ctx, lk.key(), localqueue.Exclusive, lk, try)
		if err != nil {
			return nil, wake, lk.endedHere(ctx, err, localqueue.Exclusive)
		}
		if turn.Waited {
			wake = observe.WakeLocal
		}
		if handedOver := turn.Hold; handedOver != nil {
			if !lk.noHandOver && handedOver.fits(lk) {
				if l := handedOver.newLease(parent); l != nil {
					handedOver.tag(lk.tags)
					return l, wake, nil
				}
			}
			// The hold was lost during the hand-over, or it has other parameters than this
			// call wants.
			if c.renewer.Remove(&handedOver.Item) {
				c.untilEnd(ctx, func() { _ = handedOver.release(ctx, releaseMode{}) })
			}
		}
	}
	h, w, err := lk.runAttempt(ctx, &retries{c: c, lock: lk, try: try, turn: lk.usesLocalQueue()})
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
		lk.turn().PassOnWith(lk.client.toTries(err))
	}
	return nil, wake, err
}

// acquirePermits acquires permits. Each acquisition has a hold of its own. Of the
// goroutines of this process, only one at a time waits at the server. So a process has one
// position in the wait queue, and serves its goroutines in order. Goroutines that only try
// do not wait for their turn. They cannot overtake, because the server grants them nothing
// while others wait.
func (lk *lock) acquirePermits(ctx, parent context.Context, try bool) (*Lease, observe.Wake, error) {
	c := lk.client
	retry := &retries{c: c, lock: lk, try: try}
	if try || c.cfg.MaxLocalHandOvers < 0 {
		return lk.takePermits(ctx, parent, retry)
	}
	if !c.localQueue.Busy(lk.key(), localqueue.Permits) {
		// No goroutine of this process waits, so perhaps the first request is granted.
		retry.try = true
		l, w, err := lk.takePermits(ctx, parent, retry)
		if !errors.Is(err, ErrHeld) && !lk.client.isTransient(err) {
			return l, w, err
		}
		retry = retry.forWait(err)
	}
	turn, err := c.localQueue.TakeTurn(ctx, lk.key(), localqueue.Permits, lk, false)
	if err != nil {
		return nil, observe.WakeNone, lk.endedHere(ctx, retry.ended(ctx, err), localqueue.Permits)
	}
	l, w, err := lk.takePermits(ctx, parent, retry)
	turn.PassOn()
	return l, w, err
}

func (lk *lock) takePermits(ctx, parent context.Context, retry *retries) (*Lease, observe.Wake, error) {
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

// tryOften calls once as often as the options of lk say. Each try is an acquisition of its own: after a
// failed try the caller holds nothing. An error that is not transient ends the call.
func tryOften[L any](ctx context.Context, lk *lock, once func() (*L, error)) (*L, error) {
	start := lk.client.now()
	for n := 1; ; n++ {
		l, err := once()
		var held *HeldError
		known := errors.As(err, &held)
		if err == nil || !known && !lk.client.isTransient(err) && !lostWhileAway(err) || request.Ended(ctx) != nil {
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
			return nil, errorf("holdfast: lock %q: %w", lk.name, ctx.Err())
		case <-lk.client.life.Closing():
			timer.Stop()
			return nil, errorf("holdfast: lock %q: %w", lk.name, ErrClosed)
		}
	}
}
