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
	acq := s.find(keys[0], args[0])
	if acq == nil {
		return s.askInOrder(ctx, script.Poll, keys, args)
	}
	if !acq.lockDriver(ctx.Done()) {
		return "", ctx.Err()
	}
	defer acq.unlockDriver()
	return acq.poll(ctx)
}

// poll finds out how far the claim is, and takes it further. The caller is the
// driver.
func (acq *acquisition) poll(ctx context.Context) (string, error) {
	acq.touch()
	acq.mu.Lock()
	at, r := acq.phase, acq.round
	acq.mu.Unlock()
	switch at {
	case ended:
		return "gone", nil
	case waiting:
		return acq.pollCoordinator(ctx, r)
	case collecting, held:
		return acq.pollAll(ctx, r)
	default:
		return acq.runRounds(ctx)
	}
}

func (acq *acquisition) pollCoordinator(ctx context.Context, r *round) (string, error) {
	acq.states.refresh()
	timeout := acq.s.requestTimeout(ctx, acq.ttl)
	start := acq.s.now()
	acq.mu.Lock()
	coordinator := r.attempts[r.coordinator]
	acq.mu.Unlock()
	done := make(chan error, 1)
	if !acq.s.life.Go(func() { done <- coordinator.poll(timeout) }) {
		return "", ErrClosed
	}
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	acq.mu.Lock()
	acq.countsFrom = start
	at, stands, answer := acq.phase, coordinator.queued && err == nil, acq.queuedAnswer(coordinator)
	if coordinator.holds && at == waiting {
		at = collecting
	}
	acq.mu.Unlock()
	switch {
	case at == collecting:
		acq.collect(r)
		return acq.pollAll(ctx, r)
	case at == ended:
		return "gone", nil
	case stands && !acq.checkCoordinator(ctx, r):
		return answer, nil
	}
	return acq.runRounds(ctx)
}

// pollAll prolongs what the round has on each node and, while no majority has
// granted, asks those that have nothing for it. What is not confirmed by it
// does not count any more, since the client counts its lease anew from it. A claim
// that had a majority and cannot have it any more is over: the client, which has no
// lease yet, joins anew. To prolong what is left of it would keep the lock from all.
func (acq *acquisition) pollAll(ctx context.Context, r *round) (string, error) {
	timeout := acq.s.requestTimeout(ctx, acq.ttl)
	acq.mu.Lock()
	acq.countsFrom = acq.s.now()
	collects := acq.phase == collecting
	if collects {
		r.reopen()
	}
	acq.mu.Unlock()
	attempts := r.snapshot()
	done := acq.s.startOnEach(func(i int, _ *node) error {
		na := attempts[i]
		acq.mu.Lock()
		has := na.holds || na.queued
		acq.mu.Unlock()
		switch {
		case has:
			return na.poll(timeout)
		case collects:
			return na.acquire(timeout, acq.currentWaiterTTL())
		}
		return nil
	})
	heard := make([]bool, len(attempts))
	for range attempts {
		select {
		case one := <-done:
			heard[one.i] = true
		case <-r.done:
			return "gone", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
		if !heard[r.coordinator] && !acq.s.onlySilentLeft(heard) {
			continue // it knows who waits
		}
		if answer, won, err := acq.complete(ctx, r, timeout); won || err != nil {
			return answer, err
		}
	}
	acq.mu.Lock()
	if collects {
		defer acq.mu.Unlock()
		return acq.collectingAnswer(), nil
	}
	gone, err := r.mayHold() < acq.s.majority, acq.s.noMajority(r.unconfirmed())
	acq.mu.Unlock()
	if !gone {
		return "", err
	}
	acq.s.end(acq)
	r.cancelAll(timeout)
	return "gone", nil
}

// mayHold counts the nodes that may have held since the claim was won: those that have
// said so, and those that have not answered for less than a lease. c.mu is held.
func (r *round) mayHold() (n int) {
	now := r.acq.s.now()
	for _, na := range r.attempts {
		if na.holds && na.heldSince <= r.acq.renewedAt && now-na.countsFrom < r.acq.ttl {
			n++
		}
	}
	return n
}

// complete ends the acquisition if a majority has granted by now: with the
// second phase, or with its token if that was done before. The caller is the
// driver.
func (acq *acquisition) complete(
	ctx context.Context, r *round, timeout time.Duration,
) (answer string, won bool, err error) {
	acq.mu.Lock()
	if !r.live() {
		acq.mu.Unlock()
		return "", false, errEnded
	}
	answer = fmt.Sprintf("granted %d %d", acq.token, acq.waiters)
	at, n := acq.phase, 0
	_, counts := r.replies()
	if at == held {
		counts = r.confirmed()
	}
	for i, na := range r.attempts {
		if na.holds && counts[i] {
			n++
		}
	}
	acq.mu.Unlock()
	switch {
	case n < acq.s.majority:
		return "", false, nil
	case at == held:
		return answer, true, nil
	}
	answer, err = acq.writeToken(ctx, r, timeout)
	return answer, err == nil, err
}

// confirmed are the nodes that hold, have done so since the claim was won, and
// have said so since the floor. c.mu is held.
func (r *round) confirmed() []bool {
	list := make([]bool, len(r.attempts))
	for i, na := range r.attempts {
		list[i] = na.holds && na.countsFrom >= r.acq.countsFrom && na.heldSince <= r.acq.renewedAt
	}
	return list
}

// unconfirmed are those that have not, and why. c.mu is held.
func (r *round) unconfirmed() map[int]error {
	failed := make(map[int]error)
	for i, ok := range r.confirmed() {
		switch {
		case ok:
		case r.attempts[i].reply == majority.Failed && r.attempts[i].err != nil:
			failed[i] = r.attempts[i].err
		default:
			failed[i] = errForgot
		}
	}
	return failed
}
