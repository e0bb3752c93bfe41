// Election: to become leader, to publish a value, to resign.

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/timelimit"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
)

// MaxValue is the largest length of a leader's value, in bytes.
const MaxValue = 4096

// Election chooses one leader among candidates. It is the [Mutex] of its name, with a value
// that the holder publishes. The guarantees of the store apply: there is never more than
// one leader. Candidates become leader in order of arrival, and an operator can end a
// leadership with [Client.Evict].
//
// Like a Mutex, it is a name and options. Each candidate of a process has its own position
// in the server's wait queue. [Election.Observe] shows who leads, and that nobody does. The
// [Mutex.AwaitFree] of its name waits until nobody leads and nobody campaigns.
type Election struct {
	lock  lock
	watch string // the channel for observers
}

// Election names an election. It does no I/O. If the name or an option is invalid, the
// first use returns an [ErrInvalid].
func (c *Client) Election(name string, options ...LockOption) *Election {
	// After a local hand-over the new leader would have the same token at the server as the
	// old one. Observers could not see the change.
	chosen, err := choose(c, name, lockOptions{want: wire.Exclusive, noLocalQueue: true}, options)
	return &Election{lock: newLock(c, name, chosen, err), watch: wire.Watch(c.cfg.Prefix, name, c.sharded)}
}

// Leadership is the leadership of one leader, from Campaign to Release. Its [Lease] has the rest: the
// token is the leader's term, which is higher than that of every leader before, and Release resigns. It
// is safe for use by many goroutines. If a program drops it without Release, its TTL ends it, and the
// library reports it like a [Lease].
//
// Release gives the leadership up: the server grants it to the next candidate in the same step, and
// observers learn before that nobody leads. The context ends before the client sends anything. A second
// Release returns after the first.
type Leadership struct {
	*Lease
	term *term
}

// term is what a leadership has beside its lease. It must not point to the Lease, see leaseState.
type term struct {
	election *Election
	hold     *hold

	// proclaiming is full during a proclamation, so that proclamations reach the server in the
	// order of their numbers. Nothing else waits for it.
	proclaiming chan struct{}
	number      uint64 // of the last proclamation; guarded by proclaiming

	over chan struct{} // closed when the release has ended

	// mu guards value.
	mu    lockorder.Mutex[term]
	value string // the last value that was certainly proclaimed
}

// Campaign acquires the leadership and proclaims value, which has up to [MaxValue] bytes of
// any kind. It may be an address, for example. Campaign waits in order of arrival. When it
// returns, [Election.Leader] and [Election.Observe] show the new leader.
//
// After an error the caller does not lead and is no longer in the wait queue. The errors
// are those of [Mutex.Lock]. An [ErrNotHeld] says that the leadership was lost before its
// value was proclaimed.
func (e *Election) Campaign(ctx context.Context, value string) (*Leadership, error) {
	if err := checkValue(value); err != nil {
		return nil, err
	}
	if e.lock.client.handOverBits == 0 { // another library's wire has no leaders: it says so before the lock is taken
		if _, err := e.Leader(ctx); err != nil && !errors.Is(err, ErrNoLeader) {
			return nil, err
		}
	}
	lease, err := e.lock.acquire(ctx, false)
	if err != nil {
		return nil, err
	}
	l := newLeadership(e, lease, "")
	for failures := 0; ; failures++ {
		if err = l.Proclaim(ctx, value); err == nil {
			return l, nil
		}
		if ctx.Err() != nil || !request.Transient(err) || lease.Err() != nil ||
			!e.lock.client.sender.Pause(ctx, failures) {
			_ = l.Release(ctx)
			return nil, err
		}
	}
}

