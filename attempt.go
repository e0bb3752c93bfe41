// attempt: one acquisition at the server, from the first request to the grant.
//
// This is the file to read first. An example: client A holds the lock, and client B calls Lock. attempt.txt
// shows what both send and receive then, and what happens if a push or an answer is lost.
//
//  1. B sends acquire under a new attempt ID, B/7 (askFirst). B has no subscription yet, so the
//     request does not ask to wait. The server answers "busy".
//  2. B subscribes to its channel, waits for the confirmation, and sends acquire again, now with a
//     waiter TTL (join). The server answers "queued": B/7 has position 1, and A's lease ends in 30 s.
//  3. B waits for whatever comes first (await): the push, the poll timer, the return of a broken
//     subscription, the end of its context, Close. The timer is set to the end
//     of A's lease, and at most a heartbeat ahead (leasetime.PollAfter).
//  4. A releases. In the same step, the server grants the lock to B/7 and pushes the grant to B.
//  5. B checks whether it can trust the push (trusts), makes a hold of the grant (granted, newHold),
//     and returns a lease. The renewer confirms the grant at once.
//
// What can go wrong, and what B does then:
//
//   - The answer to acquire is lost. The server may have granted the lock to B/7. B cancels B/7 in
//     the background, and asks again as B/8 (askUntilAnswered, newAttemptID).
//   - The push is lost, or it cannot be trusted. B polls. If the pushed grant still lasts, the answer
//     is the grant. Otherwise the answer is "gone", and B joins again as B/8 (poll).
//   - The server has dropped the waiter. The poll answers "gone", too.
//   - The server is away. B pauses and asks again, until its wait ends (retry.go).
//   - B gives up. It cancels B/7: that withdraws a position, and a grant that crosses it (cancel).

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/pushes"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
)

// attempt is one acquisition at the server.
type attempt struct {
	c       *Client
	lock    *lock
	id      string
	number  uint64        // the number in id
	askedAt time.Duration // before the client sent the last request that may have led to a grant

	unanswered  int // how many acquires got no answer
	again       again
	answered    bool // the last acquire was answered
	needsCancel bool // the server may have a hold or a position of the attempt

	inQueue      bool          // the server has put the attempt into the wait queue
	queuedAt     uint64        // when the server last said so, by its clock, in ms
	queuedSentAt time.Duration // when the client sent the request for that answer

	waiter    *pushes.Waiter // for its push; nil: the attempt does not ask to wait
	wake      observe.Wake   // what woke it last
	buf       request.Buffer // of the first request
	sentAlone int            // how many requests were sent alone
}

// runAttempt acquires the lock at the server, or waits for it there. After an error the
// server keeps nothing for the attempt, or a cancel runs in the background.
func (lk *lock) runAttempt(ctx context.Context, retry *retries) (*hold, observe.Wake, error) {
	c := lk.client
	if c.life.IsClosing() {
		return nil, observe.WakeNone, ErrClosed
	}
	if !c.preflight.Passed(lk.ack) {
		if err := retry.prepare(ctx, lk); err != nil {
			return nil, observe.WakeNone, err
		}
	}
	c.registration.Start()
	id, number := lk.newAttemptID()
	at := &attempt{c: c, lock: lk, id: id, number: number, again: again{began: c.now()}}
	// To join the queue in its first request, the client must have the subscription
	// already, or know that it cannot get one.
	if !retry.try && c.hub.Active() {
		if at.waiter = c.hub.Await(lk.channel, number); at.waiter == nil && c.pushing.refused(c.now()) {
			at.waiter = c.hub.Unsubscribed(lk.channel, number)
		}
	}
	a, err := at.askUntilAnswered(ctx, retry)
	if at.waiter != nil {
		defer func() { c.hub.Forget(at.waiter) }()
	}
	defer at.untag()
	if err != nil {
		return nil, observe.WakeNone, at.failed(ctx, err, retry)
	}
	if a.Kind == wire.Queued {
		retry.tell(&HeldError{Name: lk.name})
	}
	h, err := at.handleAnswer(ctx, a)
	if err == nil && lk.ack.Wanted() {
		if err = h.confirm(ctx); err != nil {
			h = nil
		}
	}
	return h, at.wake, err
}

// askUntilAnswered asks for the lock until the server answers. If the lock is held, it joins the wait
// queue. After a request of unknown outcome it asks under a new attempt ID. Otherwise a
// late copy of the first request could be granted a lock that is already released.
func (at *attempt) askUntilAnswered(ctx context.Context, retry *retries) (wire.Answer, error) {
	a, err := at.askFirst(ctx)
	for {
		if err == nil && a.Kind == wire.Busy && !retry.try && at.waiter == nil {
			// This is the first contention of this process. So subscribe, wait for the
			// confirmation, and only then join the queue.
			retry.tell(&HeldError{Name: at.lock.name})
			a, err = at.join(ctx)
		}
		if err == nil || errors.Is(err, wire.ErrAnswer) ||
			!retry.pauseAfter(ctx, err) && !(retry.try && at.withdrawn(ctx, err)) {
			return a, err
		}
		if at.needsCancel {
			at.newAttemptID()
		}
		a, err = at.ask(ctx, script.Acquire)
	}
}

