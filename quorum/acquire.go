package quorum

import (
	"cmp"
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
//   - 1 says that another client holds. A client that waits is queued there by the same request, and
//     everything on the other servers is cancelled. One that does not wait is told busy.
//   - 1 grants, and 2, 3 and 4 are busy with holders of their own: several attempts began at once,
//     and each has some of the servers. A client that waits collects the others' grants as they
//     are cancelled. A client that does not wait asks the busy ones again, up to maxReasks times.
//   - 1 does not answer: the first one in the order that does is the coordinator. It was asked for
//     the lock only. So if it is busy, it is asked once more, now for a position in its queue.
//
// majority.Decide makes that decision from the replies. This file asks, waits, and carries it out.

// acquire acquires the lock on a majority, or a position in the coordinator's queue.
//
// If it fails, nothing is left: nodes that have granted are cancelled, in the background if
// they do not answer. If ctx ends, the cancel that the client then sends does that. If the store is
// closed meanwhile, nothing is cancelled, and what was granted ends with its TTL.
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

// acquire takes the acquisition as far as it gets now. waiterTTL is how long the client wants to keep
// a position without a poll, in ms; "0" says that it does not wait.
//
// The client sends an acquire again if the answer to the first one was lost on its side. Then a
// held lease is confirmed by a poll, and a position is kept. The round is not begun anew: that
// would give up the position.
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
		return acq.poll(ctx)
	}
	return acq.runRounds(ctx)
}

// runRounds acquires the lock or a position in the queue, in a round of its own. If nodes that
// have lost their memory were part of the majority, it starts another round without them; each
// node is found out only once. The caller is the driver.
//
// Example: of five servers, 1, 2 and 3 grant, 4 and 5 are late, and 3 has restarted empty since its
// mark was read. Its mark is gone when the token is written, so only 1 and 2 vouch. All three are
// cancelled, and identify gives 3 a new mark. The next round does not count 3, and needs 4 or 5.
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
// decision is final (conclude). Four decisions are not:
//
//   - Undecided waits for more answers.
//   - Won waits for the grace of the nodes that may grant as well.
//   - JoinQueue asks the coordinator once more, now for a position.
//   - Split, for a caller that does not wait, asks the busy nodes again, maxReasks times. For
//     example, two of five nodes have granted, the coordinator among them, and three are busy. A
//     waiter keeps both grants and collects the others (conclude, collect). A caller that does not
//     wait asks the three again, and then cancels the two.
//
// The round before this one is cancelled: its identities have ended, so nothing of them can be
// granted to the client any more.
//
// A round of five servers in which all goes well, with 1 as the coordinator and a Timeout of 500 ms:
//
//	 0 ms  newRound sets countsFrom. Then all are asked, 1 with the waiter TTL, the others with "0".
//	 2 ms  1 and 2 grant: two of five, so the decision is Undecided.
//	 3 ms  4 grants: Won. 3 and 5 may grant as well, and get 8 ms more (majority.Grace).
//	 5 ms  3 grants.
//	11 ms  the grace is over. writeToken writes the token to 1, 2, 3 and 4.
//	40 ms  5 grants, too late for that. It gets the token then (nodeAttempt.raiseLate).
//
// No push is awaited here. Each request is bounded by timeout, so each server wakes the loop in the
// end, with an answer or without. A server that has not answered by then counts as Failed, and a
// cancel is owed there if the acquisition ends.
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
	// There is room for every answer: a node is asked once, maxReasks times again, and once for a position.
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
			if !acq.life.Sleep(ctx, backoff.Default.After(tries, rand.Float64())) {
				return "", cmp.Or(ctx.Err(), ErrClosed)
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
//
// Example: A has servers 1 and 2, B has 3 and 4, and C has 5. Nobody has three. Server 1 is the
// coordinator, so B and C are told busy, and cancel what they have. A asks 3, 4 and 5 again.
const maxReasks = 5

// decide decides by the replies so far, and notes the coordinator: a node that a majority
// contradicts is none. all says that every node has replied from which a reply is expected.
//
// majority.Decide trusts the first node in the order. The loop checks that trust: if a majority
// contradicts the node, it moves to the end of the order, and Decide is asked again. Each node
// can be passed once, so the loop ends.
//
// Example: server 1 names the holder "c/7", and 2, 3 and 4 grant to us. So a majority does not have
// "c/7". If that is seen for the first time, the decision stays: 1 has the queue. If it has been seen
// for two thirds of a lease (contradictions.note), 2 becomes the coordinator, and the round is Won.
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
//
//	Won                  the second phase. If it shows that servers forgot, the round is cancelled, its
//	                     cancels are waited for, and runRounds begins another. If it fails otherwise,
//	                     the round is cancelled.
//	InQueue              the position is kept, and what other servers granted is cancelled
//	Split, and it waits  the grants are kept, and the other servers are asked (collect)
//	TooFew               the round is cancelled, and the error names the servers
//	Taken, Split         the round is cancelled, and the answer is busy
//
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
//
// Each cancel waits for the request that is under way at its node, and then for its own answer.
// Both are bounded. If ctx ends first, it returns the context's error, and the cancels go on.
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
//
// From here on no goroutine of the acquisition runs. What wakes it next is the coordinator's push
// (handlePush), or the client's poll if that push is lost (pollCoordinator). The answer tells the
// client to poll after a third of the TTL at the latest.
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