// Resume continues a term from before a restart, ahead of all waiters, if nobody has taken
// over. holderID and term are the [Lease.HolderID] and the [Lease.Token] of the former
// [Leadership], for example from a file. The new leadership has a higher term. So a resource that
// checks terms refuses whatever the former leader may still send. Observers continue to see the
// value, under the new term.
//
// The server cannot know whether the former leader still runs. So it takes the lease away at
// once, and tells the former leader. Resume then waits until the former leader can no longer
// trust its lease: until that lease would have ended, at most the TTL and the [LockDelay]. During that time nobody
// leads, and no other candidate becomes leader. If two processes resume the same term, only one
// of them succeeds.
//
// The error is an [ErrNotHeld] if there is nothing to resume: the lease has ended, somebody
// else leads, or another process has resumed the term. In that case, campaign. After any error
// the caller does not lead. If the server may have granted the leadership, nobody leads until
// the former leader can no longer trust its lease. While the server is away, Resume tries until ctx ends; [MaxWait] and
// [Tries] do not limit it. If an answer was lost, Resume may have to wait for a whole TTL once
// more; with [NoRenewal] it can then fail with an [ErrNotHeld]. A quorum refuses Resume. A
// holderID and a term are not secret: a caller that resumes with those of a live leader deposes
// it.
func (e *Election) Resume(ctx context.Context, holderID string, term uint64) (*Leadership, error) {
	return e.resumeTerm(ctx, holderID, term, true)
}

// ResumeAtOnce is [Election.Resume] without the wait. Use it only if the caller knows that the
// former leader has ended, and all work under its leadership too. For example, the caller has
// the file lock that the former process and its children had. If the call fails, the library gives
// up in the background what the server may have granted. If the former leader still runs,
// two processes believe that they lead, until the former leader learns of its loss: by a push,
// by its next renewal, or at its trust deadline. The errors are those of Resume.
func (e *Election) ResumeAtOnce(ctx context.Context, holderID string, term uint64) (*Leadership, error) {
	return e.resumeTerm(ctx, holderID, term, false)
}

// resumeTerm resumes a term. waits: the former leader may still trust its lease.
func (e *Election) resumeTerm(ctx context.Context, holderID string, term uint64, waits bool) (*Leadership, error) {
	lk := &e.lock
	if _, err := lk.checkOrReenter(ctx); err != nil {
		return nil, err
	}
	if client, _, whole := strings.Cut(holderID, "/"); client == "" || !whole || strings.ContainsAny(holderID, " \n") {
		return nil, invalid("%q is not a holder ID: use the one that Leadership.HolderID returned", holderID)
	}
	c := lk.client
	if !c.life.BeginCall() {
		return nil, ErrClosed
	}
	defer c.life.EndCall()
	told := &call{ctx: ctx, start: c.now()}
	l, left, err := e.resume(ctx, holderID, term, waits)
	if err != nil {
		lk.reportFailure(told, err)
		return nil, err
	}
	c.events.tellGrant(l.state, observe.Event{Wait: c.now() - told.start})
	if waits {
		until := c.now() + trustOf(left)
		either, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(l.Context(), cancel)
		for c.now() < until && c.life.Sleep(either, until-c.now()) {
		}
		stop()
		cancel()
	}
	switch {
	case c.life.IsClosing():
		err = ErrClosed
	case l.Err() != nil:
		err = errorf("%w: %w", ErrNotHeld, l.Err())
	case ctx.Err() != nil:
		err = errorf("holdfast: election %q: %w", lk.name, ctx.Err())
	default:
		return l, nil
	}
	_ = l.Release(ctx)
	return nil, err
}

// trustOf is for how long a leader may trust a lease of which the server has so much left. The
// margin of leasetime is for one clock that runs at another rate, this for the second.
func trustOf(left time.Duration) time.Duration { return left + left/100 + 2*time.Millisecond }

// keptFor returns the lock of a hold that frees it no earlier than so long from now, whatever ends the hold: until
// then the former leader may trust its lease.
func (lk *lock) keptFor(d time.Duration) *lock {
	own, m := *lk, *lk.params
	m.notBefore = lk.client.now() + d
	own.params = &m
	return &own
}

