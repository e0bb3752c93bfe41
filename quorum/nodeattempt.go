package quorum

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Sending the requests of one attempt to one server. Example: the round asks server 2 as "c/7.5".
// The requests "acquire c/7.5", "raise_fence c/7.5" and "release c/7.5" are sent one at a time: each
// waits at the gate for the one before it. Without the gate a cancel could overtake the acquire that
// it cancels, find nothing, and leave a hold that nobody releases. What the answers mean is in
// bid.go.

// nodeAttempt is what a round has on one node, under one identity. All but the bid never changes.
type nodeAttempt struct {
	r    *round
	i    int // where the node is in servers.nodes, and this attempt in round.attempts
	node *node
	keys []string      // the lock's key alone
	id   string        // ATTEMPT.NUMBER, as the node knows it. No two attempts of a store have the same number
	ttl  time.Duration // of each request that may acquire: after Extend, longer than that of the client's acquire
	gate chan struct{} // holds a value while a request is under way

	bid // what is known of it; the acquisition's mu guards it
}

// send sends an action to the node once no earlier request of the attempt is under way there.
// So a cancel never overtakes the request that it cancels. Once the attempt has ended, nothing
// is sent that could acquire.
//
// An acquire without an answer is noted before the gate opens: the cancel behind it must know that
// there may be something to cancel. An action that cannot acquire is sent in any case. A release
// must reach the node although the round has ended.
//
// The clock is read behind the gate and before the request is sent. So a grant counts from an
// instant at which the server cannot have granted yet, and the time at the gate is not taken from
// the lease.
func (na *nodeAttempt) send(timeout time.Duration, action *script.Script, args []string) (wire.Answer, error) {
	acq := na.r.acq
	acquires := action == script.Acquire || action == script.Poll
	na.gate <- struct{}{} // every request is bounded, so this wait is bounded too
	defer func() { <-na.gate }()
	acq.mu.Lock()
	if acquires && (na.ended || na.r.ended) {
		acq.mu.Unlock()
		return wire.Answer{}, errEnded
	}
	sent := acq.now()
	if acquires {
		na.asks(sent)
	}
	acq.mu.Unlock()
	var ended <-chan struct{}
	if acquires {
		ended = na.r.done
	}
	answer, err := na.node.call(ended, timeout, action, na.keys, args)
	var a wire.Answer
	if err == nil {
		a, err = wire.Parse(answer)
	}
	if acquires {
		acq.mu.Lock()
		if err != nil && !notSent(err) && action == script.Acquire {
			na.unheard(acq.now(), na.ttl)
		}
		na.noteAnswer(a, sent, err)
		acq.mu.Unlock()
	}
	return a, err
}

// noteAnswer records an answer, or a failure. If the attempt has nothing on the node any more, a
// new one takes its place. acq.mu is held.
//
// Only an answer to a request of our own tells for how long the node holds (lastsFrom). A push does
// not: it may grant for a short time.
func (na *nodeAttempt) noteAnswer(a wire.Answer, sent time.Duration, err error) {
	switch {
	case err != nil:
		na.bid.failed(err, na.node.isLate(err))
	case a.Kind == wire.Granted:
		na.noteGrant(a.Token, a.Waiting, sent)
		na.lastsFrom(sent, na.ttl)
	case na.heard(a, sent):
		if r := na.r; r.attempts[na.i] == na {
			r.attempts[na.i] = r.newAttempt(na.i)
			r.attempts[na.i].reply = majority.Busy
		}
	}
}

// noteGrant records that the node has granted, and that the grant counts from sent. If the
// acquisition was won without the node, the node gets the token of the lease, however the grant
// was heard of: in an answer, a push, or a renewal. acq.mu is held.
//
// Example: 1, 2 and 3 of five have granted, and the lease has the token 26. Then server 5 grants,
// and draws 24. It holds from now on, and is renewed and released with the others. raiseLate writes
// 26 there.
func (na *nodeAttempt) noteGrant(token uint64, waiting int, sent time.Duration) {
	acq := na.r.acq
	if na.granted(acq.now(), token, waiting, sent) {
		na.raiseLate()
	}
	if na.i == na.r.coordinator {
		acq.waiters = waiting
	}
}

// noteFailure records why no answer is expected.
func (na *nodeAttempt) noteFailure(err error) {
	na.r.acq.mu.Lock()
	defer na.r.acq.mu.Unlock()
	na.reply, na.err = majority.Failed, err
}

// acquire asks the node for the lock, and for a position in its queue unless waiterTTL is "0".
func (na *nodeAttempt) acquire(timeout time.Duration, waiterTTL string) error {
	acq := na.r.acq
	ttl, recordTTL := wire.Millis(na.ttl), wire.Millis(na.ttl+acq.retention)
	_, err := na.send(timeout, script.Acquire,
		[]string{na.id, ttl, recordTTL, acq.mode, waiterTTL, acq.channelPrefix})
	return err
}

// poll reads the state of a position or a hold, and extends either.
func (na *nodeAttempt) poll(timeout time.Duration) error {
	acq := na.r.acq
	_, err := na.send(timeout, script.Poll,
		[]string{na.id, wire.Millis(na.ttl), wire.Millis(acq.retention), acq.currentWaiterTTL(), acq.channelPrefix})
	return err
}

// confirm makes a pushed grant count that does not count yet: its lease is short, or it is older than
// the client's lease. A short lease costs little if the client no longer receives pushes. The poll is
// the first request of the client's own for this grant, and the hold counts from it.
func (na *nodeAttempt) confirm() {
	acq := na.r.acq
	_ = na.poll(acq.requestTimeout(acq.life.Context(), acq.ttl)) // the outcome is in the attempt
	acq.notify()
}