// withdrawn reports whether a call that does not wait may ask anew. Its connection broke, or was given up,
// before the request's time was over, and the server has answered the cancel. Without that answer the
// next attempt could find the lock held by this one, and call it held.
func (at *attempt) withdrawn(ctx context.Context, err error) bool {
	return at.needsCancel && isBreak(err) && at.again.may(at.lock) && at.lock.withdraw(ctx, script.Cancel, at.id)
}

// askFirst sends the first request of an attempt. If many are under way, it goes into a batch.
func (at *attempt) askFirst(ctx context.Context) (a wire.Answer, err error) {
	batch := at.lock.batch
	if batch == nil {
		return at.ask(ctx, script.Acquire)
	}
	offered := at.c.now() // before anything is sent, so the lease may be counted from it
	limit := leasetime.AcquireLimit(at.c.sender.Timeout, at.lock.ttl, 0)
	item := batch.Offer(request.One{Key: at.lock.key(), Attempt: at.id, Limit: limit})
	if item == nil {
		defer batch.DoneAlone()
		return at.ask(ctx, script.Acquire)
	}
	o, answered := batch.Await(item, ctx.Done())
	if !answered {
		if item.Withdraw() {
			return a, ctx.Err() // before anything was sent
		}
		o.Err = ctx.Err()
	}
	switch {
	case o.Err != nil:
		if at.needsCancel = !request.Definite(o.Err); at.needsCancel {
			at.unanswered++
		}
		return a, o.Err
	case !o.Done:
		return at.ask(ctx, script.Acquire)
	}
	at.askedAt, at.answered, at.needsCancel = offered, true, true
	return wire.Answer{Kind: wire.Granted, Token: o.Token}, nil
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

// ask sends acquire or poll for the attempt.
func (at *attempt) ask(ctx context.Context, action *script.Script) (wire.Answer, error) {
	lk, c := at.lock, at.c
	waiterTTL := "0"
	if at.waiter != nil {
		waiterTTL = lk.waiterTTL
	}
	buf := &at.buf
	if at.sentAlone++; at.sentAlone > 1 {
		buf = new(request.Buffer)
	}
	args := append(buf.Args[:0], at.id, lk.ttlMS, lk.recordTTL, lk.want, waiterTTL, lk.channelPrefix)
	if action == script.Poll {
		args = append(buf.Args[:0], at.id, lk.ttlMS, c.retention, waiterTTL, lk.channelPrefix)
	}
	args = lk.owned(args)
	sent := c.now()
	limit := leasetime.AcquireLimit(c.sender.Timeout, lk.ttl, at.unanswered)
	a, err := c.sender.AskWithin(ctx, buf, limit, action, lk.keys(), args)
	if err == nil || !request.Definite(err) {
		at.askedAt = sent
		// After some answers the server keeps nothing. Then earlier requests have left
		// nothing either.
		at.needsCancel = err != nil || a.Kind != wire.Busy && a.Kind != wire.Conflict && a.Kind != wire.Gone
	}
	if action == script.Acquire {
		at.answered = err == nil
		if err != nil && at.needsCancel {
			at.unanswered++
		}
	}
	if a.Kind == wire.Queued {
		at.inQueue, at.queuedAt, at.queuedSentAt = true, a.Now, sent
		at.tag()
		waitsInChain(ctx, at.id, a.Place)
	}
	return a, err
}

// handleAnswer turns an answer into a hold, an error, or a wait.
func (at *attempt) handleAnswer(ctx context.Context, a wire.Answer) (*hold, error) {
	lk := at.lock
	if a.Kind == wire.Queued && at.waiter == nil {
		a.Kind = 0 // the attempt did not ask to wait, and would not receive the push
	}
	switch a.Kind {
	case wire.Granted:
		return at.granted(grant{token: a.Token, waiting: a.Waiting, since: at.askedAt})
	case wire.Busy:
		return nil, &HeldError{Name: lk.name, HeldBy: wire.Holder(a.Holder), Remaining: a.Left}
	case wire.Conflict:
		return nil, lk.conflict(a.Count)
	case wire.Queued:
		lk.reportEvent(ctx, observe.Event{Kind: observe.EventWait, HolderID: at.id, Position: a.Place})
		return at.await(ctx, a)
	default:
		at.cancel()
		return nil, wrap("lock", lk.name, wire.OtherAnswer("acquire"))
	}
}

// granted makes a hold of a grant, or cancels it.
func (at *attempt) granted(g grant) (_ *hold, err error) {
	g.number, g.wasInQueue = at.number, at.inQueue
	defer at.cancelAfter(&err)
	return newHold(at.lock, g)
}

// cancelAfter cancels the attempt after an error.
func (at *attempt) cancelAfter(err *error) {
	if *err != nil {
		at.cancel()
	}
}

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
		wake := observe.WakePush
		var pushed pushes.Grant
		var freeIn time.Duration
		select {
		case pushed = <-at.waiter.Granted:
		case <-at.waiter.Resumed:
			wake = observe.WakeResume
		case freeIn = <-at.waiter.FreeIn:
			wake = observe.WakeNone
		case <-time.After(due - c.now()):
			wake = observe.WakePoll
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
			wake = observe.WakePush
		default:
		}
		if wake == observe.WakeNone {
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
		if wake == observe.WakePush {
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
		case request.Ended(ctx) != nil || !request.Transient(err) || c.elsewhere(err):
			return nil, at.failed(ctx, err, &retries{c: c, lock: lk, last: silence})
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
// than a pushed lease lasts. So does a lease with a lock-delay of which a pushed lease leaves too little.
//
// A push answers no request, so the client must find out how old the grant may be. For example, the
// client sends a poll at 20.000 s by its own clock. The server answers "queued", at 7,000,300 ms by the
// server's clock. Later a push says: granted at 7,002,300 ms, for 10 s. So 2 s passed on the server
// between the answer and the grant. The poll was sent before its answer was made. So the grant is not
// older than 20.000 s + 2 s, less 1 % because the clocks may run at different rates: the lease counts
// from about 21.98 s. If the client reads the push at 22.5 s, more than 9 s are left, and it trusts the
// grant. If the process was frozen until 26 s, less than two thirds are left, and it polls. If the
// push says that 2 s passed while the client's clock counts only 1 s, a clock was set, and it polls too.
func (at *attempt) trusts(g pushes.Grant) (grant, bool) {
	whole := at.lock.onServer(at.lock.ttl)
	p := leasetime.Push{
		Sent: at.queuedSentAt, Queued: at.queuedAt, Granted: g.Now, Lease: min(g.Lease, whole), Delay: at.lock.delay,
	}
	if g.Now == 0 {
		// The push does not say when the server made the grant. It may be as old as the
		// last answer, unless the token is older. The token is at least the server's time
		// in µs.
		p.Granted, p.Lease = min(at.queuedAt, g.Token/1000), whole
	}
	now := at.c.now()
	if !at.inQueue || at.lock.noRenewal || at.lock.ack.Wanted() || !p.Trusted(now) {
		return grant{}, false
	}
	return grant{token: g.Token, waiting: g.Waiting, since: p.Since(now), pushedLease: p.Lease - p.Delay}, true
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

// pollAfter returns how long to wait for a push before the next poll.
func (at *attempt) pollAfter(a wire.Answer) time.Duration {
	if at.pushUnavailable() {
		at.subscribeAgain()
		return leasetime.PollWithoutPush(a.Left, at.lock.ttl, at.c.chance())
	}
	left := a.Left
	if left == 0 && at.lock.limit > 0 { // nobody holds a permit, and the limit is 0: no lease ends, and SetLimit pushes
		left = at.lock.ttl
	}
	return leasetime.PollAfter(left, a.Place, at.lock.ttl, at.c.chance())
}

func (at *attempt) reportWake(ctx context.Context, w observe.Wake) {
	at.wake = w
	at.lock.reportEvent(ctx, observe.Event{Kind: observe.EventWake, HolderID: at.id, Wake: w})
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
	at.id, at.number = at.lock.newAttemptID()
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

// failed returns the error of an attempt that ends because a request failed. retry has what is known
// of the request before it, if that failed too. A request that was refused or not
// sent leaves nothing behind, but earlier requests may have.
func (at *attempt) failed(ctx context.Context, err error, retry *retries) error {
	if at.needsCancel {
		at.cancel()
	}
	return retry.finalError(ctx, err, at.needsCancel)
}

// cancel withdraws the attempt, with all that it has or may still get.
func (at *attempt) cancel() {
	c, a := at.c, at.lock.toCancel(at.id)
	if at.waiter == nil {
		c.canceller.CancelUnknown(a)
		return
	}
	c.canceller.CancelWaiter(a, at.number)
}

// toCancel returns an attempt as a cancel needs it.
func (lk *lock) toCancel(id string) request.Attempt {
	return request.Attempt{
		ID: id, Keys: lk.keys(), Owner: lk.owner, ChannelPrefix: lk.channelPrefix, TTL: lk.onServer(lk.ttl),
	}
}

// newAttemptID returns the ID and the number of a new attempt at the lock.
func (lk *lock) newAttemptID() (id string, number uint64) { return lk.client.newAttemptID(lk.suffix) }

// newAttemptID returns the ID and the number of a new attempt of this client.
func (c *Client) newAttemptID(suffix string) (id string, number uint64) {
	number = c.attempts.Add(1)
	return c.attemptID(number, suffix), number
}

// attemptID returns the attempt ID with that number.
func (c *Client) attemptID(number uint64, suffix string) string {
	return string(appendAttempt(make([]byte, 0, 96), c.id, number, suffix)) // one allocation in all
}

// appendAttempt appends the ID of an attempt: the client's ID, a slash, the number, and the suffix, see wire.Suffix.
func appendAttempt(to []byte, client string, number uint64, suffix string) []byte {
	return append(strconv.AppendUint(append(append(to, client...), '/'), number, 10), suffix...)
}