// resume asks the server until it answers. left is how long the former leader may trust its
// lease. If waits is set, the lock is not free before that, even if the caller gives it up.
func (e *Election) resume(
	ctx context.Context, former string, term uint64, waits bool,
) (l *Leadership, left time.Duration, err error) {
	c, lk := e.lock.client, &e.lock
	id, number := lk.newAttemptID()
	c.registration.Start()
	args := []string{id, former, wire.Number(term >> 10), lk.ttlMS, c.retention, e.watch, lk.channelPrefix}
	var answer string
	var sent time.Duration
	needsCancel := false // the server may have resumed the term under this attempt
	for failures := 0; ; failures++ {
		if err = lk.prepare(ctx); err == nil {
			sent = c.now()
			answer, err = c.sender.Run(ctx, script.Resume, lk.keys(), args)
			needsCancel = needsCancel || err != nil && !request.Definite(err)
		}
		if err == nil || !c.isTransient(wrap("resuming", lk.name, err)) || !c.sender.Pause(ctx, failures) {
			break
		}
	}
	line, bad := wire.ResumeLine{}, error(nil)
	if err == nil {
		line, bad = wire.ParseResume(answer)
	}
	cancel := func(err error) (*Leadership, time.Duration, error) {
		if needsCancel && !waits { // else it ends with its lease, which is no shorter than the former one
			c.canceller.CancelUnknown(lk.toCancel(id))
		}
		return nil, 0, err
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return cancel(errorf("holdfast: election %q: %w", lk.name, ctx.Err()))
	case err != nil && c.life.IsClosing() && request.Transient(err):
		return cancel(ErrClosed)
	case err != nil || bad != nil:
		return cancel(wrap("resuming", lk.name, cmp.Or(err, bad)))
	case !line.Held:
		return cancel(errorf("holdfast: election %q: term %d: %w", lk.name, term, ErrNotHeld))
	}
	needsCancel = true
	if waits {
		lk = lk.keptFor(trustOf(line.Left))
	}
	h, err := newHold(lk, grant{number: number, token: line.Token, waiting: line.Waiting, since: sent})
	if err == nil && lk.ack.Wanted() {
		err = h.confirm(ctx)
	}
	if err != nil {
		return cancel(err)
	}
	lease := h.newLease(ctx)
	if lease == nil {
		return cancel(h.endReason())
	}
	return newLeadership(e, lease, line.Value), line.Left, nil
}

func newLeadership(e *Election, lease *Lease, value string) *Leadership {
	t := &term{
		election: e, hold: lease.state.hold, value: value,
		proclaiming: make(chan struct{}, 1), over: make(chan struct{}),
	}
	lease.state.mu.Lock()
	defer lease.state.mu.Unlock()
	lease.state.more().term = t
	return &Leadership{lease, t}
}

func checkValue(value string) error {
	if len(value) > MaxValue {
		return invalid("the value has %d bytes, the limit is %d: store it elsewhere and proclaim its address",
			len(value), MaxValue)
	}
	return nil
}

// Do campaigns, runs f as the leader, and resigns when f has returned or panicked. It does
// not resign earlier, even if the leadership is lost. The context of f is a child of ctx,
// and it also ends when the leadership is lost. f should return then, because another
// candidate may lead.
//
// The error joins f's error and the error of the leadership. If it is an [ErrNotHeld], the
// leadership was lost before f ended. If f did not run, the error is that of
// [Election.Campaign].
func (e *Election) Do(
	ctx context.Context, value string, f func(ctx context.Context, lead *Leadership) error,
) error {
	if err := runnable(ctx, f == nil); err != nil {
		return err
	}
	lead, err := e.Campaign(ctx, value)
	if err != nil {
		return err
	}
	return lead.run(ctx, f)
}

// run runs f as the leader, and resigns.
func (l *Leadership) run(ctx context.Context, f func(ctx context.Context, lead *Leadership) error) error {
	return do(ctx, l, func(ctx context.Context) error { return f(ctx, l) })
}

