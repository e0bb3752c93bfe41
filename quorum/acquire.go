package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// acquire takes the lock on a majority, or a place in the line of its lead.
//
// When it fails, nothing stays: what nodes have granted is given back, in the
// background as far as they do not answer. When its ctx ends, that is left to
// the cancel that the client then sends.
func (s *Store) acquire(ctx context.Context, keys, args []string) (string, error) {
	d, err := s.parse(keys, args)
	if err != nil {
		return "", err
	}
	if err := s.identify(ctx, d.states); err != nil {
		return "", err
	}
	return s.acquisition(d.attempt, d).acquire(ctx, args[4])
}

// acquire takes the claim as far as it gets now.
func (acq *acquisition) acquire(ctx context.Context, waiterTTL string) (string, error) {
	if !acq.lockDriver(ctx.Done()) {
		return "", ctx.Err()
	}
	defer acq.unlockDriver()
	acq.mu.Lock()
	acq.waiterTTL = waiterTTL
	at := acq.phase
	acq.mu.Unlock()
	if at == ended {
		return "", refuse(errInvalidCall, "ERR", "the attempt %s has ended: use each once", acq.attempt)
	}
	if at == held || at == waiting || at == collecting {
		return acq.poll(ctx) // asked again: the same answer, unless it has got further
	}
	return acq.runRounds(ctx)
}

// runRounds takes the lock or a place in the line, in a round of its own. A
// round that a majority had granted and that nodes without their memory were
// part of is done again without them: each node is found out once. The caller
// is the driver.
func (acq *acquisition) runRounds(ctx context.Context) (string, error) {
	for tries := 0; ; tries++ {
		answer, err := acq.runRound(ctx)
		var retry *retryRoundError
		if !errors.As(err, &retry) {
			return answer, err
		}
		if tries == len(acq.s.nodes) {
			return "", retry.err
		}
		if err := acq.s.identify(ctx, acq.states); err != nil {
			return "", err
		}
	}
}

// retryRoundError says that a round came to nothing because of nodes that are known
// for it by now, and do not count in the next.
type retryRoundError struct{ err error }

func (r *retryRoundError) Error() string { return r.err.Error() }

// runRound asks all nodes at once, and decides as soon as their answers
// allow it.
func (acq *acquisition) runRound(ctx context.Context) (string, error) {
	timeout := acq.s.requestTimeout(ctx, acq.ttl)
	acq.mu.Lock()
	if acq.phase == ended {
		acq.mu.Unlock()
		return "", errEnded
	}
	before := acq.round
	if before != nil {
		before.end()
	}
	r, waiterTTL := acq.newRound(), acq.waiterTTL
	attempts := append([]*nodeAttempt(nil), r.attempts...)
	acq.mu.Unlock()
	if before != nil {
		before.cancelAll(timeout)
	}
	done := make(chan struct{}, (maxReasks+2)*len(attempts))
	ask := func(na *nodeAttempt, waiterTTL string) {
		if !acq.s.life.Go(func() { _ = na.acquire(timeout, waiterTTL); done <- struct{}{} }) {
			na.noteFailure(ErrClosed)
			done <- struct{}{}
		}
	}
	for i, na := range attempts {
		if i == r.coordinator {
			ask(na, waiterTTL)
		} else {
			ask(na, "0")
		}
	}
	grace := time.NewTimer(forever) // for those that have not answered when a majority has granted
	defer grace.Stop()
	start := acq.s.now()
	for tries, late, graced := 0, false, false; ; {
		select {
		case <-done:
		case <-grace.C:
			late = true
		case <-r.done:
			return "", errEnded
		case <-ctx.Done():
			return "", ctx.Err()
		}
		switch d, all := acq.decide(r, waiterTTL != "0"); {
		case d == majority.Undecided:
		case d == majority.Won && !all && !late:
			if !graced {
				graced = grace.Reset(majority.Grace(acq.s.now()-start, timeout))
			}
		case d == majority.JoinQueue:
			ask(attempts[r.coordinator], waiterTTL)
		case d == majority.Split && waiterTTL == "0" && tries < maxReasks:
			if !acq.s.life.Sleep(context.Background(), backoff.Default.After(tries, rand.Float64())) {
				return "", ErrClosed
			}
			tries++
			for _, na := range r.reaskBusy() {
				ask(na, waiterTTL)
			}
		default:
			return acq.conclude(ctx, r, d, timeout)
		}
	}
}

// maxReasks is how often one who does not wait asks again where somebody was in the
// way, once the lead has granted: the others, whom the lead has not, are giving
// back. Without that, of several who try at once none might get the lock.
const maxReasks = 5

