// Readers: the hold that the readers of one process share.

package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/localqueue"
	"github.com/holdfast-go/holdfast/internal/mark"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/observe"
)

// acquireShared acquires the lock as a reader: under a lease of the same call chain, or
// together with the readers of this process, or from the server.
func (lk *lock) acquireShared(ctx, parent context.Context, try bool) (*Lease, observe.Wake, error) {
	c := lk.client
	if l, err := lk.readUnder(ctx, parent, try); l != nil || err != nil {
		return l, observe.WakeNone, err
	}
	if !lk.shares() {
		return lk.readAlone(ctx, parent, try)
	}
	wake := observe.WakeNone
	for {
		turn, err := c.localQueue.TakeTurn(ctx, lk.key(), localqueue.Shared, lk, try)
		if turn.Waited {
			wake = observe.WakeLocal
		}
		switch {
		case err != nil:
			return nil, wake, lk.endedHere(ctx, err, localqueue.Shared)
		case turn.None():
			return lk.readAlone(ctx, parent, try)
		case !turn.Joined:
			h, w, err := lk.readFirst(ctx, try, turn)
			if err != nil {
				return nil, max(wake, w), err
			}
			if l := h.newReaderLease(parent, false); l != nil {
				return l, max(wake, w), nil
			}
			return nil, wake, h.endReason()
		case !turn.Hold.suits(lk):
			// The goroutine waited for a reader whose hold has other parameters.
			turn.Hold.unreserve()
			return lk.readAlone(ctx, parent, try)
		}
		if l := turn.Hold.newReaderLease(parent, true); l != nil {
			return l, wake, nil
		}
	}
}

// readFirst asks the server for all readers of this process. The caller has the turn, and
// readFirst gives the turn up. The new hold has a reservation for the caller.
func (lk *lock) readFirst(ctx context.Context, try bool, turn localTurn) (*hold, observe.Wake, error) {
	do := turn.Do
	if do == localqueue.Check {
		if do = turn.Hold.renewAndDecide(ctx); do == localqueue.Share && turn.Hold.reserve() {
			turn.Share(turn.Hold)
			return turn.Hold, observe.WakeNone, nil
		}
	}
	// A reader that knows of a waiter joins the wait queue at once. Otherwise the first
	// request only tries, because goroutines that only try wait for its answer.
	retry := &retries{c: lk.client, lock: lk, try: true}
	var h *hold
	var w observe.Wake
	var err error
	if try || do != localqueue.Wait {
		h, w, err = lk.runAttempt(ctx, retry)
	} else {
		err = &HeldError{Name: lk.name}
	}
	if held := heldIn(err); (held != nil || lk.client.isTransient(err)) && !try {
		turn.Waiting(held)
		h, w, err = lk.runAttempt(ctx, retry.forWait(err))
	}
	if err != nil {
		turn.PassOnWith(lk.client.toTries(err))
		return nil, w, err
	}
	turn.Share(h)
	return h, w, nil
}

// renewAndDecide renews the hold, because the answer tells how many wait, and decides again.
// After an error nothing is known. Then the reader waits in the queue, where it delays
// nobody.
func (h *hold) renewAndDecide(ctx context.Context) localqueue.Decision {
	c := h.lock.client
	ttl, sent := c.renewer.TTL(&h.Item), c.now()
	r, got, err := c.sender.Renew(mark.Awaited(ctx), c.sender.Timeout, h.lock.ack,
		[]request.Renewal{h.renewal(h.lock.onServer(ttl))})
	if err == nil {
		err = h.lock.acked(got)
	}
	if err != nil || !r[0].Held {
		return localqueue.Wait // the next renewal reports the loss
	}
	c.renewer.Extended(&h.Item, sent, ttl)
	h.setWaiters(r[0].Waiting)
	return localqueue.Join(0, r[0].Waiting, false)
}

// readAlone acquires a hold that this process does not share.
func (lk *lock) readAlone(ctx, parent context.Context, try bool) (*Lease, observe.Wake, error) {
	h, w, err := lk.runAttempt(ctx, &retries{c: lk.client, lock: lk, try: try})
	if err != nil {
		return nil, w, err
	}
	if l := h.newReaderLease(parent, false); l != nil {
		return l, w, nil
	}
	return nil, w, h.endReason()
}

