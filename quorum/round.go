package quorum

import (
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
)

// A round is one try to get a majority: a bid on each server, under identities of its own. Example:
// of five servers, 1, 2 and 3 have granted, 4 is busy, and 5 has not answered. replies says granted,
// granted, granted, busy, open. Server 2 restarted ten seconds ago, so its grant does not count.
// That leaves two grants that count, which is no majority of five yet: the round is undecided until
// 5 has answered.
//
// Some nodes count and others do not, for three reasons: the node may have forgotten leases
// (probation), its hold is older than the lease that the client counts, or its token is ahead of
// all right clocks (tokensAhead).

// round is one try to get a majority. A round that was won goes on as the lease's: its attempts are
// what is renewed, restored and released.
type round struct {
	// These never change, so they are read without the acquisition's mu.
	acq  *acquisition
	done chan struct{} // closed when the round has ended: it wakes all who wait for its answers

	// The acquisition's mu guards these. Only the driver changes order and coordinator. So the driver
	// may read the coordinator without mu.
	order       []int // the nodes in the order in which they may become coordinator
	coordinator int
	ended       bool           // nothing that could acquire is sent any more; done is closed
	attempts    []*nodeAttempt // one for each node. Another takes its place under a new identity, see replace
}

// newRound starts a round. acq.mu is held.
// The client may count its lease from now on: before this instant the round has asked for nothing.
// The round before it has been ended by the caller, so there is at most one live round.
func (acq *acquisition) newRound() *round {
	r := &round{
		acq: acq, order: acq.order(acq.key),
		done: make(chan struct{}), attempts: make([]*nodeAttempt, len(acq.nodes)),
	}
	r.coordinator = r.order[0]
	for i := range r.attempts {
		r.attempts[i] = r.newAttempt(i)
	}
	acq.phase, acq.round, acq.countsFrom = asking, r, acq.now()
	acq.touch()
	return r
}

// newAttempt makes an attempt that has nothing on its node yet. acq.mu is held.
func (r *round) newAttempt(i int) *nodeAttempt {
	acq := r.acq
	return &nodeAttempt{
		r: r, i: i, node: acq.nodes[i], keys: []string{acq.key},
		id:   acq.attempt + "." + strconv.FormatUint(acq.ids.Add(1), 10),
		ttl:  acq.longest,
		gate: make(chan struct{}, 1),
	}
}

// end ends the round: it asks for nothing more. acq.mu is held.
func (r *round) end() {
	if !r.ended {
		r.ended = true
		close(r.done)
	}
}

// live reports whether the round is the acquisition's current one and has not ended. acq.mu is
// held.
func (r *round) live() bool { return !r.ended && r.acq.round == r }

// snapshot returns the attempts as they are now.
func (r *round) snapshot() []*nodeAttempt {
	r.acq.mu.Lock()
	defer r.acq.mu.Unlock()
	return append([]*nodeAttempt(nil), r.attempts...)
}

// replies returns what the nodes have said so far, and which of them count. acq.mu is held.
// A node that does not count may hold all the same, and is cancelled or released like the others.
func (r *round) replies() (replies []majority.Reply, counts []bool) {
	replies, counts = make([]majority.Reply, len(r.attempts)), make([]bool, len(r.attempts))
	for i, na := range r.attempts {
		replies[i] = na.reply
		counts[i] = r.acq.states.probation(i) == nil && na.counts(r.acq.countsFrom)
	}
	return replies, majority.WithoutAhead(replies, counts, r.tokensAhead())
}

// tokensAhead says which nodes drew tokens that no right clock can have reached. If such a
// token is written to other nodes and one of them loses its memory, it draws lower tokens
// until its clock gets there. Half of MaxTTL is tolerated: a node that has lost its memory
// draws no token for all of MaxTTL. acq.mu is held.
//
// Example: MaxTTL is a minute, and it is noon by the clocks of most nodes. A token from up to half a
// minute past noon counts. One from an hour past noon counts only if the others are no majority.
func (r *round) tokensAhead() []bool {
	list, s := make([]bool, len(r.attempts)), r.acq.servers
	clock, ok := r.acq.states.rightClock()
	if !ok {
		return list
	}
	latest := s.now() + clock + s.cfg.MaxTTL/2
	for i, na := range r.attempts {
		list[i] = na.holds && na.token > uint64(max(latest, 0)/time.Microsecond) // a token is an instant in µs
	}
	return list
}

