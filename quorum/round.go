package quorum

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// nodeAttempt is what a round has on one node, under one identity.
type nodeAttempt struct {
	r    *round
	i    int
	node *node
	keys []string
	id   string
	gate chan struct{} // has room for one request at a time

	// The claim's mu guards the fields below.
	ended           bool // given back: nothing more is taken under this identity
	reply           majority.Reply
	err             error // why it failed
	lastAnswer      wire.Answer
	holds           bool          // the node has granted
	queued          bool          // it has a place in the node's line
	unconfirmed     bool          // it was granted by a push, for a short time, until a request confirms it
	unansweredUntil time.Duration // until then an acquire without an answer may yet take the lock, even after the cancel
	unanswered      int           // how many such acquires there are
	token           uint64
	waiters         int           // how many stood in the node's line when it granted
	askedAt         time.Duration // before the last request was sent that may have led to a place
	countsFrom      time.Duration // the hold counts from here: the node has not started to count earlier
	heldSince       time.Duration // the node has held without a break since then, as far as it told
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

// send sends an action to the node when no earlier request of the slot is under
// way there: so a cancel never overtakes what it is to undo. What takes
// something is not sent any more once the slot is over.
func (na *nodeAttempt) send(timeout time.Duration, action *script.Script, args []string) (wire.Answer, error) {
	acq := na.r.acq
	takes := action == script.Acquire || action == script.Poll
	na.gate <- struct{}{} // every request is bounded, so this wait is too
	defer func() { <-na.gate }()
	acq.mu.Lock()
	if takes && (na.ended || na.r.ended) {
		acq.mu.Unlock()
		return wire.Answer{}, errEnded
	}
	sent := acq.s.now()
	if takes && !na.queued && !na.holds {
		na.askedAt = sent
	}
	acq.mu.Unlock()
	answer, err := na.node.call(timeout, action, na.keys, args)
	var a wire.Answer
	if err == nil {
		a, err = wire.Parse(answer)
	}
	if takes {
		acq.mu.Lock()
		if err != nil && !notSent(err) && action == script.Acquire {
			na.unansweredUntil = acq.s.now() + acq.ttl
			na.unanswered++
		}
		na.noteAnswer(a, sent, err)
		acq.mu.Unlock()
	}
	return a, err
}

// noteAnswer keeps what an answer says. c.mu is held.
func (na *nodeAttempt) noteAnswer(a wire.Answer, sent time.Duration, err error) {
	switch {
	case err != nil:
		if !na.holds {
			na.reply, na.err = majority.Failed, err
		}
	case a.Kind == wire.Granted:
		na.noteGrant(a.Token, a.Waiting, sent)
	case a.Kind == wire.Queued:
		if na.holds {
			return // the push has overtaken this answer
		}
		na.reply, na.queued, na.askedAt, na.lastAnswer = majority.Queued, true, sent, a
	case a.Kind == wire.Gone:
		// It has nothing here any more. A push for what it had may be on its
		// way, so it does not ask again under this identity.
		na.ended, na.holds, na.queued = true, false, false
		if r := na.r; r.attempts[na.i] == na {
			r.attempts[na.i] = r.newAttempt(na.i)
			r.attempts[na.i].reply = majority.Busy
		}
	default:
		na.reply, na.holds, na.queued, na.lastAnswer = majority.Busy, false, false, a
	}
}

// noteGrant notes that the node has granted, and counts from sent. c.mu is held.
func (na *nodeAttempt) noteGrant(token uint64, waiting int, sent time.Duration) {
	acq := na.r.acq
	if !na.holds {
		na.heldSince = acq.s.now()
	}
	na.reply, na.holds, na.queued, na.unconfirmed = majority.Granted, true, false, false
	na.token, na.countsFrom = max(na.token, token), max(na.countsFrom, sent)
	if na.waiters = waiting; na.i == na.r.coordinator {
		acq.waiters = waiting
	}
}

// noteFailure notes why nothing is to be expected of the node.
func (na *nodeAttempt) noteFailure(err error) {
	na.r.acq.mu.Lock()
	defer na.r.acq.mu.Unlock()
	na.reply, na.err = majority.Failed, err
}

// acquire asks the node for the lock, and for a place in its line unless
// patience is 0.
func (na *nodeAttempt) acquire(timeout time.Duration, waiterTTL string) error {
	acq := na.r.acq
	_, err := na.send(timeout, script.Acquire,
		[]string{na.id, acq.ttlMS, acq.recordTTL, acq.mode, waiterTTL, acq.channelPrefix})
	return err
}

// poll looks what has become of a place or a hold, and prolongs both.
func (na *nodeAttempt) poll(timeout time.Duration) error {
	acq := na.r.acq
	_, err := na.send(timeout, script.Poll,
		[]string{na.id, acq.ttlMS, acq.retention, acq.currentWaiterTTL(), acq.channelPrefix})
	return err
}

// raiseToken writes the token to the node, which must hold, and reads its mark: both
// after its grant.
func (na *nodeAttempt) raiseToken(timeout time.Duration, token uint64) error {
	acq := na.r.acq
	met := make(chan error, 1)
	if !acq.s.life.Go(func() { met <- acq.states.readNode(na.i, timeout, "") }) {
		return ErrClosed
	}
	na.gate <- struct{}{}
	answer, err := na.node.call(timeout, script.Raise, na.keys,
		[]string{na.id, wire.Number(token), acq.retention})
	<-na.gate
	if other := <-met; err == nil {
		err = other
	}
	if err != nil {
		return err
	}
	acq.mu.Lock()
	defer acq.mu.Unlock()
	if answer == "gone" {
		na.holds, na.reply, na.err = false, majority.Failed, errForgot
		return errForgot
	}
	na.token = max(na.token, token)
	return nil
}

// cancel ends what the slot has, as far as it can be known; what stays in
// doubt is cancelled in the background. It answers what was ended.
func (na *nodeAttempt) cancel(timeout time.Duration) (wire.Kind, error) {
	acq := na.r.acq
	na.gate <- struct{}{}
	acq.mu.Lock()
	na.ended = true
	nothing := !na.holds && !na.queued && acq.s.now() >= na.unansweredUntil
	until := max(na.askedAt, na.countsFrom) + acq.ttl
	acq.mu.Unlock()
	<-na.gate
	if nothing {
		return wire.None, nil
	}
	a, err := na.send(timeout, script.Cancel, []string{na.id, acq.retention, acq.channelPrefix})
	if err != nil && !isRefusal(err) {
		na.cancelLater(1, max(until, acq.s.now()+timeout))
	} else {
		na.cancelLater(0, 0)
	}
	return a.Kind, err
}

// cancelLater has the node cancelled in the background until then, so often that it was found
// to have something. And what any acquire may yet take that was sent and not answered:
// each of them may arrive after another one of the slot was answered, or has arrived,
// and what that had taken was given back.
func (na *nodeAttempt) cancelLater(times int, until time.Duration) {
	acq := na.r.acq
	acq.mu.Lock()
	if acq.s.now() < na.unansweredUntil {
		times, until = times+na.unanswered, max(until, na.unansweredUntil)
	}
	acq.mu.Unlock()
	if times > 0 {
		args := []string{na.id, acq.retention, acq.channelPrefix}
		na.node.addCancel(pendingCancel{keys: na.keys, args: args, times: times, until: until})
	}
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

// cancelAll gives back what an ended round has on the nodes, in the background.
func (r *round) cancelAll(timeout time.Duration) {
	for _, na := range r.snapshot() {
		r.acq.s.life.Go(func() { _, _ = na.cancel(timeout) })
	}
}

// replies are what the nodes have said so far, and who of them counts. c.mu is
// held.
func (r *round) replies() (replies []majority.Reply, counts []bool) {
	replies, counts = make([]majority.Reply, len(r.attempts)), make([]bool, len(r.attempts))
	for i, na := range r.attempts {
		replies[i] = na.reply
		// A hold from before the instant from which the client may count its
		// lease could end before the client thinks so, as could one that is not confirmed.
		counts[i] = r.acq.states.probation(i) == 0 && (!na.holds || na.countsFrom >= r.acq.countsFrom && !na.unconfirmed)
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
