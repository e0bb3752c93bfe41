package quorum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
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

// handlePush is told of a push by one node. It says that the node has granted to
// who stood in its line; if that is the lead, the rest is asked for. Or it says
// when the lock is free there, which is news if the lead says it. It must not
// block: what follows has a goroutine of its own. What is for nobody here,
// or for a round that is over, is cancelled unless its cancel is on the way.
func (s *Store) handlePush(i int, payload string) bool {
	id, a, err := wire.ParsePush(payload)
	if err != nil {
		return false
	}
	acq := s.findWaiter(clientAttempt(id))
	if acq == nil {
		s.nodes[i].unexpectedPush(id)
		return true
	}
	acq.mu.Lock()
	defer acq.mu.Unlock()
	r := acq.round
	if r == nil || !r.live() || r.attempts[i].id != id {
		s.nodes[i].unexpectedPush(id)
		return true
	}
	na := r.attempts[i]
	if a.Kind == wire.Stays {
		if acq.phase == waiting && i == r.coordinator {
			na.lastAnswer.Left = a.Left
			s.life.Go(func() { acq.push("stays " + acq.attempt + " " + wire.Millis(a.Left)) })
		}
		return true
	}
	na.noteGrant(a.Token, a.Waiting, na.askedAt)
	if na.unconfirmed = a.Lease > 0 && a.Lease < acq.ttl; na.unconfirmed {
		s.life.Go(na.confirm)
	}
	switch {
	case acq.phase == waiting && i == r.coordinator:
		s.life.Go(func() { acq.collect(r) })
	case acq.phase == collecting:
		acq.notify()
	default:
		na.raiseLate()
	}
	return true
}

// collect begins the gathering of the rest, for the one whom the lead has granted:
// it stands in the lines of the others, where only those can be in its way who
// had another lead. It is bounded: behind it is a timer, after which everything
// is given back.
func (acq *acquisition) collect(r *round) {
	acq.mu.Lock()
	if !r.live() || acq.phase != waiting && acq.phase != asking {
		acq.mu.Unlock()
		return
	}
	acq.phase = collecting
	missing := r.reopen()
	acq.mu.Unlock()
	acq.states.refresh()
	timeout := majority.RequestTimeout(acq.s.cfg.Timeout, acq.ttl, 0)
	for _, na := range missing {
		acq.s.life.Go(func() {
			_ = na.acquire(timeout, acq.currentWaiterTTL())
			acq.notify()
		})
	}
	acq.notify()
	acq.s.life.Go(func() { acq.awaitCollect(r, timeout) })
}

// awaitCollect waits until a majority has granted, and tells the client.
func (acq *acquisition) awaitCollect(r *round, timeout time.Duration) {
	acq.mu.Lock()
	failures := acq.failedCollects
	acq.mu.Unlock()
	timer := time.NewTimer(majority.CollectTime(timeout, acq.ttl, failures, rand.Float64()))
	defer timer.Stop()
	for mended := false; ; {
		select {
		case <-acq.changed:
		case <-timer.C:
			acq.backOff(r, timeout)
			return
		case <-r.done:
			return
		case <-acq.s.life.Closing():
			return
		}
		if acq.tryComplete(r, timeout) {
			return
		}
		if !mended && acq.states.haveWrongMarks() {
			mended = true
			acq.s.life.Go(func() {
				_ = acq.s.identify(acq.s.life.Context(), acq.states) // what comes of it is in the view
				acq.notify()
			})
		}
	}
}

// tryComplete reports whether the turn is over: by a grant, or because somebody
// else took the claim further.
func (acq *acquisition) tryComplete(r *round, timeout time.Duration) bool {
	if !acq.lockDriver(r.done) {
		return true
	}
	defer acq.unlockDriver()
	acq.mu.Lock()
	mine := r.live() && acq.phase == collecting
	acq.mu.Unlock()
	if !mine {
		return true
	}
	answer, won, _ := acq.complete(acq.s.life.Context(), r, timeout)
	if !won {
		return false // there is more to come, or the stint ends
	}
	acq.pushGrant(answer)
	return true
}

// backOff gives everything back after a stint in vain, and joins again after a
// pause by chance: two who keep each other from a majority must not do so for
// ever. The client goes on waiting, and finds its place by a poll if that fails.
func (acq *acquisition) backOff(r *round, timeout time.Duration) {
	if !acq.lockDriver(r.done) {
		return
	}
	acq.mu.Lock()
	mine := r.live() && acq.phase == collecting
	acq.failedCollects++
	pause := backoff.Default.After(acq.failedCollects, rand.Float64())
	acq.mu.Unlock()
	if mine {
		acq.cancelRound(r, timeout)
	}
	acq.unlockDriver()
	if !mine || !acq.s.life.Sleep(context.Background(), pause) || !acq.lockDriver(acq.s.life.Closing()) {
		return
	}
	defer acq.unlockDriver()
	acq.mu.Lock()
	mine = acq.round == r && acq.phase == idle
	acq.mu.Unlock()
	if !mine {
		return // cancelled, or taken further by a poll
	}
	ctx, cancel := context.WithTimeout(acq.s.life.Context(), 4*timeout)
	defer cancel()
	answer, err := acq.runRounds(ctx)
	switch {
	case err != nil:
		acq.recheck()
	case strings.HasPrefix(answer, "granted "):
		acq.pushGrant(answer)
	}
}

// pushGrant pushes a grant to the client. If nobody listens it finds out by a poll.
func (acq *acquisition) pushGrant(answer string) {
	acq.push("granted " + acq.attempt + strings.TrimPrefix(answer, "granted"))
}

// push pushes to the client. What of the claim it reads never changes.
func (acq *acquisition) push(payload string) {
	for _, sub := range acq.s.subscriptionsTo(acq.channelPrefix + wire.Client(acq.attempt)) {
		sub.message(payload)
	}
}

// recheck makes the client look by itself.
func (acq *acquisition) recheck() {
	for _, sub := range acq.s.subscriptionsTo(acq.channelPrefix + wire.Client(acq.attempt)) {
		sub.resumed()
	}
}
