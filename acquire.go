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
	"github.com/holdfast-go/holdfast/internal/waitqueue"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// acquireAs takes the lock: the turn inside the process first, then, unless a hold
// came with it, the lock on the server. ctx bounds the waiting; parent is what
// the lease's own context descends from.
func (s *lock) acquireAs(ctx, parent context.Context, try bool) (*Lease, error) {
	c := s.client
	if !c.life.Enter() {
		return nil, ErrClosed
	}
	defer c.life.Exit()
	var start time.Duration
	if c.events.observed() {
		start = c.now()
	}
	take := s.acquireExclusive
	switch s.want[0] {
	case 's':
		take = s.acquireShared
	case 'p':
		take = s.acquirePermits
	}
	l, wake, err := take(ctx, parent, try)
	//nolint:errorlint // the bare ones: whatever wraps them has said the name already
	if err == ctx.Err() && err != nil || err == ErrClosed {
		err = fmt.Errorf("holdfast: lock %q: %w", s.name, err)
	}
	if err != nil {
		err = s.heldError(ctx, parent, err)
	}
	switch {
	case !c.events.observed():
	case err != nil:
		c.events.observe(Event{Kind: EventFail, Name: s.name, Wait: c.now() - start, Err: err})
	default:
		c.events.tellGrant(l.state, Event{Wake: wake, Wait: c.now() - start})
	}
	return l, err
}

func (s *lock) acquireExclusive(ctx, parent context.Context, try bool) (*Lease, Wake, error) {
	c := s.client
	cause := WakeNone
	if s.queued() {
		turn, err := c.queue.Enter(ctx, s.key(), waitqueue.Exclusive, s, try)
		if err != nil {
			return nil, cause, err
		}
		if turn.Waited {
			cause = WakeLocal
		}
		if passed := turn.Hold; passed != nil {
			if c.renewer.TTL(&passed.Item) == s.ttl && !s.noHandOver && passed.lock.ack == s.ack &&
				passed.lock.rw.any() == s.rw.any() {
				if l := passed.newLease(parent); l != nil {
					return l, cause, nil
				}
			}
			// Lost on the way, or of other terms than asked for.
			if c.renewer.Remove(&passed.Item) {
				_ = passed.release(ctx, releaseMode{})
			}
		}
	}
	h, w, err := s.runAttempt(ctx, try)
	if err == nil {
		if s.queued() {
			s.turn().Keep(h)
		}
		if l := h.newLease(parent); l != nil {
			return l, max(cause, w), nil
		}
		err = h.endReason()
	}
	if s.queued() {
		s.turn().Leave()
	}
	return nil, cause, err
}

// attempt is one acquisition on the server.
type attempt struct {
	c      *Client
	lock   *lock
	id     string
	number uint64        // in id
	asked  time.Duration // before the last request that may have led to a grant was sent
	sure   bool          // the last acquire was answered
	risk   bool          // the server may have something for the attempt: a hold, or a place in the line
	stood  bool          // the server has given a place in the line
	queued uint64        // when it last said so, by its clock, in ms
	since  time.Duration // before the request was sent to which it said so
	w      *pushes.Waiter
	wake   Wake
}

// attempt names one more acquisition of this client's.
func (c *Client) attempt() (id string, number uint64) {
	number = c.attempts.Add(1)
	var room [96]byte // one allocation in all
	return string(strconv.AppendUint(append(append(room[:0], c.id...), '/'), number, 10)), number
}

// runAttempt takes the lock on the server, or waits for it there. On error
// nothing is held there, or is being given back in the background.
func (s *lock) runAttempt(ctx context.Context, try bool) (*hold, Wake, error) {
	c := s.client
	if c.life.IsClosing() {
		return nil, WakeNone, ErrClosed
	}
	away := &outage{c: c, name: s.name, try: try}
	for err := s.prepare(ctx); err != nil; err = s.prepare(ctx) {
		if !away.outlast(ctx, err) {
			return nil, WakeNone, away.over(ctx, err)
		}
	}
	c.registration.Start()
	id, number := c.attempt()
	at := &attempt{c: c, lock: s, id: id, number: number}
	// To join in the first request, the subscription must stand already, or
	// be known to be out of reach.
	if !try {
		if at.w = c.hub.Await(s.channel, number); at.w == nil && c.pushing.refused(c.now()) {
			at.w = c.hub.Unsubscribed(s.channel, number)
		}
	}
	a, err := at.enter(ctx, away)
	if at.w != nil {
		defer func() { c.hub.Forget(at.w) }()
	}
	if err != nil {
		return nil, WakeNone, at.failed(ctx, err, away.last)
	}
	h, err := at.handleAnswer(ctx, a)
	if err == nil && s.ack.Wanted() {
		if err = h.confirm(ctx); err != nil {
			h = nil
		}
	}
	return h, at.wake, err
}

