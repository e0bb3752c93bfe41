package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/script"
)

// poll is a waiter's second look: at its lead, or at all nodes once it is its
// turn. A waiter whose lead is silent or has forgotten it joins the line of the
// next one in the same call.
func (s *Store) poll(ctx context.Context, keys, args []string) (string, error) {
	if len(args) != 5 {
		return "", refuse(ErrUnsupported, "ERR", "poll takes 5 arguments, not %d", len(args))
	}
	c := s.known(keys[0], args[0])
	if c == nil {
		return s.one(ctx, script.Poll, keys, args)
	}
	if !c.enter(ctx.Done()) {
		return "", ctx.Err()
	}
	defer c.leave()
	return c.look(ctx)
}

// look finds out how far the claim is, and takes it further. The caller is the
// driver.
func (c *claim) look(ctx context.Context) (string, error) {
	c.touch()
	c.mu.Lock()
	at, r := c.phase, c.round
	c.mu.Unlock()
	switch at {
	case over:
		return "gone", nil
	case waiting:
		return c.lookAtLead(ctx, r)
	case turning, held:
		return c.lookAtAll(ctx, r)
	default:
		return c.gather(ctx)
	}
}

func (c *claim) lookAtLead(ctx context.Context, r *round) (string, error) {
	c.view.refresh()
	limit := c.s.limit(ctx, c.ttl)
	start := c.s.now()
	c.mu.Lock()
	lead := r.slots[r.lead]
	c.mu.Unlock()
	done := make(chan error, 1)
	if !c.s.life.Go(func() { done <- lead.poll(limit) }) {
		return "", ErrClosed
	}
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	c.mu.Lock()
	c.floor = start
	at, stands, answer := c.phase, lead.stands && err == nil, c.queued(lead)
	if lead.holds && at == waiting {
		at = turning
	}
	c.mu.Unlock()
	switch {
	case at == turning:
		c.turn(r)
		return c.lookAtAll(ctx, r)
	case at == over:
		return "gone", nil
	case stands && !c.probe(ctx, r):
		return answer, nil
	}
	return c.gather(ctx)
}

// lookAtAll prolongs what the round has on each node and, while no majority has
// granted, asks those that have nothing for it. What is not confirmed by it
// does not count any more, since the client counts its lease anew from it. A claim
// that had a majority and cannot have it any more is over: the client, which has no
// lease yet, joins anew. To prolong what is left of it would keep the lock from all.
func (c *claim) lookAtAll(ctx context.Context, r *round) (string, error) {
	limit := c.s.limit(ctx, c.ttl)
	c.mu.Lock()
	c.floor = c.s.now()
	gathers := c.phase == turning
	if gathers {
		r.reopen()
	}
	c.mu.Unlock()
	slots := r.all()
	done := c.s.spread(func(i int, _ *node) error {
		sl := slots[i]
		c.mu.Lock()
		has := sl.holds || sl.stands
		c.mu.Unlock()
		switch {
		case has:
			return sl.poll(limit)
		case gathers:
			return sl.acquire(limit, c.patience())
		}
		return nil
	})
	heard := make([]bool, len(slots))
	for range slots {
		select {
		case one := <-done:
			heard[one.i] = true
		case <-r.stop:
			return "gone", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
		if !heard[r.lead] && !c.s.onlySuspects(heard) {
			continue // it knows who waits
		}
		if answer, won, err := c.complete(ctx, r, limit); won || err != nil {
			return answer, err
		}
	}
	c.mu.Lock()
	if gathers {
		defer c.mu.Unlock()
		return c.turning(), nil
	}
	gone, err := r.mayHold() < c.s.majority, c.s.short(r.unconfirmed())
	c.mu.Unlock()
	if !gone {
		return "", err
	}
	c.s.finished(c)
	r.abandon(limit)
	return "gone", nil
}

// mayHold counts the nodes that may have held since the claim was won: those that have
// said so, and those that have not answered for less than a lease. c.mu is held.
func (r *round) mayHold() (n int) {
	now := r.c.s.now()
	for _, sl := range r.slots {
		if sl.holds && sl.known <= r.c.renewed && now-sl.since < r.c.ttl {
			n++
		}
	}
	return n
}

// complete ends the acquisition if a majority has granted by now: with the
// second phase, or with its token if that was done before. The caller is the
// driver.
func (c *claim) complete(ctx context.Context, r *round, limit time.Duration) (answer string, won bool, err error) {
	c.mu.Lock()
	if !r.live() {
		c.mu.Unlock()
		return "", false, errOver
	}
	answer = fmt.Sprintf("granted %d %d", c.token, c.waits)
	at, n := c.phase, 0
	_, counts := r.replies()
	if at == held {
		counts = r.confirmed()
	}
	for i, sl := range r.slots {
		if sl.holds && counts[i] {
			n++
		}
	}
	c.mu.Unlock()
	switch {
	case n < c.s.majority:
		return "", false, nil
	case at == held:
		return answer, true, nil
	}
	answer, err = c.finish(ctx, r, limit)
	return answer, err == nil, err
}

// confirmed are the nodes that hold, have done so since the claim was won, and
// have said so since the floor. c.mu is held.
func (r *round) confirmed() []bool {
	list := make([]bool, len(r.slots))
	for i, sl := range r.slots {
		list[i] = sl.holds && sl.since >= r.c.floor && sl.known <= r.c.renewed
	}
	return list
}

// unconfirmed are those that have not, and why. c.mu is held.
func (r *round) unconfirmed() map[int]error {
	failed := make(map[int]error)
	for i, ok := range r.confirmed() {
		switch {
		case ok:
		case r.slots[i].reply == majority.Failed && r.slots[i].err != nil:
			failed[i] = r.slots[i].err
		default:
			failed[i] = errForgot
		}
	}
	return failed
}
