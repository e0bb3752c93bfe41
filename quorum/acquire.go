package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Acquiring asks all servers at once and decides as soon as the answers allow it. Suppose that
// five servers are asked, and that server 1 comes first in the order of this lock.
//
//   - 1, 2 and 3 grant: a majority with the coordinator. The others get a moment to grant, too.
//     Then writeToken does the second phase.
//   - 1 says busy: the client joins the queue of 1, and everything on the other servers is cancelled.
//   - 1 grants, and 2, 3 and 4 are busy with holders of their own: several attempts began at once,
//     and each has some of the servers. A client that waits collects the others' grants as they
//     are cancelled. A client that does not wait asks the busy ones again, up to maxReasks times.
//   - 1 does not answer: the first one in the order that does is the coordinator.
//
// majority.Decide makes that decision from the replies. This file asks, waits, and carries it out.

// acquire acquires the lock on a majority, or a position in the coordinator's queue.
//
// If it fails, nothing is left: nodes that have granted are cancelled, in the background if
// they do not answer. If ctx ends, the cancel that the client then sends does that.
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

// acquire takes the acquisition as far as it gets now.
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
		return "", refuse(errInvalidCall, "ERR", "attempt %s has ended: use each attempt once", acq.attempt)
	}
	if at == held || at == waiting || at == collecting {
		return acq.poll(ctx) // the request was repeated: answer as before, unless there is progress
	}
	return acq.runRounds(ctx)
}

// runRounds acquires the lock or a position in the queue, in a round of its own. If nodes that
// have lost their memory were part of the majority, it starts another round without them; each
// node is found out only once. The caller is the driver.
func (acq *acquisition) runRounds(ctx context.Context) (string, error) {
	for tries := 0; ; tries++ {
		answer, err := acq.runRound(ctx)
		var retry *retryRoundError
		if !errors.As(err, &retry) {
			return answer, err
		}
		if tries == len(acq.nodes) {
			return "", retry.err
		}
		if err := acq.identify(ctx, acq.states); err != nil {
			return "", err
		}
	}
}

// retryRoundError says that a round failed because of nodes that are known by now not to
// count. The next round leaves them out.
type retryRoundError struct{ err error }

func (r *retryRoundError) Error() string { return r.err.Error() }

