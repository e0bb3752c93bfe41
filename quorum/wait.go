package quorum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/pushes"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Waiting. A waiter stands in the coordinator's queue only. Suppose that "c/7" waits, and the
// holder releases. The coordinator, server 3, grants to "c/7.6" and pushes that (handlePush). Now it
// is the turn of "c/7", and it asks the other servers (collect). They are free, because the holder
// released there as well, so a majority grants (awaitCollect, tryComplete). The token is written
// (complete), and the client gets a push (pushGrant).
//
// Three things can go wrong. The push is lost: the client polls, and finds the grant in
// pollCoordinator. The coordinator falls silent: the poll gets no answer, and the acquisition joins
// the next server's queue. Other heads of queues hold the other servers: all but one make way
// (yield). An attempt that gets no majority in time cancels everything, pauses, and joins again
// (backOff).
//
// No wait depends on a push alone:
//
//	phase       what ends the wait               if that does not come
//	waiting     the coordinator's push           the client's poll, after a third of the TTL at the latest.
//	                                             It comes earlier if a server falls silent (recheckSoon), or
//	                                             when a broken subscription stands again (keepSubscribed)
//	collecting  the others' answers and pushes   the timer of awaitCollect. The client's polls ask the
//	                                             servers again meanwhile (pollAll)
//	pausing     the timer of the pause           a poll begins the next round before that
//	held        the push to the client           the client's poll finds the lease (pollAll)

// poll answers a waiter's poll: it asks the coordinator, or all nodes once the coordinator has
// granted. If the coordinator is silent or has forgotten the waiter, the waiter joins the next
// one's queue in the same call.
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

// poll finds out how far the acquisition is, and takes it further. The caller is the driver. The
// answer depends on the phase. An idle acquisition is one whose pause is not over, or whose round
// got nothing: the poll asks again at once. So does a poll in the phase asking: the driver of that
// round gave up because its context had ended.
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

// pollCoordinator asks the coordinator how the waiter stands. Four answers are possible. It still
// waits: the client gets its position. It has been granted, and the push was lost: the other nodes
// are asked. The coordinator is late: the waiter keeps what it knew before. The coordinator is
// silent, has forgotten the waiter, or is contradicted: a new round looks for another one.
//
// The client counts its lease from the start of this poll, because the coordinator may grant at any
// time after it.
//
// If the poll gets no answer, two cases are told apart. The coordinator has answered other requests
// since the poll was sent: it is late, and the position stays. It has answered nothing since: it is
// silent, and the new round asks the next server in the order for a position.
func (acq *acquisition) pollCoordinator(ctx context.Context, r *round) (string, error) {
	acq.states.refresh()
	timeout := acq.requestTimeout(ctx, acq.ttl)
	start := acq.now()
	acq.mu.Lock()
	coordinator := r.attempts[r.coordinator]
	acq.mu.Unlock()
	done := make(chan error, 1)
	if !acq.life.Go(label.Caller, func() { done <- coordinator.poll(timeout) }) {
		return "", ErrClosed
	}
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	acq.mu.Lock()
	// A push may have changed the phase while the poll was under way. Then the push has decided. Its
	// grant is older than countsFrom now, so pollAll asks the coordinator to confirm it.
	acq.countsFrom = start
	at, queued, answer := acq.phase, coordinator.queued && err == nil, acq.queuedAnswer(coordinator)
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
	case queued && !acq.checkCoordinator(ctx, r):
		return answer, nil
	case coordinator.node.isLate(err):
		return answer, nil // it still has the position, as far as is known
	}
	return acq.runRounds(ctx)
}