// failures returns why nodes do not count. acq.mu is held.
func (r *round) failures() map[int]error {
	failed := make(map[int]error)
	for i, na := range r.attempts {
		if na.reply == majority.Failed && na.err != nil {
			failed[i] = na.err
		} else if probation := r.acq.states.probation(i); probation != nil {
			failed[i] = probation
		}
	}
	return failed
}

// holdsAny reports whether any node has granted.
func (r *round) holdsAny() bool {
	r.acq.mu.Lock()
	defer r.acq.mu.Unlock()
	return slices.ContainsFunc(r.attempts, func(na *nodeAttempt) bool { return na.holds })
}

// mayHold counts the nodes that may have held since the acquisition was won: nodes that said
// so, and nodes that have been silent for less than a lease. acq.mu is held.
// A node is not counted because it is silent, but because it held when it was last heard, and that
// hold need not be over. If fewer than a majority may hold, the lease cannot be saved.
func (r *round) mayHold() (n int) {
	now := r.acq.now()
	for _, na := range r.attempts {
		if na.hasHeld(r.acq.renewedAt) && na.mayLast(now, r.acq.longest) {
			n++
		}
	}
	return n
}

// confirmed says which nodes hold, have held since the acquisition was won, and have said so
// since countsFrom. acq.mu is held.
// This is the strict view, and mayHold the hopeful one: a poll answers "granted" by the strict view,
// and gives up only by the hopeful one.
//
// Example: five servers have held since the grant. Of a poll that began at 20 s, 1 and 2 say
// "granted", 3 says "gone", and 4 and 5 have not answered. Two are confirmed: too few for
// "granted". Four may hold, for 4 and 5 held when they were last heard. So the poll ends with an
// error, and the client asks again.
func (r *round) confirmed() []bool {
	list := make([]bool, len(r.attempts))
	for i, na := range r.attempts {
		list[i] = na.hasHeld(r.acq.renewedAt) && na.countsFrom >= r.acq.countsFrom
	}
	return list
}

// unconfirmed returns the other nodes, with the reasons. acq.mu is held.
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

// reaskBusy returns the attempts on nodes where another attempt held, so that they are asked
// again.
// Their replies are open again, so the next decision waits for the new answers.
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

// reopen returns the attempts that have nothing yet. They are about to be asked again, so their
// earlier answers no longer count. acq.mu is held. Without that, a "busy" from before the holder's
// release would count against the attempt whose turn it is.
func (r *round) reopen() (list []*nodeAttempt) {
	for _, na := range r.attempts {
		if !na.holds && !na.queued {
			na.reply = majority.Open
			list = append(list, na)
		}
	}
	return list
}

// replace puts a new attempt in the place of the one on node i, and cancels the old one in the
// background. acq.mu is held. The node counts as busy until the new attempt is asked: the old one
// may hold there for a moment. Example: "c/7.4" on server 2 becomes "c/7.9". A push for "c/7.4"
// that arrives later finds no attempt of that identity (handlePush), and its cancel ends the grant.
func (r *round) replace(i int, timeout time.Duration) {
	old := r.attempts[i]
	old.ended = true
	r.attempts[i] = r.newAttempt(i)
	r.attempts[i].reply = majority.Busy
	r.acq.life.Go(cancelLabel, func() { _, _ = old.cancel(timeout) })
}

// follow makes a node the coordinator that has the attempt in its queue, and cancels what the
// others have. acq.mu is held.
func (r *round) follow(coordinator int, timeout time.Duration) {
	r.coordinator = coordinator
	for i := range r.attempts {
		if i != coordinator {
			r.replace(i, timeout)
		}
	}
}

// cancelAll cancels, in the background, what an ended round has on the nodes. A node that does not
// answer its cancel owes it from then on (nodeAttempt.cancelLater).
func (r *round) cancelAll(timeout time.Duration) {
	for _, na := range r.snapshot() {
		r.acq.life.Go(cancelLabel, func() { _, _ = na.cancel(timeout) })
	}
}

// haveReplied says which nodes have replied.
func haveReplied(replies []majority.Reply) []bool {
	list := make([]bool, len(replies))
	for i, r := range replies {
		list[i] = r != majority.Open
	}
	return list
}
