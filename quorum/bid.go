package quorum

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A bid is what is known of one attempt on one server. Suppose that an acquire of "c/7.3" with a
// lease of 9 s is sent to server 2 at 10 s, and that its answer "granted 20 0" arrives at 12 s.
// Then the server holds, and drew token 20. The hold counts from 10 s: the server's TTL may have
// begun as early as that, so the client may not count its lease from later. It vouches for the
// time since 12 s: before that nobody knows that it held. It certainly lasts until 9 s after
// 10 s, less the drift.
//
// A grant by push answers no request. Suppose that "c/7.3" is queued instead, by a request sent at
// 10 s, and that the push "granted c/7.3 20 0" arrives at 15 s. The server granted at some time
// after it queued the attempt. So the hold counts from 10 s, and vouches from 15 s.
//
// No answer at all is no refusal. If the acquire that was sent at 10 s gets no answer until 10.5 s,
// it may yet arrive, and take the lock for 9 s. Until 19.5 s the bid counts as one that may hold.
//
// This file says what each answer, grant and silence makes of a bid. It sends nothing and reads
// no clock. nodeattempt.go sends the requests, and round.go counts the bids of all servers.

// bid is what an attempt has on one node, as far as is known. The acquisition's mu guards it. Each
// instant is on the store's clock. Those that say since when something counts were read before a
// request was sent. Those that say since when something is known were read after an answer had
// come.
type bid struct {
	ended bool // cancelled or released: it may not acquire under this identity again

	// What the node said last. While an acquisition asks, reply is what majority.Decide counts. From
	// the phase held on it only explains errors.
	reply      majority.Reply
	err        error       // of the last request, if that failed
	lastAnswer wire.Answer // the last "queued" or "busy": the place, how long the holder has left, who holds

	// What the attempt has there. At most one of holds and queued is true.
	holds       bool   // the node has granted
	queued      bool   // the node has it in its wait queue
	unconfirmed bool   // a push granted it, for a short time, until a request confirms it
	token       uint64 // the one that the node drew; once raise_fence was answered, that of the lease
	waiters     int    // how many waited in the node's queue when it granted

	// Acquires that got no answer. Each may have granted, or may yet grant, see owes.
	unansweredUntil time.Duration // until then such an acquire may yet take the lock
	unanswered      int           // how many there were

	askedAt    time.Duration // before the last request was sent that may have queued it
	countsFrom time.Duration // the hold counts from here: the node's TTL began no earlier
	heldSince  time.Duration // the node has held without a break since then, as far as it told
	heldUntil  time.Duration // what it has confirmed does not expire before then
}

// asks records that a request is sent that may queue the attempt. While the node has the attempt
// already, the time of the earlier request stays.
func (b *bid) asks(now time.Duration) {
	if !b.queued && !b.holds {
		b.askedAt = now
	}
}

// unheard records that an acquire got no answer: it may take the lock for a TTL from now. The TTL
// counts from the end of the wait and not from the sending: the request may have been on its way
// all the time.
func (b *bid) unheard(now, ttl time.Duration) {
	b.unansweredUntil = now + ttl
	b.unanswered++
}

// failed records that a request got no answer. What the node has granted, it has still. A late
// node keeps the position; a silent one may not. The reply of a silent coordinator is Failed from
// here on, so the next decision takes the next node in the order.
func (b *bid) failed(err error, late bool) {
	if !b.holds && (!b.queued || !late) {
		b.reply, b.err = majority.Failed, err
	}
}

// granted records that the node has granted, and that the grant counts from sent. first says
// that it did not hold before.
//
// A grant that is told twice, as by a push and by a poll, only moves countsFrom on: the second
// request extended the hold. heldSince stays. Of two tokens the higher one is right: a push may be
// read after raise_fence was answered.
func (b *bid) granted(now time.Duration, token uint64, waiting int, sent time.Duration) (first bool) {
	if first = !b.holds; first {
		b.heldSince = now
	}
	b.reply, b.holds, b.queued, b.unconfirmed = majority.Granted, true, false, false
	b.token, b.countsFrom = max(b.token, token), max(b.countsFrom, sent)
	b.waiters = waiting
	return first
}

// lastsFrom records that the node has confirmed the hold in answer to a request sent then.
func (b *bid) lastsFrom(sent, ttl time.Duration) {
	b.heldUntil = max(b.heldUntil, leasetime.Deadline(sent, ttl))
}

// heard records an answer that grants nothing. gone says that the attempt has nothing on the
// node any more. A push for what it had may be under way, so the next request needs a new
// identity.
//
// Example: an acquire is answered "queued", the holder releases, and the push "granted" is read
// before that answer. The attempt holds, and the late "queued" changes nothing.
func (b *bid) heard(a wire.Answer, sent time.Duration) (gone bool) {
	switch a.Kind {
	case wire.Gone:
		b.ended, b.holds, b.queued = true, false, false
		return true
	case wire.Queued:
		if b.holds {
			return false // the push has overtaken this answer
		}
		b.reply, b.queued, b.askedAt, b.lastAnswer = majority.Queued, true, sent, a
	default:
		b.reply, b.holds, b.queued, b.lastAnswer = majority.Busy, false, false, a
	}
	return false
}

// counts reports whether a lease that counts from then may rely on the bid. An older hold could
// end before the client expects it, and so could an unconfirmed one. A bid that does not hold says
// nothing against the node: its grant is still to come.
func (b *bid) counts(from time.Duration) bool {
	return !b.holds || b.countsFrom >= from && !b.unconfirmed
}

// hasHeld reports whether the node holds, and has held since then.
func (b *bid) hasHeld(since time.Duration) bool { return b.holds && b.heldSince <= since }

// mayLast reports whether a hold may not be over yet, if nothing was heard of it since it counts.
func (b *bid) mayLast(now, ttl time.Duration) bool { return now-b.countsFrom < ttl }

// hasNothing reports whether the attempt certainly has nothing on the node.
func (b *bid) hasNothing(now time.Duration) bool {
	return !b.holds && !b.queued && now >= b.unansweredUntil
}

// cancelUntil is when what was granted is certainly over, if no request asked for more than ttl.
func (b *bid) cancelUntil(ttl time.Duration) time.Duration { return max(b.askedAt, b.countsFrom) + ttl }

// owes returns how many cancels the node owes, and until when, if a request owes times until
// then. Each acquire that got no answer adds one. Such an acquire may arrive after another one
// was answered, or may have arrived already with its grant cancelled since.
//
// Example: two acquires got no answer, the third was granted, and the lease is released. The release
// was answered, so it owes nothing (times is 0). The two acquires may arrive after it, so two cancels
// are owed. If the release gets no answer, either, three are owed.
func (b *bid) owes(now time.Duration, times int, until time.Duration) (int, time.Duration) {
	if now < b.unansweredUntil {
		times, until = times+b.unanswered, max(until, b.unansweredUntil)
	}
	return times, until
}