// yield gives up the grants of an attempt that the coordinator of others is in the way of, and
// joins that node's queue; it has a position there already. Of the attempts that hold one node
// each, the one whose coordinator comes first goes on, and all others make way at once. acq.mu is
// held.
//
// It counts the nodes that have granted or may yet grant. While these can be a majority, the attempt
// does not make way. The order is the same for all attempts that know the same
// silent nodes, so exactly one of them goes on.
//
// Example: five servers have the order 3, 1, 5, 2, 4 for this lock. A waits at 3. B waits at 1 and
// C at 5, because they found other servers silent for a moment. The holder releases, and each of
// the three is granted by its coordinator. A also gets 2, and B gets 4. Each is queued on the
// servers that the others hold, and nobody has a majority. A finds its own coordinator first in the
// order, and goes on. B and C find 3, where they are queued, and keep only that position. Their
// cancels free 1, 4 and 5, which push their grants to A.
//
// If they do not know the same silent nodes, two may go on. Then the timer of awaitCollect decides.
// It is random, so one of them pauses while the other goes on.
func (acq *acquisition) yield(r *round, timeout time.Duration) bool {
	replies, counts := r.replies()
	can := 0
	for i, reply := range replies {
		if counts[i] && (reply == majority.Granted || reply == majority.Open) {
			can++
		}
	}
	if can >= acq.majority {
		return false
	}
	for _, i := range acq.order(acq.key) {
		switch na := r.attempts[i]; {
		case i == r.coordinator:
			return false
		case na.queued && !na.node.isSilent() && !acq.isContradicted(acq.key, i):
			acq.phase = waiting
			r.follow(i, timeout)
			return true
		}
	}
	return false
}

// pollAll extends what the round has on each node. While no majority has granted, it also asks
// the nodes on which the round has nothing. The client counts its lease from this poll, so
// what the poll does not confirm no longer counts.
//
// If an acquisition had a majority and cannot have it any more, it ends: the client has no
// lease yet, and joins the queue anew. Extending the rest would only keep the lock from
// everybody.
//
// Each answer is counted at once (complete), so a majority is enough. But the answer to the client
// tells how many wait, and only the coordinator knows. So the coordinator is waited for, unless it
// is silent. After an error the acquisition is as it was before the poll: the client polls again,
// or cancels.
func (acq *acquisition) pollAll(ctx context.Context, r *round) (string, error) {
	timeout := acq.requestTimeout(ctx, acq.ttl)
	acq.mu.Lock()
	acq.countsFrom = acq.now()
	collects := acq.phase == collecting
	if collects {
		r.reopen()
	}
	acq.mu.Unlock()
	attempts := r.snapshot()
	done := acq.startOnEach(func(i int, _ *node) error {
		na := attempts[i]
		acq.mu.Lock()
		holdsOrWaits := na.holds || na.queued
		acq.mu.Unlock()
		switch {
		case holdsOrWaits:
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
			acq.mu.Lock()
			defer acq.mu.Unlock()
			return "", acq.interrupted(ctx, r.failures(), heard)
		}
		if !heard[r.coordinator] && !acq.onlySilentLeft(heard) {
			continue // the coordinator knows the waiters
		}
		if answer, won, err := acq.complete(ctx, r, timeout); won || err != nil {
			return answer, err
		}
	}
	acq.mu.Lock()
	// Who still collects may yet win. Who had won must be confirmed by a majority, or the lease is in doubt.
	if collects {
		defer acq.mu.Unlock()
		return acq.collectingAnswer(), nil
	}
	gone, err := r.mayHold() < acq.majority, acq.noMajority(r.unconfirmed())
	acq.mu.Unlock()
	if !gone {
		return "", err
	}
	acq.s.end(acq)
	r.cancelAll(timeout)
	return "gone", nil
}

// complete ends the acquisition if a majority has granted by now: with the second phase, or
// with its token if that phase is done. The caller is the driver.
//
// Before the second phase, grants count as in replies. After it, a poll asks for more: the nodes
// must have held since the lease was won or renewed, and must have said so since this poll.
// Otherwise a node that joined late could hide a gap in which somebody else had a majority.
//
// Example: the lease was won on 1, 2 and 3 of five servers, at 10 s. At 10.2 s servers 1 and 2
// restart empty, and at 10.4 s servers 4 and 5 grant, a little late. A poll at 11 s hears "granted"
// from 3, 4 and 5. That is a majority, but in between somebody else may have had 1, 2 and 4. Only 3
// is confirmed.
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
	case n < acq.majority:
		return "", false, nil
	case at == held:
		return answer, true, nil
	}
	answer, err = acq.writeToken(ctx, r, timeout)
	return answer, err == nil, err
}

