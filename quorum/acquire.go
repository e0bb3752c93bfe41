package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/leasetime"
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

// maxReasks is how often one who does not wait asks again where somebody was in the
// way, once the lead has granted: the others, whom the lead has not, are giving
// back. Without that, of several who try at once none might get the lock.
const maxReasks = 5

// reaskBusy picks the nodes where somebody was in the way.
func (r *round) reaskBusy() (again []*nodeAttempt) {
	r.acq.mu.Lock()
	defer r.acq.mu.Unlock()
	for _, na := range r.attempts {
		if na.reply == majority.Busy {
			na.reply = majority.Open
			again = append(again, na)
		}
	}
	return again
}

// haveReplied are the nodes that have replied.
func haveReplied(replies []majority.Reply) []bool {
	list := make([]bool, len(replies))
	for i, r := range replies {
		list[i] = r != majority.Open
	}
	return list
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

// holdsAny reports whether a node has granted.
func (r *round) holdsAny() bool {
	r.acq.mu.Lock()
	defer r.acq.mu.Unlock()
	return slices.ContainsFunc(r.attempts, func(na *nodeAttempt) bool { return na.holds })
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

// errNoGrant says that a node was not among those that granted.
var errNoGrant = errors.New("has not granted")

// writeToken is the second phase: it writes a token above those of all grants to a
// majority of the nodes that hold, and sees that these have forgotten nothing.
// Only then the grant is believed. The caller is the driver.
func (acq *acquisition) writeToken(ctx context.Context, r *round, timeout time.Duration) (string, error) {
	acq.mu.Lock()
	_, counts := r.replies()
	holders, drawn := make(map[int]*nodeAttempt), []uint64(nil)
	for i, na := range r.attempts {
		if na.holds && counts[i] {
			holders[i], drawn = na, append(drawn, na.token)
		}
	}
	token, granted := majority.Token(drawn, len(r.attempts)), acq.s.now()
	acq.mu.Unlock()

	done := make(chan result, len(holders))
	for i, na := range holders {
		if !acq.s.life.Go(func() { done <- result{i, na.raiseToken(timeout, token)} }) {
			done <- result{i, ErrClosed}
		}
	}
	failed, raised := make(map[int]error), make([]bool, len(r.attempts))
	for i := range r.attempts {
		if holders[i] == nil {
			failed[i] = errNoGrant
		}
	}
	for open := len(holders); ; open-- {
		ok, err := acq.vouched(granted, raised, failed, open)
		if err != nil {
			return "", err
		} else if ok {
			return acq.granted(r, token, holders, timeout)
		}
		select {
		case one := <-done:
			if raised[one.i] = one.err == nil; one.err != nil {
				failed[one.i] = one.err
			}
		case <-r.done:
			return "", errEnded
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// vouched reports whether a majority of those that have the token vouch for what
// they granted, by what they said of themselves since then. open answers are to
// come; the error is that it cannot be a majority any more.
func (acq *acquisition) vouched(since time.Duration, raised []bool, failed map[int]error, open int) (bool, error) {
	ok, why, sure := acq.states.vouch(since, raised)
	if sure || open == 0 {
		acq.states.noteWrongMarks(why)
	}
	if ok >= acq.s.majority {
		acq.states.refresh()
		// Two of them may have turned out to be one server.
		acq.states.mu.Lock()
		defer acq.states.mu.Unlock()
		acq.states.sameServer = acq.states.findSameServer(since)
		return acq.states.sameServer == nil, acq.states.sameServer
	}
	if !sure && open > 0 {
		ok += len(why)
	}
	if ok+open >= acq.s.majority {
		return false, nil
	}
	maps.Copy(failed, why)
	return false, acq.s.noMajority(failed)
}

// granted makes the round's holds the claim's, unless it has ended meanwhile or its
// lease is over before it began.
func (acq *acquisition) granted(
	r *round, token uint64, holders map[int]*nodeAttempt, timeout time.Duration,
) (string, error) {
	acq.mu.Lock()
	defer acq.mu.Unlock()
	now := acq.s.now()
	switch {
	case !r.live():
		return "", errEnded
	case leasetime.Deadline(acq.countsFrom, acq.ttl) <= now:
		return "", fmt.Errorf("quorum: a majority took %v to grant a lease of %v: nothing is left of it",
			now-acq.countsFrom, acq.ttl)
	}
	acq.phase, acq.token, acq.renewedAt = held, token, now
	acq.touch()
	// Who granted while the others were raised gets the token, too.
	for i, na := range r.attempts {
		if na.holds && holders[i] != na {
			acq.s.life.Go(func() { _ = na.raiseToken(timeout, token) })
		}
	}
	acq.notify()
	return fmt.Sprintf("granted %d %d", token, acq.waiters), nil
}

// raiseLate raises a hold that a node has granted after the claim was won. c.mu is
// held.
func (na *nodeAttempt) raiseLate() {
	acq := na.r.acq
	if acq.phase == held && na.r.live() && !na.ended {
		token, timeout := acq.token, majority.RequestTimeout(acq.s.cfg.Timeout, acq.ttl, 0)
		acq.s.life.Go(func() { _ = na.raiseToken(timeout, token) })
	}
}
