// How an attempt waits: for its process, for a push, by polling, for a server that is away.

package holdfast

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/pushes"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// await waits for the push. It also polls by itself: when the current lease may have
// expired, after a break of the subscription, and at every heartbeat. So a lost push costs
// a poll, never the lock. A push may also say that the lock will be free later (FreeIn); then
// await polls at that time. Three things end the wait without a lock: ctx, Close, and a
// refusal that is not transient.
func (at *attempt) await(ctx context.Context, a wire.Answer) (*hold, error) {
	c, lk := at.c, at.lock
	due, failures := c.now()+at.pollAfter(a), 0
	var silence error // the error of the last poll; nil if it was answered
	began, said := c.now(), a
	for {
		wake := WakePush
		var pushed pushes.Grant
		var freeIn time.Duration
		select {
		case pushed = <-at.waiter.Granted:
		case <-at.waiter.Resumed:
			wake = WakeResume
		case freeIn = <-at.waiter.FreeIn:
			wake = WakeNone
		case <-time.After(due - c.now()):
			wake = WakePoll
		case <-ctx.Done():
			at.cancel()
			if silence != nil {
				return nil, &endedError{name: lk.name, end: ctx.Err(), last: silence}
			}
			return nil, &endedError{name: lk.name, end: ctx.Err(), held: &HeldError{
				Name: lk.name, Waited: c.now() - began, Remaining: max(said.Left-(c.now()-at.queuedSentAt), 0),
			}}
		case <-c.life.Closing():
			at.cancel()
			return nil, ErrClosed
		}
		select {
		case pushed = <-at.waiter.Granted: // the push comes before everything else that has arrived
			wake = WakePush
		default:
		}
		if wake == WakeNone {
			// The lock may be free at that time, and the server asks this waiter to poll then.
			// After a poll without an answer, that is no reason to wait for longer: it may be old.
			freeAt := c.now() + at.pollAfter(wire.Answer{Left: freeIn, Place: 1})
			if silence == nil || freeAt < due {
				due = freeAt
			}
			continue
		}
		at.waiter.Drain() // the poll tells more than what arrived before it
		at.reportWake(ctx, wake)
		if wake == WakePush {
			// If the push cannot be trusted, a poll confirms the grant and restarts the
			// lease.
			if g, ok := at.trusts(pushed); ok {
				return at.granted(g)
			}
		}
		a, err := at.poll(ctx)
		switch {
		case err == nil && a.Kind == wire.Queued:
			due, failures, silence, said = c.now()+at.pollAfter(a), 0, nil, a
		case err == nil:
			return at.handleAnswer(ctx, a)
		case request.Ended(ctx) != nil || !request.Transient(err) || elsewhere(c, err):
			return nil, at.failed(ctx, err, &retries{last: silence})
		default:
			// The server is silent or away. Ask again, after growing pauses. If the server
			// has dropped the waiter by then, the poll joins the queue again.
			due = c.now() + backoff.Default.After(failures, c.chance())
			failures, silence = failures+1, err
		}
	}
}

// trusts reports whether the client can trust a pushed grant without a poll, and from
// when the lease counts. It cannot if too little of the lease may be left, or if the server
// has said since then that the attempt waits. Two kinds of lease always poll, to get their
// full TTL: a lease without renewal, and one with acknowledgements, which may take longer
// than a pushed lease lasts.
func (at *attempt) trusts(g pushes.Grant) (grant, bool) {
	p := leasetime.Push{Sent: at.queuedSentAt, Queued: at.queuedAt, Granted: g.Now, Lease: min(g.Lease, at.lock.ttl)}
	if g.Now == 0 {
		// The push does not say when the server made the grant. It may be as old as the
		// last answer, unless the token is older. The token is at least the server's time
		// in µs.
		p.Granted, p.Lease = min(at.queuedAt, g.Token/1000), at.lock.ttl
	}
	now := at.c.now()
	if !at.inQueue || at.lock.noRenewal || at.lock.ack.Wanted() || !p.Trusted(now) {
		return grant{}, false
	}
	return grant{token: g.Token, waiting: g.Waiting, since: p.Since(now), pushedLease: p.Lease}, true
}

// poll polls. If the record no longer has the waiter, poll joins at the end of the queue.
func (at *attempt) poll(ctx context.Context) (wire.Answer, error) {
	a, err := at.ask(ctx, script.Poll)
	if err != nil || a.Kind != wire.Gone {
		return a, err
	}
	at.newAttemptID()
	return at.ask(ctx, script.Acquire)
}

// newAttemptID gives the attempt a new ID after the record has lost the old one. A push for
// a grant under the old ID may still arrive. With the old ID it would look like a grant at
// the new position.
func (at *attempt) newAttemptID() {
	c := at.c
	if !at.answered {
		at.cancel()
	}
	at.untag()
	at.id, at.number = c.newAttemptID()
	at.inQueue, at.needsCancel = false, false
	if at.waiter != nil {
		at.waiter = c.hub.Replace(at.waiter, at.number)
	}
}

// tag makes the client's record show the tags of a waiter. A hold takes them over.
func (at *attempt) tag() {
	if lk := at.lock; lk.tags != "" {
		at.c.registration.Note(wire.TagsField(wire.NumberOf(at.id)), lk.tags, at, func() bool { return true })
	}
}

// untag ends the tags of an attempt that does not wait any more, and has no hold.
func (at *attempt) untag() {
	if at.lock.tags != "" {
		at.c.registration.Unnote(wire.TagsField(wire.NumberOf(at.id)), at, false)
	}
}

// pollAfter returns how long to wait for a push before the next poll.
func (at *attempt) pollAfter(a wire.Answer) time.Duration {
	if at.pushUnavailable() {
		at.subscribeAgain()
		return leasetime.PollWithoutPush(a.Left, at.lock.ttl, at.c.chance())
	}
	return leasetime.PollAfter(a.Left, a.Place, at.lock.ttl, at.c.chance())
}

func (at *attempt) reportWake(ctx context.Context, w Wake) {
	at.wake = w
	at.lock.reportEvent(ctx, Event{Kind: EventWake, HolderID: at.id, Wake: w})
}

// join subscribes and asks for a position in the wait queue. If the server refuses the
// subscription, join asks anyway. If it returns and the attempt has no waiter, then join
// sent no request, or no push can arrive.
func (at *attempt) join(ctx context.Context) (wire.Answer, error) {
	c, lk, number := at.c, at.lock, at.number
	brief, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	w, subscribeErr := c.hub.Subscribe(brief, lk.channel, number)
	cancel()
	subscribeErr = request.InTime(ctx, subscribeErr)
	refused := subscribeErr != nil && request.Definite(subscribeErr) && !request.Transient(subscribeErr)
	switch {
	case subscribeErr == nil:
		c.pushing.subscribed()
	case request.Ended(ctx) != nil:
		return wire.Answer{}, request.Ended(ctx)
	case c.life.IsClosing():
		return wire.Answer{}, ErrClosed
	}
	if w == nil {
		w = c.hub.Unsubscribed(lk.channel, number)
	}
	at.waiter = w
	a, err := at.ask(ctx, script.Acquire)
	switch {
	case refused:
		c.pushing.learn(c.now(), refused, c.chance())
		lk.reportPushUnavailable(subscribeErr)
	case subscribeErr != nil && err == nil:
		at.subscribeAgain()
	case subscribeErr != nil:
		// Neither request was answered: the server is away. The next try begins from the
		// start.
		c.hub.Forget(at.waiter)
		at.waiter = nil
		err = fmt.Errorf("%w; before that the subscription failed: %w", err, subscribeErr)
	}
	return a, err
}