// handlePush receives a push of one node. The push may say that the node has granted to a
// waiter in its queue; if the node is the coordinator, the other nodes are asked next. Or it
// says when the lock becomes free there, which matters only from the coordinator. A grant for
// an unknown attempt or an ended round is cancelled, unless a cancel is under way. handlePush
// must not block, so what follows runs in goroutines of its own.
//
// A push carries the identity "c/7.6". Its number tells for which request the grant is. An
// identity of an earlier round means nothing any more, and neither does one that has been
// replaced: both are being cancelled.
//
// When is a pushed grant believed? No request of ours was answered with it, so two things are
// unknown.
//
//   - When it was granted. It counts from askedAt, which is before the last request that may have
//     queued it was sent. Example: polls were sent at 10 s and at 13 s and answered "queued", and the
//     push arrives at 14 s. The hold counts from 13 s, as the client's lease does (countsFrom). If
//     the poll of 13 s got no answer, the hold counts from 10 s: too early, so it must be confirmed.
//   - Whether anybody still reads our pushes. So the server grants for 2 to 3 s only, if the lease
//     is longer, and says so in the push. Such a grant does not count (bid.unconfirmed) until a poll
//     has extended it to the whole TTL (confirm). If that poll gets no answer, the grant does not
//     count until a later poll is answered.
//
// A pushed grant of one server is no lease yet: it counts as one of a majority, and the second
// phase follows.
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
	if a.Kind == wire.Kept {
		if acq.phase == waiting && i == r.coordinator {
			na.lastAnswer.Left = a.Left
			s.life.Go(grantLabel, func() { acq.push("kept " + acq.attempt + " " + wire.Millis(a.Left)) })
		}
		return true
	}
	na.noteGrant(a.Token, a.Waiting, na.askedAt)
	na.unconfirmed = a.Lease > 0 && a.Lease < acq.ttl
	if !na.counts(acq.countsFrom) {
		s.life.Go(grantLabel, na.confirm)
	}
	switch {
	case acq.phase == waiting && i == r.coordinator:
		s.life.Go(grantLabel, func() { acq.collect(r) })
	case acq.phase == collecting:
		acq.notify()
	}
	return true
}

// collect begins to ask the other nodes once the coordinator has granted. It joins their
// queues, where only an attempt with another coordinator can be in its way. A timer bounds it:
// after that everything is cancelled.
// It may be called by the push and by a poll at once: the phase lets one of them through.
//
// This is also how a waiter goes on after two of five grants (conclude, Split). It keeps both, and
// is queued on the other three. Those are held by attempts that the coordinator did not grant to,
// and that are cancelling. So three pushes are to be expected, and the first of them makes a
// majority.
func (acq *acquisition) collect(r *round) {
	acq.mu.Lock()
	if !r.live() || acq.phase != waiting && acq.phase != asking {
		acq.mu.Unlock()
		return
	}
	// The phase first: a push that comes from now on wakes who collects, see handlePush.
	acq.phase = collecting
	missing := r.reopen()
	acq.mu.Unlock()
	acq.states.refresh()
	timeout := acq.requestTimeout(acq.life.Context(), acq.ttl)
	for _, na := range missing {
		acq.life.Go(grantLabel, func() {
			_ = na.acquire(timeout, acq.currentWaiterTTL())
			acq.notify()
		})
	}
	acq.notify()
	acq.life.Go(grantLabel, func() { acq.awaitCollect(r, timeout) })
}

// awaitCollect waits until a majority has granted, and pushes that to the client. Five things end
// it: the majority, another goroutine that took the acquisition further, the timer, the end of the
// round, and Close. A node whose mark is wrong cannot count. The marks are read again once, because
// a wrong mark would fail each further try in the same way.
//
// It is no driver while it waits. The client's polls, its cancel and its release come first, and
// change the phase or end the round. The timer is that of majority.CollectTime: 3 to 6 times the
// time of a request at first, then twice as long after each failure, but never longer than two
// thirds of the TTL.
func (acq *acquisition) awaitCollect(r *round, timeout time.Duration) {
	acq.mu.Lock()
	failures := acq.failedCollects
	acq.mu.Unlock()
	timer := time.NewTimer(majority.CollectTime(timeout, acq.ttl, failures, rand.Float64()))
	defer timer.Stop()
	for corrected := false; ; {
		select {
		case <-acq.changed:
		case <-timer.C:
			acq.backOff(r, timeout)
			return
		case <-r.done:
			return
		case <-acq.life.Closing():
			return
		}
		if acq.tryComplete(r, timeout) {
			return
		}
		if !corrected && acq.states.haveWrongMarks() {
			corrected = true
			acq.life.Go(grantLabel, func() {
				_ = acq.identify(acq.life.Context(), acq.states) // the outcome is in the states
				acq.notify()
			})
		}
	}
}

