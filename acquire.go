// From the call of a kind to the grant: the turn in this process, the request to the server, the lease.

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

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
	if !c.preflight.Passed(s.ack) {
		if err := away.prepare(ctx, s); err != nil {
			return nil, WakeNone, err
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

// acquireShared takes the lock as a reader: under the lease of this very call
// chain, else together with the readers of this process, else from the server.
func (s *lock) acquireShared(ctx, parent context.Context, try bool) (*Lease, Wake, error) {
	c := s.client
	if l, err := s.readUnder(parent); l != nil || err != nil {
		return l, WakeNone, err
	}
	if !s.shares() {
		return s.readAlone(ctx, parent, try)
	}
	cause := WakeNone
	for {
		turn, err := c.queue.Enter(ctx, s.key(), waitqueue.Shared, s, try)
		if turn.Waited {
			cause = WakeLocal
		}
		switch {
		case err != nil:
			return nil, cause, err
		case turn.None():
			return s.readAlone(ctx, parent, try)
		case !turn.Joined:
			h, w, err := s.readFirst(ctx, try, turn)
			if err != nil {
				return nil, max(cause, w), err
			}
			if l := h.newReaderLease(parent, false); l != nil {
				return l, max(cause, w), nil
			}
			return nil, cause, h.endReason()
		case !turn.Hold.suits(s):
			// It waited for a reader that has other terms.
			turn.Hold.unreserve()
			return s.readAlone(ctx, parent, try)
		}
		if l := turn.Hold.newReaderLease(parent, true); l != nil {
			return l, cause, nil
		}
	}
}

// readUnder enters a read-write lock as a reader under the context of a lease
// of it, without the network and past all who wait: they wait for that lease.
// Without such a lease it answers neither.
func (s *lock) readUnder(parent context.Context) (*Lease, error) {
	c := s.client
	for held := leaseOf(parent); held != nil; held = held.outerLease() {
		if !held.of(c, s) || held.ended() != nil {
			continue
		}
		h := held.hold
		if !h.lock.rw.any() {
			return nil, held.deadlock()
		}
		if t := h.newLeaseState(parent, true); h.addMember(t, held) {
			return t.handle(), nil
		}
	}
	return nil, nil
}

// readAlone takes a hold that is shared with nobody in this process.
func (s *lock) readAlone(ctx, parent context.Context, try bool) (*Lease, Wake, error) {
	h, w, err := s.runAttempt(ctx, try)
	if err != nil {
		return nil, w, err
	}
	if l := h.newReaderLease(parent, false); l != nil {
		return l, w, nil
	}
	return nil, w, h.endReason()
}

// newReaderLease begins a lease under a hold that is kept for it; nil if the hold is lost.
func (h *hold) newReaderLease(parent context.Context, local bool) *Lease {
	if t := h.newLeaseState(parent, local); h.redeem(t) {
		return t.handle()
	}
	return nil
}

// readFirst asks the server for the readers of this process; the caller has the
// turn, and gives it up with that. The hold that it brings is kept for the caller.
func (s *lock) readFirst(ctx context.Context, try bool, turn localTurn) (*hold, Wake, error) {
	do := turn.Do
	if do == waitqueue.Check {
		if do = turn.Hold.checkWaiters(ctx); do == waitqueue.Share && turn.Hold.reserve() {
			turn.Share(turn.Hold)
			return turn.Hold, WakeNone, nil
		}
	}
	// A reader that knows that somebody waits stands behind at once. Else the first
	// request does not wait, for those that only try wait for its answer.
	var h *hold
	var w Wake
	var err error
	if try || do != waitqueue.Wait {
		h, w, err = s.runAttempt(ctx, true)
	} else {
		err = &HeldError{Name: s.name}
	}
	if held := heldIn(err); (held != nil || wavering(err)) && !try {
		turn.Waiting(held)
		h, w, err = s.runAttempt(ctx, false)
	}
	if err != nil {
		turn.Refuse(heldIn(err))
		return nil, w, err
	}
	turn.Share(h)
	return h, w, nil
}

// heldIn is what err says of the holder; nil if it is another error, or none.
func heldIn(err error) error {
	var held *HeldError
	if errors.As(err, &held) {
		return held
	}
	return nil
}

// checkWaiters renews the hold, which tells who waits, and decides anew. After an error
// nothing is known: the reader stands in line, where it harms nobody.
func (h *hold) checkWaiters(ctx context.Context) waitqueue.Decision {
	c := h.lock.client
	ttl, sent := c.renewer.TTL(&h.Item), c.now()
	r, got, err := c.sender.Renew(ctx, h.lock.ack, []request.Renewal{h.renewal(ttl)})
	if err == nil {
		err = h.lock.acked(got)
	}
	if err != nil || !r[0].Held {
		return waitqueue.Wait // its next renewal will say that it is lost
	}
	c.renewer.Extended(&h.Item, sent, ttl)
	h.setWaiters(r[0].Waiting)
	return waitqueue.Join(0, r[0].Waiting, false)
}

// trying says how often, and about how far apart.
type trying struct {
	tries int // 0: wait instead
	pace  time.Duration
}

// tryOften takes the lock by trying. Each try is an acquisition of its own:
// after one that failed nothing is held, and an error that will not pass ends it.
func (t *lock) tryOften(ctx context.Context) (*Lease, error) {
	start := t.client.now()
	for n := 1; ; n++ {
		l, err := t.acquireAs(ctx, ctx, true)
		var held *HeldError
		known := errors.As(err, &held)
		if err == nil || !known && !wavering(err) || request.Ended(ctx) != nil {
			return l, err
		}
		if n == t.tries {
			told := HeldError{Name: t.name, Err: reason(err)}
			if known {
				told = *held
			}
			told.Tries, told.Waited = n, t.client.now()-start
			return nil, &told
		}
		timer := time.NewTimer(t.pace/2 + time.Duration(t.client.chance()*float64(t.pace)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("holdfast: lock %q: %w", t.name, ctx.Err())
		case <-t.client.life.Closing():
			timer.Stop()
			return nil, fmt.Errorf("holdfast: lock %q: %w", t.name, ErrClosed)
		}
	}
}
