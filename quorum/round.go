package quorum

import (
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
)

// round is one try to get a majority.
type round struct {
	acq         *acquisition
	order       []int // who is asked for the lead, first to last
	coordinator int
	done        chan struct{} // closed when the round is over
	ended       bool
	attempts    []*nodeAttempt
}

// newRound starts a round. c.mu is held.
func (acq *acquisition) newRound() *round {
	r := &round{
		acq: acq, order: acq.s.order(acq.key),
		done: make(chan struct{}), attempts: make([]*nodeAttempt, len(acq.s.nodes)),
	}
	r.coordinator = r.order[0]
	for i := range r.attempts {
		r.attempts[i] = r.newAttempt(i)
	}
	acq.phase, acq.round, acq.countsFrom = asking, r, acq.s.now()
	acq.touch()
	return r
}

// newAttempt makes an empty slot. c.mu is held.
func (r *round) newAttempt(i int) *nodeAttempt {
	acq := r.acq
	return &nodeAttempt{
		r: r, i: i, node: acq.s.nodes[i], keys: []string{acq.key},
		id:   acq.attempt + "." + strconv.FormatUint(acq.s.ids.Add(1), 10),
		gate: make(chan struct{}, 1),
	}
}

// end ends the round: nothing more is taken in it. c.mu is held.
func (r *round) end() {
	if !r.ended {
		r.ended = true
		close(r.done)
	}
}

// live reports whether the round is the claim's, and not over. c.mu is held.
func (r *round) live() bool { return !r.ended && r.acq.round == r }

// snapshot are the slots as they are now.
func (r *round) snapshot() []*nodeAttempt {
	r.acq.mu.Lock()
	defer r.acq.mu.Unlock()
	return append([]*nodeAttempt(nil), r.attempts...)
}

// replies are what the nodes have said so far, and who of them counts. c.mu is
// held.
func (r *round) replies() (replies []majority.Reply, counts []bool) {
	replies, counts = make([]majority.Reply, len(r.attempts)), make([]bool, len(r.attempts))
	for i, na := range r.attempts {
		replies[i] = na.reply
		// A hold from before the instant from which the client may count its
		// lease could end before the client thinks so, as could one that is not confirmed.
		counts[i] = r.acq.states.probation(i) == 0 &&
			(!na.holds || na.countsFrom >= r.acq.countsFrom && !na.unconfirmed)
	}
	return replies, majority.WithoutAhead(replies, counts, r.tokensAhead())
}

// tokensAhead says which nodes drew tokens that no right clock can have come to. Once such
// a token is written to others, and one of them has lost its memory, it draws lower
// ones: its clock has yet to come there. Half of MaxTTL is allowed: who has lost its
// memory draws for none for all of it. c.mu is held.
func (r *round) tokensAhead() []bool {
	list, s := make([]bool, len(r.attempts)), r.acq.s
	clock, ok := r.acq.states.rightClock()
	if !ok {
		return list
	}
	latest := s.now() + clock + s.cfg.MaxTTL/2
	for i, na := range r.attempts {
		list[i] = na.holds && na.token > uint64(max(latest, 0)/time.Microsecond) // it is an instant in us
	}
	return list
}

// failures are why nodes cannot be counted on. c.mu is held.
func (r *round) failures() map[int]error {
	failed := make(map[int]error)
	for i, na := range r.attempts {
		if na.reply == majority.Failed && na.err != nil {
			failed[i] = na.err
		} else if left := r.acq.states.probation(i); left > 0 {
			failed[i] = &probationError{majority.OnProbation, left}
		}
	}
	return failed
}

// holdsAny reports whether a node has granted.
func (r *round) holdsAny() bool {
	r.acq.mu.Lock()
	defer r.acq.mu.Unlock()
	return slices.ContainsFunc(r.attempts, func(na *nodeAttempt) bool { return na.holds })
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

// replace gives back, in the background, what the round has on a node, and
// makes a new slot there that has nothing. c.mu is held.
func (r *round) replace(i int, timeout time.Duration) {
	old := r.attempts[i]
	old.ended = true
	r.attempts[i] = r.newAttempt(i)
	r.attempts[i].reply = majority.Busy
	r.acq.s.life.Go(func() { _, _ = old.cancel(timeout) })
}

// cancelAll gives back what an ended round has on the nodes, in the background.
func (r *round) cancelAll(timeout time.Duration) {
	for _, na := range r.snapshot() {
		r.acq.s.life.Go(func() { _, _ = na.cancel(timeout) })
	}
}

// haveReplied are the nodes that have replied.
func haveReplied(replies []majority.Reply) []bool {
	list := make([]bool, len(replies))
	for i, r := range replies {
		list[i] = r != majority.Open
	}
	return list
}
