package holdfast

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// lockShared takes the lock as a reader: under the lease of this very call
// chain, else together with the readers of this process, else from the server.
func (c *Client) lockShared(ctx, parent context.Context, s *spec, try bool) (*Lease, Wake, error) {
	if l, err := c.readAgain(parent, s); l != nil || err != nil {
		return l, WakeNone, err
	}
	if !c.shares(s) {
		return c.readAlone(ctx, parent, s, try)
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
			return c.readAlone(ctx, parent, s, try)
		case !turn.Joined:
			h, w, err := c.readFirst(ctx, s, try, turn)
			if err != nil {
				return nil, max(cause, w), err
			}
			if l := c.reader(parent, h, false); l != nil {
				return l, max(cause, w), nil
			}
			return nil, cause, h.over()
		case !turn.Hold.suits(s):
			// It waited for a reader that has other terms.
			turn.Hold.unreserve()
			return c.readAlone(ctx, parent, s, try)
		}
		if l := c.reader(parent, turn.Hold, true); l != nil {
			return l, cause, nil
		}
	}
}

// readAgain enters a read-write lock as a reader under the context of a lease
// of it, without the network and past all who wait: they wait for that lease.
// Without such a lease it answers neither.
func (c *Client) readAgain(parent context.Context, s *spec) (*Lease, error) {
	for held := tenureOf(parent); held != nil; held = held.outer() {
		if !held.of(c, s) || held.ended() != nil {
			continue
		}
		h := held.hold
		if !h.spec.rw.any() {
			return nil, held.deadlock()
		}
		if t := h.begun(parent, true); h.admit(t, held) {
			return c.handle(t), nil
		}
	}
	return nil, nil
}

// readAlone takes a hold that is shared with nobody in this process.
func (c *Client) readAlone(ctx, parent context.Context, s *spec, try bool) (*Lease, Wake, error) {
	h, w, err := c.acquire(ctx, s, try)
	if err != nil {
		return nil, w, err
	}
	if l := c.reader(parent, h, false); l != nil {
		return l, w, nil
	}
	return nil, w, h.over()
}

// reader begins a lease under a hold that is kept for it; nil if the hold is lost.
func (c *Client) reader(parent context.Context, h *hold, local bool) *Lease {
	if t := h.begun(parent, local); h.redeem(t) {
		return c.handle(t)
	}
	return nil
}

// readFirst asks the server for the readers of this process; the caller has the
// turn, and gives it up with that. The hold that it brings is kept for the caller.
func (c *Client) readFirst(ctx context.Context, s *spec, try bool, turn localTurn) (*hold, Wake, error) {
	do := turn.Do
	if do == waitqueue.Check {
		if do = c.look(ctx, turn.Hold); do == waitqueue.Share && turn.Hold.reserve() {
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
		h, w, err = c.acquire(ctx, s, true)
	} else {
		err = &HeldError{Name: s.name}
	}
	if held := heldIn(err); (held != nil || wavering(err)) && !try {
		turn.Waiting(held)
		h, w, err = c.acquire(ctx, s, false)
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

// look renews the hold, which tells who waits, and decides anew. After an error
// nothing is known: the reader stands in line, where it harms nobody.
func (c *Client) look(ctx context.Context, h *hold) waitqueue.Decision {
	ttl, sent := c.renewer.TTL(&h.Item), c.now()
	r, got, err := c.sender.Renew(ctx, h.spec.ack, []request.Renewal{h.renewal(ttl)})
	if err == nil {
		err = h.spec.acked(got)
	}
	if err != nil || !r[0].Held {
		return waitqueue.Wait // its next renewal will say that it is lost
	}
	c.renewer.Extended(&h.Item, sent, ttl)
	h.hear(r[0].Waiting)
	return waitqueue.Join(0, r[0].Waiting, false)
}