// tryComplete reports whether collecting is over: by a grant, or because another goroutine
// took the acquisition further.
// Grants of nodes come in other goroutines. A poll of the client may be the driver just now and see
// the same majority. The one that is the driver second finds the phase changed, and does nothing.
// An error of the second phase is dropped here: the next answer, or the timer, leads to the next try.
func (acq *acquisition) tryComplete(r *round, timeout time.Duration) bool {
	if !acq.lockDriver(r.done) {
		return true
	}
	defer acq.unlockDriver()
	acq.mu.Lock()
	current := r.live() && acq.phase == collecting
	acq.mu.Unlock()
	if !current {
		return true
	}
	answer, won, _ := acq.complete(acq.life.Context(), r, timeout)
	if !won {
		acq.mu.Lock()
		defer acq.mu.Unlock()
		// Else more answers are to come, or the timer ends the collecting.
		return r.live() && acq.phase == collecting && acq.yield(r, timeout)
	}
	acq.pushGrant(answer)
	return true
}

// backOff is the phase "pausing": the driver is free during the pause, so a poll, a cancel or a
// release can take over. Then the pause leads to nothing.
//
// It cancels everything after a failed try to collect a majority, and joins again after a random
// pause: two attempts that keep each other from a majority must not do so for ever. The client
// waits on. If this fails, the client is told to poll (recheck), and its poll begins the next
// round. If the new round ends in a queue, nothing is told: the client's poll was due in any case.
//
// The pause is 10 to 20 ms after the first failure. It doubles with each further one, up to a second
// (backoff.Default). The new position is behind those who joined meanwhile.
func (acq *acquisition) backOff(r *round, timeout time.Duration) {
	if !acq.lockDriver(r.done) {
		return
	}
	acq.mu.Lock()
	current := r.live() && acq.phase == collecting
	acq.failedCollects++
	pause := backoff.Default.After(acq.failedCollects, rand.Float64())
	acq.mu.Unlock()
	if current {
		acq.cancelRound(r, timeout)
	}
	// Not the driver during the pause: the client's calls must not wait for it.
	acq.unlockDriver()
	if !current || !acq.life.Sleep(context.Background(), pause) || !acq.lockDriver(acq.life.Closing()) {
		return
	}
	defer acq.unlockDriver()
	acq.mu.Lock()
	current = acq.round == r && acq.phase == idle
	acq.mu.Unlock()
	if !current {
		return // cancelled, or taken further by a poll
	}
	ctx, cancel := context.WithTimeout(acq.life.Context(), 4*timeout)
	defer cancel()
	answer, err := acq.runRounds(ctx)
	switch {
	case err != nil:
		acq.recheck()
	case strings.HasPrefix(answer, "granted "):
		acq.pushGrant(answer)
	}
}

// pushGrant pushes a grant to the client. A client that does not listen finds it by a poll.
func (acq *acquisition) pushGrant(answer string) {
	acq.push("granted " + acq.attempt + strings.TrimPrefix(answer, "granted"))
}

// push sends a push to the client. It reads only fields that never change.
func (acq *acquisition) push(payload string) {
	for _, l := range acq.listeners() {
		l.Message(payload)
	}
}

// recheck makes the client poll.
func (acq *acquisition) recheck() {
	for _, l := range acq.listeners() {
		l.Look(true)
	}
}

// listeners returns those of the client.
func (acq *acquisition) listeners() []*pushes.Listener {
	return acq.s.listeners.On(acq.channelPrefix + wire.Client(acq.attempt))
}