// Loop repeats Do. After a loss of the leadership it waits until f has returned, and
// campaigns again. While the server is away or out of memory, or replicas do not acknowledge,
// it keeps trying. Loop ends when ctx ends, when f returns and still leads, or when the server
// refuses for another reason. The error is that of the last Do.
func (e *Election) Loop(
	ctx context.Context, value string, f func(ctx context.Context, lead *Leadership) error,
) error {
	if err := runnable(ctx, f == nil); err != nil {
		return err
	}
	for failures := 0; ; failures++ {
		lead, err := e.Campaign(ctx, value)
		if err == nil {
			failures = 0
			err = lead.run(ctx, f)
			if ctx.Err() != nil || !errors.Is(lead.Err(), ErrLost) {
				return err
			}
		}
		lk := &e.lock
		if ctx.Err() != nil || !lk.loopOutlasts(ctx, err, failures) || !lk.client.sender.Pause(ctx, failures) {
			return err
		}
	}
}

// Value returns the last value whose proclamation has certainly succeeded.
func (l *Leadership) Value() string {
	l.term.mu.Lock()
	defer l.term.mu.Unlock()
	return l.term.value
}

// Proclaim changes the value that the leader publishes.
//
// If the error is an [ErrNotHeld], the leadership has ended. After an [ErrUnknownOutcome],
// observers may see the old value or the new one, until the next Proclaim. The leadership
// continues.
func (l *Leadership) Proclaim(ctx context.Context, value string) error {
	if err := checkValue(value); err != nil {
		return err
	}
	switch {
	case ctx == nil:
		return errNoContext
	case l.Err() != nil:
		return errorf("%w: %w", ErrNotHeld, l.Err())
	}
	if err := alreadyOver(ctx, "proclaiming a value for", l.Name()); err != nil {
		return err
	}
	t := l.term
	select {
	case t.proclaiming <- struct{}{}:
		defer func() { <-t.proclaiming }()
	case <-ctx.Done():
		return errorf("holdfast: proclaiming a value for %q: %w", l.Name(), ctx.Err())
	}
	h := t.hold
	answer, err := t.proclaim(ctx, wire.Value(value))
	switch {
	case err != nil:
		return wrapChange("proclaiming a value for", h.lock.name, err)
	case answer == "gone":
		h.endMissing(ctx)
		return errorf("%w: %w", ErrNotHeld, l.Err())
	case answer != "proclaimed" && answer != "late": // late: a copy of this request was faster
		return wrap("proclaiming a value for", h.lock.name, wire.BadAnswer(answer))
	}
	t.mu.Lock()
	t.value = value
	t.mu.Unlock()
	return nil
}

// proclaim sends one proclamation. The caller has filled t.proclaiming.
func (t *term) proclaim(ctx context.Context, word string) (string, error) {
	h := t.hold
	t.number++
	attempt, token := h.identity()
	return h.lock.client.sender.Run(ctx, script.Proclaim, h.lock.keys(), []string{
		attempt, token, strconv.FormatUint(t.number, 10), word, t.election.watch, h.lock.client.retention,
	})
}

// resignLimit bounds the message to observers before a leader resigns.
const resignLimit = time.Second

// resign tells observers that nobody leads. This message is a courtesy. Without it, observers ask again when
// the lease may have expired. So it gets a third of the time that the release may take in all.
func (t *term) resign(ctx context.Context) {
	ctx = timelimit.Lasting(ctx)
	limit := t.hold.lock.requestLimit()
	if at, bounded := ctx.Deadline(); bounded {
		limit = min(limit, time.Until(at))
	}
	select {
	case t.proclaiming <- struct{}{}:
		_, _ = t.proclaim(timelimit.Within(ctx, min(limit/3, resignLimit)), "")
		<-t.proclaiming
	default: // a proclamation is under way, and its value stays until the next leader's
	}
}