// decide decides by the replies so far, and notes who has the lead: a node whose word
// a majority contradicts has not. all says that every node has replied of which a
// reply is expected.
func (acq *acquisition) decide(r *round, waits bool) (d majority.Decision, all bool) {
	acq.mu.Lock()
	defer acq.mu.Unlock()
	replies, counts := r.replies()
	all = acq.s.onlySilentLeft(haveReplied(replies))
	for range r.attempts {
		d, r.coordinator = majority.Decide(replies, counts, r.order, waits)
		if d == majority.Won || d == majority.TooFew {
			break
		}
		a, holder := r.compare(all)
		if a == heldByOthers && !waits {
			break // they may be giving back, see insist
		}
		if (d == majority.Taken || d == majority.Split && waits) && a == undecided {
			d = majority.Undecided // the others may yet contradict the lead
		}
		if a != heldByOthers && (a != heldThere || !acq.s.noteContradiction(acq.key, r.coordinator, holder, acq.ttl)) {
			break
		}
		r.passCoordinator()
	}
	if r.attempts[r.coordinator].holds {
		acq.waiters = r.attempts[r.coordinator].waiters
	}
	if d == majority.JoinQueue {
		r.attempts[r.coordinator].reply = majority.Open
	}
	return d, all
}

// conclude carries out what the first answers mean.
func (acq *acquisition) conclude(
	ctx context.Context, r *round, d majority.Decision, timeout time.Duration,
) (string, error) {
	switch {
	case d == majority.Won:
		answer, err := acq.writeToken(ctx, r, timeout)
		var probation *probationError
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.As(err, &probation) || errors.Is(err, errForgot):
			return "", acq.cancelRoundAndWait(ctx, r, timeout, &retryRoundError{err})
		default:
			acq.cancelRound(r, timeout)
		}
		return answer, err
	case d == majority.InQueue:
		return acq.keepPosition(r, timeout), nil
	case d == majority.Split && acq.currentWaiterTTL() != "0":
		acq.collect(r)
		return acq.collectingAnswer(), nil
	case d == majority.TooFew:
		acq.mu.Lock()
		err := acq.s.noMajority(r.failures())
		acq.mu.Unlock()
		acq.cancelRound(r, timeout)
		if isRefusal(err) {
			acq.s.forget(acq) // nobody cancels what was refused
		}
		return "", err
	}
	answer := acq.busyAnswer(r)
	if r.holdsAny() {
		// Who asks again at once must not stand behind what it had itself.
		if err := acq.cancelRoundAndWait(ctx, r, timeout, nil); err != nil {
			return "", err
		}
	} else {
		acq.cancelRound(r, timeout)
	}
	acq.s.forget(acq)
	return answer, nil
}

// cancelRound gives the round back: the claim has nothing any more.
func (acq *acquisition) cancelRound(r *round, timeout time.Duration) {
	acq.mu.Lock()
	r.end()
	if acq.round == r && acq.phase != ended {
		acq.phase = idle
	}
	acq.mu.Unlock()
	r.cancelAll(timeout)
}

// cancelRoundAndWait gives the round back like drop, and waits until the nodes that are
// expected to answer have done so: the next round must not find itself in the
// way. It answers why.
func (acq *acquisition) cancelRoundAndWait(ctx context.Context, r *round, timeout time.Duration, why error) error {
	acq.mu.Lock()
	r.end()
	if acq.round == r && acq.phase != ended {
		acq.phase = idle
	}
	acq.mu.Unlock()
	attempts, heard := r.snapshot(), make([]bool, len(r.attempts))
	done := acq.s.startOnEach(func(i int, _ *node) error { _, err := attempts[i].cancel(timeout); return err })
	for !acq.s.onlySilentLeft(heard) {
		select {
		case one := <-done:
			heard[one.i] = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return why
}

// keepPosition keeps the place in the lead's line, and gives back what other nodes
// have granted: whose turn it is finds them free.
func (acq *acquisition) keepPosition(r *round, timeout time.Duration) string {
	acq.mu.Lock()
	for i := range r.attempts {
		if i != r.coordinator {
			r.replace(i, timeout)
		}
	}
	coordinator := r.attempts[r.coordinator]
	granted := coordinator.holds // the push has overtaken the answer
	answer := acq.queuedAnswer(coordinator)
	if r.live() && acq.phase == asking && !granted {
		acq.phase = waiting
	}
	acq.mu.Unlock()
	if granted {
		acq.collect(r)
		return acq.collectingAnswer()
	}
	return answer
}

// queuedAnswer is the lead's answer to one who waits. It looks again after a third
// of its lease at the latest, for its lead may be gone. It tells no time: no
// server pushes to the client, and what the claim tells it is never old.
func (acq *acquisition) queuedAnswer(na *nodeAttempt) string {
	return fmt.Sprintf("queued %d %s 0", na.lastAnswer.Place, wire.Millis(min(na.lastAnswer.Left, acq.ttl/3)))
}

// collectingAnswer is the answer to one whose turn it is, and who has no majority yet:
// first in line, and to look again while the lead still holds.
func (acq *acquisition) collectingAnswer() string {
	return "queued 1 " + wire.Millis(acq.ttl/3) + " 0"
}

// busyAnswer answers who holds, as the first node in the order says it that says so.
func (acq *acquisition) busyAnswer(r *round) string {
	acq.mu.Lock()
	defer acq.mu.Unlock()
	for _, i := range r.order {
		if b := r.attempts[i].lastAnswer; b.Kind == wire.Busy {
			holder := "-"
			if b.Holder != "" {
				holder = clientAttempt(b.Holder)
			}
			return fmt.Sprintf("busy %s %s", wire.Millis(b.Left), holder)
		}
	}
	return "busy 0 -"
}