// enter asks for the lock, and for a place in the line if it is not free, until
// that is answered. After a request of unknown outcome another attempt asks: a
// copy of the first that arrives late would be granted what was released.
func (at *attempt) enter(ctx context.Context, away *outage) (wire.Answer, error) {
	a, err := at.first(ctx)
	for {
		if err == nil && a.Kind == wire.Busy && !away.try && at.w == nil {
			// The first contention of this process: subscribe, see it
			// confirmed, and only then join.
			a, err = at.join(ctx)
		}
		if err == nil || errors.Is(err, wire.ErrAnswer) || !away.outlast(ctx, err) {
			return a, err
		}
		if at.risk {
			at.newAttemptID()
		}
		a, err = at.ask(ctx, script.Acquire)
	}
}

// ask sends acquire or poll for the attempt.
func (at *attempt) ask(ctx context.Context, action *script.Script) (wire.Answer, error) {
	s, c := at.lock, at.c
	patience := "0"
	if at.w != nil {
		patience = s.patience
	}
	args := []string{at.id, s.ttlMS, s.life, s.want, patience, s.base}
	if action == script.Poll {
		args = []string{at.id, s.ttlMS, c.retention, patience, s.base}
	}
	args = s.owned(args)
	sent := c.now()
	a, err := c.sender.Ask(ctx, action, s.keys(), args)
	if err == nil || !request.Definite(err) {
		at.asked = sent
		// An answer that leaves nothing there says so of what was asked before, too.
		at.risk = err != nil || a.Kind != wire.Busy && a.Kind != wire.Conflict && a.Kind != wire.Gone
	}
	if action == script.Acquire {
		at.sure = err == nil
	}
	if a.Kind == wire.Queued {
		at.stood, at.queued, at.since = true, a.Now, sent
	}
	return a, err
}

// first sends the first request of an attempt, in a batch if many are under way.
func (at *attempt) first(ctx context.Context) (a wire.Answer, err error) {
	batch := at.lock.batch
	if batch == nil {
		return at.ask(ctx, script.Acquire)
	}
	entered := at.c.now() // before anything is sent, so trust may be counted from it
	item := batch.Enter(request.One{Key: at.lock.key(), Attempt: at.id})
	if item == nil {
		defer batch.Exit()
		return at.ask(ctx, script.Acquire)
	}
	var o request.Outcome
	select {
	case o = <-item.Answer:
	case <-ctx.Done():
		if item.Leave() {
			return a, ctx.Err() // before anything was sent
		}
		o.Err = ctx.Err()
	}
	switch {
	case o.Err != nil:
		at.risk = !request.Definite(o.Err)
		return a, o.Err
	case !o.Done:
		return at.ask(ctx, script.Acquire)
	}
	at.asked, at.sure, at.risk = entered, true, true
	return wire.Answer{Kind: wire.Granted, Token: o.Token}, nil
}

// cancel gives back what the attempt has or may yet get.
func (at *attempt) cancel() {
	c, a := at.c, at.lock.attempt(at.id)
	if at.w == nil {
		c.canceller.Cancel(a, c.now()+a.TTL)
		return
	}
	c.canceller.Abandon(a, at.number)
}

// attempt is an attempt for the lock as its cancels need it.
func (s *lock) attempt(id string) request.Attempt {
	return request.Attempt{ID: id, Keys: s.keys(), Owner: s.owner, Base: s.base, TTL: s.ttl}
}

// failed is the end of an attempt by an error of a request. last is why the one
// before it failed, if it did. What was refused or not sent leaves nothing
// behind, but what was asked before may.
func (at *attempt) failed(ctx context.Context, err, last error) error {
	c := at.c
	if at.risk {
		at.cancel()
	}
	end := request.Ended(ctx)
	switch {
	case end != nil && request.Transient(err):
		return &endedError{name: at.lock.name, end: end, last: last, unknown: at.risk}
	case c.life.IsClosing() && request.Transient(err):
		return ErrClosed
	}
	return wrap("lock", at.lock.name, err)
}

// handleAnswer makes of an answer what it says: a hold, an error, or a wait.
func (at *attempt) handleAnswer(ctx context.Context, a wire.Answer) (*hold, error) {
	c, s := at.c, at.lock
	if a.Kind == wire.Queued && at.w == nil {
		a.Kind = 0 // it did not ask for a place, and could not hear of its turn
	}
	switch a.Kind {
	case wire.Granted:
		return at.granted(grant{token: a.Token, waiting: a.Waiting, since: at.asked})
	case wire.Busy:
		return nil, &HeldError{Name: s.name, HeldBy: wire.Holder(a.Holder), Remaining: a.Left}
	case wire.Conflict:
		return nil, &LimitError{Name: s.name, InUse: a.Count, Asked: s.limit}
	case wire.Queued:
		c.events.observe(Event{Kind: EventWait, Name: s.name, HolderID: at.id, Position: a.Place})
		return at.await(ctx, a)
	default:
		at.cancel()
		return nil, wrap("lock", s.name, wire.BadAnswer("another kind to acquire"))
	}
}