// runRound asks all nodes at once. It decides as soon as their answers allow it.
//
// Each answer wakes the loop, which decides anew by all replies so far. The loop ends when a
// decision is final. Four decisions are not: Undecided waits for more; Won waits for the grace of
// the nodes that may grant as well; JoinQueue asks the coordinator once more, now for a position;
// Split, for a caller that does not wait, asks the busy nodes again, maxReasks times. For example,
// two of five nodes have granted, the coordinator among them, and three are busy. A waiter keeps
// both grants and collects the others (conclude, collect). A caller that does not wait asks the
// three again, and then cancels the two. The round before this one is cancelled: its identities
// have ended, so nothing of them can be granted to the client any more.
func (acq *acquisition) runRound(ctx context.Context) (string, error) {
	timeout := acq.requestTimeout(ctx, acq.ttl)
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
	// There is room for every answer that can come, so no goroutine is left when the loop has ended.
	done := make(chan struct{}, (maxReasks+2)*len(attempts))
	ask := func(na *nodeAttempt, waiterTTL string) {
		if !acq.life.Go(label.Caller, func() { _ = na.acquire(timeout, waiterTTL); done <- struct{}{} }) {
			na.noteFailure(ErrClosed)
			done <- struct{}{}
		}
	}
	// Only the coordinator is asked for a position: a waiter stands in one queue.
	for i, na := range attempts {
		if i == r.coordinator {
			ask(na, waiterTTL)
		} else {
			ask(na, "0")
		}
	}
	grace := time.NewTimer(forever) // for nodes that have not answered when a majority has granted
	defer grace.Stop()
	start := acq.now()
	for tries, late, graced := 0, false, false; ; {
		select {
		case <-done:
		case <-grace.C:
			late = true
		case <-r.done:
			return "", errEnded
		case <-ctx.Done():
			acq.mu.Lock()
			defer acq.mu.Unlock()
			replies, _ := r.replies()
			return "", acq.interrupted(ctx, r.failures(), haveReplied(replies))
		}
		switch d, all := acq.decide(r, waiterTTL != "0"); {
		case d == majority.Undecided:
		case d == majority.Won && !all && !late:
			if !graced {
				graced = grace.Reset(majority.Grace(acq.now()-start, timeout))
			}
		case d == majority.JoinQueue:
			ask(attempts[r.coordinator], waiterTTL)
		case d == majority.Split && waiterTTL == "0" && tries < maxReasks:
			if !acq.life.Sleep(context.Background(), backoff.Default.After(tries, rand.Float64())) {
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

// maxReasks is how often an attempt that does not wait asks busy nodes again after the
// coordinator has granted: the other attempts, which the coordinator has not granted, are
// being cancelled. Without that, none of several attempts at the same time might get the lock.
const maxReasks = 5

// decide decides by the replies so far, and notes the coordinator: a node that a majority
// contradicts is none. all says that every node has replied from which a reply is expected.
//
// majority.Decide trusts the first node in the order. The loop checks that trust: if a majority
// contradicts the node, it moves to the end of the order, and Decide is asked again. Each node
// can be passed once, so the loop ends.
func (acq *acquisition) decide(r *round, waits bool) (d majority.Decision, all bool) {
	acq.mu.Lock()
	defer acq.mu.Unlock()
	replies, counts := r.replies()
	all = acq.onlySilentLeft(haveReplied(replies))
	for range r.attempts {
		d, r.coordinator = majority.Decide(replies, counts, r.order, waits)
		if d == majority.Won || d == majority.TooFew {
			break
		}
		a, holder := compare(r.attempts, r.attempts[r.coordinator], all)
		if a == heldByOthers && !waits {
			break // other attempts may be cancelling, see maxReasks
		}
		if (d == majority.Taken || d == majority.Split && waits) && a == undecided {
			d = majority.Undecided // the other nodes may yet contradict the coordinator
		}
		at := nodeLock{acq.key, r.coordinator}
		if a != heldByOthers && (a != heldThere || !acq.contradictions.note(acq.now(), at, holder, acq.ttl)) {
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

// conclude carries out the decision on a round. The round goes on in two cases only: the lock is
// held, or the client waits. Otherwise it is cancelled, here or by the cancel that a client sends
// when its context has ended.
// A caller that does not wait may try again at once. So if a node has granted, the cancels are
// waited for: the next try must not meet the hold of this one.
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
		err := acq.noMajority(r.failures())
		acq.mu.Unlock()
		acq.cancelRound(r, timeout)
		if isRefusal(err) {
			acq.s.forget(acq) // the client sends no cancel after a refusal
		}
		return "", err
	}
	answer := acq.busyAnswer(r)
	if r.holdsAny() {
		// If the caller tries again at once, it must not meet its own hold.
		if err := acq.cancelRoundAndWait(ctx, r, timeout, nil); err != nil {
			return "", err
		}
	} else {
		acq.cancelRound(r, timeout)
	}
	acq.s.forget(acq)
	return answer, nil
}

// cancelRound cancels the round: the acquisition has nothing any more.
func (acq *acquisition) cancelRound(r *round, timeout time.Duration) {
	acq.giveUp(r)
	r.cancelAll(timeout)
}

// giveUp ends the round. Unless another goroutine has ended the acquisition, it may begin anew.
func (acq *acquisition) giveUp(r *round) {
	acq.mu.Lock()
	defer acq.mu.Unlock()
	r.end()
	if acq.round == r && acq.phase != ended {
		acq.phase = idle
	}
}

// cancelRoundAndWait cancels the round and waits for the nodes that are expected to answer, so
// that the next round does not meet what this one held. It returns why.
func (acq *acquisition) cancelRoundAndWait(ctx context.Context, r *round, timeout time.Duration, why error) error {
	acq.giveUp(r)
	attempts, heard := r.snapshot(), make([]bool, len(r.attempts))
	done := acq.startOnEach(func(i int, _ *node) error { _, err := attempts[i].cancel(timeout); return err })
	for !acq.onlySilentLeft(heard) {
		select {
		case one := <-done:
			heard[one.i] = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return why
}

// keepPosition keeps the position in the coordinator's queue and cancels what other nodes have
// granted: the attempt whose turn it is must find them free. The push that ends the waiting may
// arrive before the answer that begins it. Then the turn is taken at once.
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

// queuedAnswer is the coordinator's answer to a waiter. The client polls after a third of its
// lease at the latest, because the coordinator may be gone. The answer contains no server
// time: no server pushes to the client, and what the acquisition pushes is never old.
func (acq *acquisition) queuedAnswer(na *nodeAttempt) string {
	return fmt.Sprintf("queued %d %s 0", na.lastAnswer.Place, wire.Millis(min(na.lastAnswer.Left, acq.ttl/3)))
}

// collectingAnswer is the answer to a waiter whose turn it is and that has no majority yet:
// first in the queue, to poll again while the coordinator still holds.
func (acq *acquisition) collectingAnswer() string {
	return "queued 1 " + wire.Millis(acq.ttl/3) + " 0"
}

// busyAnswer names the holder, by the first node in the order that names one.
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
