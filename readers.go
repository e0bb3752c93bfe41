package holdfast

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// acquireShared takes the lock as a reader: under the lease of this very call
// chain, else together with the readers of this process, else from the server.
func (s *lock) acquireShared(ctx, parent context.Context, try bool) (*Lease, Wake, error) {
	c := s.client
	if l, err := s.readUnder(parent); l != nil || err != nil {
		return l, WakeNone, err
	}
	if !s.shares() {
		return s.readAlone(ctx, parent, try)
	}
	cause := WakeNone
	for {
		turn, err := c.queue.Enter(ctx, s.key(), waitqueue.Shared, s, try)
		if turn.Waited {
			cause = WakeLocal
		}
		switch {
		case err != nil:
			return nil, cause, err
		case turn.None():
			return s.readAlone(ctx, parent, try)
		case !turn.Joined:
			h, w, err := s.readFirst(ctx, try, turn)
			if err != nil {
				return nil, max(cause, w), err
			}
			if l := h.newReaderLease(parent, false); l != nil {
				return l, max(cause, w), nil
			}
			return nil, cause, h.endReason()
		case !turn.Hold.suits(s):
			// It waited for a reader that has other terms.
			turn.Hold.unreserve()
			return s.readAlone(ctx, parent, try)
		}
		if l := turn.Hold.newReaderLease(parent, true); l != nil {
			return l, cause, nil
		}
	}
}

// readUnder enters a read-write lock as a reader under the context of a lease
// of it, without the network and past all who wait: they wait for that lease.
// Without such a lease it answers neither.
func (s *lock) readUnder(parent context.Context) (*Lease, error) {
	c := s.client
	for held := leaseOf(parent); held != nil; held = held.outerLease() {
		if !held.of(c, s) || held.ended() != nil {
			continue
		}
		h := held.hold
		if !h.lock.rw.any() {
			return nil, held.deadlock()
		}
		if t := h.newLeaseState(parent, true); h.addMember(t, held) {
			return t.handle(), nil
		}
	}
	return nil, nil
}

// readAlone takes a hold that is shared with nobody in this process.
func (s *lock) readAlone(ctx, parent context.Context, try bool) (*Lease, Wake, error) {
	h, w, err := s.runAttempt(ctx, try)
	if err != nil {
		return nil, w, err
	}
	if l := h.newReaderLease(parent, false); l != nil {
		return l, w, nil
	}
	return nil, w, h.endReason()
}

// newReaderLease begins a lease under a hold that is kept for it; nil if the hold is lost.
func (h *hold) newReaderLease(parent context.Context, local bool) *Lease {
	if t := h.newLeaseState(parent, local); h.redeem(t) {
		return t.handle()
	}
	return nil
}

// readFirst asks the server for the readers of this process; the caller has the
// turn, and gives it up with that. The hold that it brings is kept for the caller.
func (s *lock) readFirst(ctx context.Context, try bool, turn localTurn) (*hold, Wake, error) {
	do := turn.Do
	if do == waitqueue.Check {
		if do = turn.Hold.checkWaiters(ctx); do == waitqueue.Share && turn.Hold.reserve() {
			turn.Share(turn.Hold)
			return turn.Hold, WakeNone, nil
		}
	}
	// A reader that knows that somebody waits stands behind at once. Else the first
	// request does not wait, for those that only try wait for its answer.
	var h *hold
	var w Wake
	var err error
	if try || do != waitqueue.Wait {
		h, w, err = s.runAttempt(ctx, true)
	} else {
		err = &HeldError{Name: s.name}
	}
	if held := heldIn(err); (held != nil || wavering(err)) && !try {
		turn.Waiting(held)
		h, w, err = s.runAttempt(ctx, false)
	}
	if err != nil {
		turn.Refuse(heldIn(err))
		return nil, w, err
	}
	turn.Share(h)
	return h, w, nil
}

// heldIn is what err says of the holder; nil if it is another error, or none.
func heldIn(err error) error {
	var held *HeldError
	if errors.As(err, &held) {
		return held
	}
	return nil
}

// checkWaiters renews the hold, which tells who waits, and decides anew. After an error
// nothing is known: the reader stands in line, where it harms nobody.
func (h *hold) checkWaiters(ctx context.Context) waitqueue.Decision {
	c := h.lock.client
	ttl, sent := c.renewer.TTL(&h.Item), c.now()
	r, got, err := c.sender.Renew(ctx, h.lock.ack, []request.Renewal{h.renewal(ttl)})
	if err == nil {
		err = h.lock.acked(got)
	}
	if err != nil || !r[0].Held {
		return waitqueue.Wait // its next renewal will say that it is lost
	}
	c.renewer.Extended(&h.Item, sent, ttl)
	h.setWaiters(r[0].Waiting)
	return waitqueue.Join(0, r[0].Waiting, false)
}