// granted makes a hold of a grant, or gives it back.
func (at *attempt) granted(g grant) (*hold, error) {
	g.attempt, g.stood = at.id, at.stood
	h, err := newHold(at.lock, g)
	if err != nil {
		at.cancel()
	}
	return h, err
}

// await waits in the line for the push, and looks by itself when the holders
// may be over, when the subscription was broken, and at every heartbeat: a
// push that is lost costs a poll, never the lock. What else ends it: ctx, the
// client's closing, or a refusal that will not pass.
func (at *attempt) await(ctx context.Context, a wire.Answer) (*hold, error) {
	c, s := at.c, at.lock
	next, failures := at.pollAfter(a), 0
	var silence error // of the last look; nil if it was answered
	for {
		timer := time.NewTimer(next)
		wake := WakePush
		var pushed pushes.Grant
		var freeIn time.Duration
		select {
		case pushed = <-at.w.Granted:
		case <-at.w.Recheck:
			wake = WakeResume
		case freeIn = <-at.w.FreeAt:
			wake = WakeNone
		case <-timer.C:
			wake = WakePoll
		case <-ctx.Done():
			timer.Stop()
			at.cancel()
			if silence != nil {
				return nil, &endedError{name: s.name, end: ctx.Err(), last: silence}
			}
			return nil, ctx.Err()
		case <-c.life.Closing():
			timer.Stop()
			at.cancel()
			return nil, ErrClosed
		}
		timer.Stop()
		select {
		case pushed = <-at.w.Granted: // before anything else that has come meanwhile
			wake = WakePush
		default:
		}
		if wake == WakeNone {
			// The lock may be free then, and it is this waiter that is asked to look.
			next = at.pollAfter(wire.Answer{Left: freeIn, Place: 1})
			continue
		}
		at.reportWake(wake)
		if wake == WakePush {
			// Unless it can be believed, a poll confirms it and starts the lease anew.
			if g, ok := at.believes(pushed); ok {
				return at.granted(g)
			}
		}
		a, err := at.poll(ctx)
		switch {
		case err == nil && a.Kind == wire.Queued:
			next, failures, silence = at.pollAfter(a), 0, nil
		case err == nil:
			return at.handleAnswer(ctx, a)
		case request.Ended(ctx) != nil || !request.Transient(err):
			return nil, at.failed(ctx, err, silence)
		default:
			// The server is silent or away: ask again, more slowly. If it has
			// given the place away by then, the look joins anew.
			next, failures, silence = backoff.Default.After(failures, c.chance()), failures+1, err
		}
	}
}

// believes reports whether a pushed grant can be believed without asking, and from
// when its lease counts: too little of that may be left, or the server has said
// since that the attempt waits. Nobody renews a fixed lease, and acknowledgements may be
// longer in coming than the lease of a push: they ask, to have the whole TTL.
func (at *attempt) believes(g pushes.Grant) (grant, bool) {
	p := leasetime.Push{Sent: at.since, Queued: at.queued, Granted: g.Now, Lease: min(g.Lease, at.lock.ttl)}
	if g.Now == 0 {
		// It does not say when it was made: perhaps with the last answer,
		// unless the token is older, which is the server's time in µs, or more.
		p.Granted, p.Lease = min(at.queued, g.Token/1000), at.lock.ttl
	}
	now := at.c.now()
	if !at.stood || at.lock.noRenewal || at.lock.ack.Wanted() || !p.Trusted(now) {
		return grant{}, false
	}
	return grant{token: g.Token, waiting: g.Waiting, since: p.Since(now), pushed: p.Lease}, true
}

// poll polls; a waiter whom the record has forgotten joins again at the end.
func (at *attempt) poll(ctx context.Context) (wire.Answer, error) {
	a, err := at.ask(ctx, script.Poll)
	if err != nil || a.Kind != wire.Gone {
		return a, err
	}
	at.newAttemptID()
	return at.ask(ctx, script.Acquire)
}

// newAttemptID makes a new attempt of one that the record does not know any more:
// a push for a grant that it had may still be on its way, and would be taken
// for a grant at the new place.
func (at *attempt) newAttemptID() {
	c := at.c
	if !at.sure {
		at.cancel()
	}
	at.id, at.number = c.attempt()
	at.stood, at.risk = false, false
	if at.w != nil {
		at.w = c.hub.Replace(at.w, at.number)
	}
}

// pollAfter is for how long to wait for a push before looking.
func (at *attempt) pollAfter(a wire.Answer) time.Duration {
	if at.pushUnavailable() {
		at.subscribeAgain()
		return leasetime.PollWithoutPush(a.Left, at.lock.ttl, at.c.chance())
	}
	return leasetime.PollAfter(a.Left, a.Place, at.lock.ttl, at.c.chance())
}

func (at *attempt) reportWake(w Wake) {
	at.wake = w
	at.c.events.observe(Event{Kind: EventWake, Name: at.lock.name, HolderID: at.id, Wake: w})
}