// raiseToken writes the token to the node, which must hold, and reads the node's mark in the
// same step. So the mark vouches for the hold.
//
// It passes the gate, but not send: the round may end meanwhile, and the answer still says something
// about the node's memory. A node that has the token and later loses its memory draws lower tokens.
// But then its mark is gone, and it does not count.
func (na *nodeAttempt) raiseToken(timeout time.Duration, token uint64) error {
	acq := na.r.acq
	na.gate <- struct{}{}
	defer func() { <-na.gate }() // once the token is noted: a release behind it names that token
	sent := acq.now()
	answer, err := na.node.call(nil, timeout, script.RaiseFence, []string{acq.key, acq.states.markKey()},
		[]string{na.id, wire.Number(token), wire.Millis(acq.retention)})
	if err == nil && answer != "gone" {
		err = acq.states.noteRaised(na.i, sent, answer)
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

// raiseLate writes the token to a node that granted after the acquisition was won. It sends that in
// a goroutine of its own, for acq.mu is held. If it fails, the node keeps the token that it drew.
// That harms nobody: the majority has the token of the lease. A release names the node's own token,
// and evict and check find the attempt by the majority's. acq.mu is held.
func (na *nodeAttempt) raiseLate() {
	acq := na.r.acq
	if acq.phase == held && na.r.live() && !na.ended {
		token, timeout := acq.token, acq.requestTimeout(acq.life.Context(), acq.ttl)
		acq.life.Go(grantLabel, func() { _ = na.raiseToken(timeout, token) })
	}
}

// release releases what the attempt holds on the node. Each node knows the hold by the token that
// it has there, which may be its own. If the release gets no answer, it may or may not have
// arrived, so a cancel follows in the background. A renewal may have been carried out just before,
// so the cancel is owed for a whole lease from now.
func (na *nodeAttempt) release(timeout time.Duration, args []string) error {
	token, err := na.end(timeout)
	if err != nil {
		return err
	}
	acq := na.r.acq
	own := append([]string{na.id, wire.Number(token)}, args[2:]...)
	a, err := na.send(timeout, script.Release, own)
	if err != nil && !isFinal(err) {
		na.cancelLater(1, acq.now()+acq.longestTTL())
	} else {
		na.cancelLater(0, 0)
	}
	return checkReleased(a, err)
}

// releaseAfter releases what the attempt holds on the node once a minimum time is over. If it gets
// no answer, no cancel follows: a cancel would free the node before that time. The client repeats
// the call. If nothing reaches the node, its hold ends with its TTL.
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

// end ends the attempt and returns the token of what it holds. If the node does not hold, end
// cancels what it may have and returns errForgot. It sets ended behind the gate, so that no acquire
// can slip in between. The request that follows takes the gate again. In between only a request
// that cannot acquire may pass.
func (na *nodeAttempt) end(timeout time.Duration) (token uint64, err error) {
	acq := na.r.acq
	na.gate <- struct{}{} // a request that is under way there ends first
	acq.mu.Lock()
	holds := na.holds
	token, na.ended = na.token, true
	acq.mu.Unlock()
	<-na.gate
	if holds {
		return token, nil
	}
	if _, err := na.cancel(timeout); err != nil && !isFinal(err) {
		return 0, err
	}
	return 0, errForgot
}

// cancel ends what the attempt has, as far as that can be known, and returns what it ended. It
// leaves what is in doubt to the node's pending cancels.
//
// It first waits for the request that is under way, whose answer says what there is to cancel. If
// there is nothing, nothing is sent. If the cancel itself gets no answer, the hold may last as
// long as a TTL after the last request that counts, so the cancel is owed until then.
//
// Example: an acquire with a lease of 9 s was sent to server 2 at 10 s and granted. The cancel at
// 12 s gets no answer. It is sent again until server 2 answers that it has ended the hold, or until
// 19 s. If the attempt stood in the queue of server 2, it may be granted there later still. The
// push of that grant finds that the cancel was owed, and sends it once more (node.unexpectedPush).
func (na *nodeAttempt) cancel(timeout time.Duration) (wire.Kind, error) {
	acq := na.r.acq
	na.gate <- struct{}{}
	acq.mu.Lock()
	na.ended = true
	nothing, until := na.hasNothing(acq.now()), na.cancelUntil(acq.longest)
	acq.mu.Unlock()
	<-na.gate
	if nothing {
		return wire.None, nil
	}
	a, err := na.send(timeout, script.Cancel, na.cancelArgs())
	if err != nil && !isFinal(err) {
		na.cancelLater(1, max(until, acq.now()+timeout))
	} else {
		na.cancelLater(0, 0)
	}
	return a.Kind, err
}

func (na *nodeAttempt) cancelArgs() []string {
	return []string{na.id, wire.Millis(na.r.acq.retention), na.r.acq.channelPrefix}
}

// cancelLater leaves a cancel to the node's pending cancels, until it has ended something as
// often as times says, and once more for each acquire that got no answer, see bid.owes.
func (na *nodeAttempt) cancelLater(times int, until time.Duration) {
	acq := na.r.acq
	acq.mu.Lock()
	times, until = na.owes(acq.now(), times, until)
	acq.mu.Unlock()
	if times > 0 {
		na.node.addCancel(pendingCancel{keys: na.keys, args: na.cancelArgs(), times: times, until: until})
	}
}
