package quorum

import (
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
	unansweredUntil time.Duration // until then an acquire without an answer may yet take the lock
	unanswered      int           // how many such acquires there are
	token           uint64
	waiters         int           // how many stood in the node's line when it granted
	askedAt         time.Duration // before the last request was sent that may have led to a place
	countsFrom      time.Duration // the hold counts from here: the node has not started to count earlier
	heldSince       time.Duration // the node has held without a break since then, as far as it told
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

// confirm makes a grant that was pushed count: until then its lease is short, so
// that one to a client that hears nothing costs little.
func (na *nodeAttempt) confirm() {
	acq := na.r.acq
	_ = na.poll(majority.RequestTimeout(acq.s.cfg.Timeout, acq.ttl, 0)) // what comes of it is in the slot
	acq.notify()
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
	answer, err := na.node.call(timeout, script.RaiseFence, na.keys,
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

// raiseLate raises a hold that a node has granted after the claim was won. c.mu is
// held.
func (na *nodeAttempt) raiseLate() {
	acq := na.r.acq
	if acq.phase == held && na.r.live() && !na.ended {
		token, timeout := acq.token, majority.RequestTimeout(acq.s.cfg.Timeout, acq.ttl, 0)
		acq.s.life.Go(func() { _ = na.raiseToken(timeout, token) })
	}
}

// release gives up what the slot has.
func (na *nodeAttempt) release(timeout time.Duration, args []string) error {
	token, err := na.end(timeout)
	if err != nil {
		return err
	}
	acq := na.r.acq
	own := append([]string{na.id, wire.Number(token)}, args[2:]...)
	a, err := na.send(timeout, script.Release, own)
	if err != nil && !isRefusal(err) {
		na.cancelLater(1, acq.s.now()+acq.ttl)
	} else {
		na.cancelLater(0, 0)
	}
	return checkReleased(a, err)
}

// releaseAfter gives up what the slot has.
func (na *nodeAttempt) releaseAfter(timeout time.Duration, args []string) (wire.Answer, error) {
	token, err := na.end(timeout)
	if err != nil {
		return wire.Answer{}, err
	}
	a, err := na.send(timeout, script.ReleaseAfter, append([]string{na.id, wire.Number(token)}, args[2:]...))
	if err == nil {
		na.cancelLater(0, 0)
		if a.Kind == wire.Gone {
			err = errForgot
		}
	}
	return a, err
}

// end ends the slot, and answers the token of what it holds. A node that does
// not hold has nothing to give up: errForgot, once what it may have is given back.
func (na *nodeAttempt) end(timeout time.Duration) (token uint64, err error) {
	acq := na.r.acq
	na.gate <- struct{}{} // what is under way there comes first
	acq.mu.Lock()
	holds := na.holds
	token, na.ended = na.token, true
	acq.mu.Unlock()
	<-na.gate
	if holds {
		return token, nil
	}
	if _, err := na.cancel(timeout); err != nil && !isRefusal(err) {
		return 0, err
	}
	return 0, errForgot
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
