package quorum

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
)

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

// confirm makes a grant that was pushed count: until then its lease is short, so
// that one to a client that hears nothing costs little.
func (na *nodeAttempt) confirm() {
	acq := na.r.acq
	_ = na.poll(majority.RequestTimeout(acq.s.cfg.Timeout, acq.ttl, 0)) // what comes of it is in the slot
	acq.notify()
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

// reopen lists the slots that have nothing yet: they are about to be asked, and
// what they answered before counts no more. c.mu is held.
func (r *round) reopen() (list []*nodeAttempt) {
	for _, na := range r.attempts {
		if !na.holds && !na.queued {
			na.reply = majority.Open
			list = append(list, na)
		}
	}
	return list
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

// recheck makes the client look by itself.
func (acq *acquisition) recheck() {
	for _, sub := range acq.s.subscriptionsTo(acq.channelPrefix + wire.Client(acq.attempt)) {
		sub.resumed()
	}
}