// readUnder adds a reader to a read-write lock under the context of a lease of it. It sends
// no request and does not queue, because all waiters wait for that lease anyway. While that lease is
// being converted, readUnder waits for the answer to that. If ctx belongs to no such lease, it returns
// nil and nil.
func (lk *lock) readUnder(ctx, parent context.Context, try bool) (*Lease, error) {
	c := lk.client
	for held := leaseOf(parent); held != nil; {
		if !held.of(c, lk) || held.ended() != nil {
			held = held.outerLease()
			continue
		}
		h := held.hold
		if !h.lock.rw.isSet() {
			return nil, held.deadlock()
		}
		ls := newLeaseState(parent, h, true)
		switch how, converting := h.joinUnder(ls, held); {
		case how == admitted:
			return ls.handle(), nil
		case how == refused:
			held = held.outerLease()
		case try:
			return nil, &HeldError{Name: lk.name, HeldBy: h.attemptID()}
		default:
			select {
			case <-converting:
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-c.life.Closing():
				return nil, ErrClosed
			}
		}
	}
	return nil, nil
}

// newReaderLease creates a lease for a reservation of the hold. It returns nil if the hold
// is lost.
func (h *hold) newReaderLease(parent context.Context, local bool) *Lease {
	if ls := newLeaseState(parent, h, local); h.redeem(ls) {
		return ls.handle()
	}
	return nil
}

// fits reports whether the hold has the parameters that a lease of this call needs.
func (h *hold) fits(lk *lock) bool {
	return h.lock.client.renewer.TTL(&h.Item) == lk.ttl && h.lock.delay == lk.delay && h.lock.ack == lk.ack &&
		h.lock.rw == lk.rw
}

// suits reports whether a reader of this call may join the hold.
func (h *hold) suits(lk *lock) bool { return h.fits(lk) && h.lock.tags == lk.tags }

// redeem turns a reservation into a lease of a reader. If the hold was lost or the client
// has closed, it drops the reservation and reports false.
func (h *hold) redeem(ls *leaseState) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.more().reserved--
	if h.admits(asAgreed, nil) != admitted {
		return false
	}
	h.addReader(ls)
	return true
}

// unreserve gives a reservation back, because the reader no longer wants the lease.
func (h *hold) unreserve() {
	h.mu.Lock()
	h.more().reserved--
	last := h.alone()
	h.mu.Unlock()
	if c := h.lock.client; last {
		c.inBackground(func() { _ = h.releaseShared(c.life.Context()) })
	}
}

// joinUnder adds a reader under the context of held. If a conversion is under way, the reader asks again
// when that has ended.
func (h *hold) joinUnder(ls, held *leaseState) (how admission, converting <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if how = h.admits(underLease, held); how == admitted {
		ls.token.Store(h.token()) // of the mode that the hold has now
		h.addReader(ls)
	}
	return how, h.peek().converting
}

// unshare stops readers of this process from joining the hold.
func (h *hold) unshare() {
	if h.lock.rw.isSet() {
		h.lock.client.localQueue.Unshare(h.lock.key(), h)
	}
}

// afterReader does what must follow after a reader's lease has left.
func (h *hold) afterReader(ctx context.Context, as removal) (local bool, err error) {
	if as == asLastReader {
		return false, h.releaseShared(ctx)
	}
	if as == asGuest {
		return true, errorf("%w: %w", ErrNotHeld, ErrReleased)
	}
	h.mu.Lock()
	lost := h.peek().lost
	h.mu.Unlock()
	if lost != nil {
		return true, errorf("%w: %w", ErrNotHeld, lost)
	}
	h.stopIfDropped()
	return true, nil
}

// releaseShared gives up a hold without readers.
func (h *hold) releaseShared(ctx context.Context) error {
	h.unshare()
	_, err := h.handOverOrRelease(ctx, releaseMode{keep: h.kept()})
	return err
}

// kept returns for how long readers that have released the lock keep it held.
func (h *hold) kept() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.peek().keptUntil-h.lock.client.now(), 0)
}
