// Lease: its context, its end, and the report of one that was dropped.

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/request"
)

// Lease is one acquisition of a lock. It is safe for use by many goroutines,
// and may be released by another goroutine than the one that took it.
//
// A lease that is garbage collected without a release is renewed no more, and
// reported to the logger and the observer; its context alone does not keep it. The
// lock stays taken until the TTL ends the lease: nothing frees it early. Leases of
// [NoRenewal] are not reported. Stores that bring a clock of their own, as memstore
// does, are spared all that: the collector may not touch what lives in a bubble of
// testing/synctest.
type Lease struct{ state *leaseState }

// leaseState is what a lease's context, its hold and its clean-up share. It must
// not point to the Lease: that would keep it from being collected.
type leaseState struct {
	hold   *hold
	token  atomic.Uint64
	first  *leaseState     // the lease that this one entered beside; nil if it is the first itself
	parent context.Context // of the call that took it
	start  time.Duration
	local  bool    // it came without the server
	taken  uintptr // where the caller took it; 0 if nobody is told

	reported reported // guarded by the notifier

	// mu guards the fields below; nothing is called under it but cancel.
	mu       sync.Mutex
	released bool        // Release was called
	left     bool        // it is a first lease that was released; others of its stay may be in
	dropped  bool        // the caller has forgotten it
	early    bool        // somebody has seen its loss before the renewer has told of it
	cause    error       // why it ended; nil while held
	extra    *leaseExtra // nil until there is something in it
}

// leaseExtra is what few leases need, and not at once.
type leaseExtra struct {
	own    context.Context // what [Lease.Context] answers; nil before
	cancel []context.CancelCauseFunc
	reentries
}

// more is the extra of a lease, to be changed. t.mu is held.
func (t *leaseState) more() *leaseExtra {
	if t.extra == nil {
		t.extra = new(leaseExtra)
	}
	return t.extra
}

// outerLease is the lease under whose context this one was taken.
func (t *leaseState) outerLease() *leaseState { return leaseOf(t.parent) }

type leaseKey struct{}

func leaseOf(ctx context.Context) *leaseState {
	t, _ := ctx.Value(leaseKey{}).(*leaseState)
	return t
}

// newLease begins a lease on a hold; nil if the hold is lost.
func (h *hold) newLease(parent context.Context) *Lease {
	var t *leaseState
	if h.passes.Load() > 0 {
		t = h.newLeaseState(parent, true)
	} else {
		t = h.initLease(parent, &h.first, false)
	}
	if !h.attach(t) {
		return nil
	}
	return t.handle()
}

// newLeaseState makes a lease that is not served yet. A local one begins now.
func (h *hold) newLeaseState(parent context.Context, local bool) *leaseState {
	return h.initLease(parent, new(leaseState), local)
}

func (h *hold) initLease(parent context.Context, t *leaseState, local bool) *leaseState {
	t.hold, t.local, t.parent, t.start = h, local, parent, h.began
	t.token.Store(h.token())
	if local {
		t.start = h.lock.client.now()
	}
	return t
}

// handle is what the caller gets of a lease state.
func (t *leaseState) handle() *Lease {
	c := t.hold.lock.client
	l := &Lease{state: t}
	if !c.fake && !t.hold.lock.noRenewal {
		// runtime.AddCleanup would do the same for two allocations a lease.
		runtime.SetFinalizer(l, (*Lease).reportLeak)
	}
	return l
}

// watched is told that the caller has not forgotten the lease.
func (l *Lease) watched() {
	if !l.state.hold.lock.client.fake {
		runtime.SetFinalizer(l, nil)
	}
}

// Name is the lock's name.
func (l *Lease) Name() string { return l.state.hold.lock.name }

// HolderID is the identity of the acquisition on the server: the client's ID, a
// slash and a number. Leases that were passed inside the process share it, and
// those that entered again under its context.
func (l *Lease) HolderID() string { return l.state.hold.attempt }

// Token is the fencing token: higher than that of every lease granted before
// on this lock, except that leases which share a hold ([Reentrant], [Owner])
// have the same one. It fits a signed 64-bit integer. A resource that remembers the
// highest it has seen can refuse a writer that comes late. See docs/protocol.md
// for what it is made of, and docs/guarantees.md for what must hold for it to rise.
func (l *Lease) Token() uint64 { return l.state.token.Load() }

// Context is done when the lease is lost or released, at the latest at the
// trust deadline; [context.Cause] says which: a [*LostError], [ErrReleased] or
// [ErrClosed]. It carries the values of the context that the lock was taken
// with, but not its end.
//
// Who looks at its Err, or asks for its Done, after the trust deadline finds it done.
// Who is blocked on Done, and whatever is derived from it, is woken by a timer: as soon
// after the deadline as the machine runs it, and within a second after a suspension.
func (l *Lease) Context() context.Context {
	t := l.state
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.more()
	if e.own == nil {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.parent))
		e.own = &leaseContext{ctx, t, t}
		t.onEnd(cancel)
	}
	return e.own
}

// bind makes a child of ctx that is also done when the lease ends.
func (l *Lease) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	t := l.state
	inner, cancel := context.WithCancelCause(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onEnd(cancel)
	return &leaseContext{inner, t, t}, func() { cancel(ErrReleased) }
}

// boundLease is what a function runs under.
type boundLease interface {
	bind(ctx context.Context) (context.Context, context.CancelFunc)
	Release(ctx context.Context) error
}

// do runs f under a lease, and releases it when f has returned or panicked.
func do(ctx context.Context, l boundLease, f func(ctx context.Context) error) (err error) {
	inner, cancel := l.bind(ctx)
	defer func() {
		cancel()
		err = both(err, l.Release(ctx))
	}()
	return f(inner)
}

// both joins what a function answered with what went wrong with its lock. An error that
// comes alone stays as it is.
func both(err, lock error) error {
	switch {
	case lock == nil:
		return err
	case err == nil:
		return lock
	}
	return errors.Join(err, lock)
}

// onEnd has cancel called with the cause of the lease's end. t.mu is held.
func (t *leaseState) onEnd(cancel context.CancelCauseFunc) {
	if t.cause != nil {
		cancel(t.cause)
		return
	}
	e := t.more()
	e.cancel = append(e.cancel, cancel)
}

// end ends the lease for its user. It reports false if it had ended before.
func (t *leaseState) end(cause error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.endWith(cause)
}

// endWith is end; t.mu is held.
func (t *leaseState) endWith(cause error) bool {
	if t.cause != nil {
		return false
	}
	t.cause = cause
	if t.extra == nil {
		return true
	}
	for _, cancel := range t.extra.cancel {
		cancel(cause)
	}
	t.extra.cancel = nil
	return true
}

// release ends the lease for its user, for good. first is false if that was
// done before; cause is why the lease ended.
func (t *leaseState) release(why error) (first bool, cause error) {
	t.end(why)
	t.mu.Lock()
	defer t.mu.Unlock()
	first, t.released = !t.released, true
	return first, t.cause
}

// ended is why the lease ended, or nil.
func (t *leaseState) ended() error {
	t.overdue()
	t.mu.Lock()
	cause := t.cause
	t.mu.Unlock()
	if errors.Is(cause, ErrLost) {
		return t.hold.endReason() // more may be known by now
	}
	return cause
}

// HoldCount is how many leases are in the lock's present stay in this process:
// 1, or more after entering again ([Reentrant]); 0 when this one has ended.
func (l *Lease) HoldCount() int {
	if l.state.ended() != nil {
		return 0
	}
	return l.state.holdCount()
}

// Err is nil while the lease is held, and then why it ended.
func (l *Lease) Err() error { return l.state.ended() }

// Remaining is for how long the lease is still to be trusted if no further
// renewal succeeds; 0 when it has ended. It counts suspension of the machine.
// After a wait it may be a tenth of the TTL, or two seconds, for as long as the
// renewal takes that confirms the grant: that is sent at once.
func (l *Lease) Remaining() time.Duration {
	t := l.state
	if t.ended() != nil {
		return 0
	}
	return max(t.hold.Deadline()-t.hold.lock.client.now(), 0)
}

// Deadline is the present trust deadline on the wall clock, for people and
// logs; decide by [Lease.Remaining]. It moves with every renewal.
func (l *Lease) Deadline() time.Time { return time.Now().Add(l.Remaining()) }

// Extend makes the lease last for ttl from now, and every later renewal ask
// for as much. A lease is never shortened, and never extended past [MaxHold].
// Leases that share a hold are extended together.
//
// If the error is an [ErrNotHeld], the lease is lost. After any other error it
// is held until its old deadline, and renewed as before.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	t := l.state
	h, c := t.hold, t.hold.lock.client
	switch err := checkTTL(ttl); {
	case ctx == nil:
		return errNoContext
	case err != nil:
		return invalid("%v", err)
	}
	if err := t.ended(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	sent := c.now()
	lost, err := h.extend(ctx, h.TTLFor(sent, ttl))
	switch {
	case err != nil:
		return wrap("extension of", h.lock.name, err)
	case lost != "":
		if c.renewer.Remove(&h.Item) {
			h.markLost(lost)
		}
	default:
		c.renewer.Extended(&h.Item, sent, ttl)
	}
	if err := t.ended(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	return nil
}

// Release gives the lock up: to the next goroutine of this process, or to the
// server, which grants it to the next in line in the same step. The lease's
// context is done before anything is sent. While others are in ([Reentrant],
// [Owner]), the lock stays theirs; after [MinHold] it stays taken.
//
// It works although ctx has ended, and is not stopped when ctx is cancelled: a
// deadline of ctx that is still ahead bounds it, and [Config.RequestTimeout]. The
// error is an [ErrNotHeld] if the lease had been lost before, and an
// [ErrHeldByOther] too if the server says that somebody else has the lock; an
// [ErrReleased] if it was released before, and an [ErrUnknownOutcome] if the server did not
// answer, or an [ErrUnreachable] if there was no connection to it: then the release
// is repeated in the background, and the lock frees itself within its TTL.
func (l *Lease) Release(ctx context.Context) error { return l.release(ctx, releaseMode{}) }

func (l *Lease) release(ctx context.Context, how releaseMode) error {
	if ctx == nil {
		return errNoContext
	}
	t := l.state
	first, cause := t.release(ErrReleased)
	if !first {
		return ErrReleased
	}
	l.watched()
	local, err := t.exit(ctx, cause, how)
	t.observe(cause, local, err)
	return err
}

// observe tells how the lease ended, unless its loss or the client's closing
// has been told before: one end for each grant.
func (t *leaseState) observe(cause error, local bool, err error) {
	c := t.hold.lock.client
	if !c.events.observed() || errors.Is(cause, ErrLost) || errors.Is(cause, ErrClosed) {
		return
	}
	c.events.tellNow(t.hold, t.ending(EventRelease, local, err))
}

// ending is the event of the lease's end.
func (t *leaseState) ending(kind EventKind, local bool, err error) Event {
	h := t.hold
	return Event{
		Kind: kind, Name: h.lock.name, HolderID: h.attempt, Token: t.token.Load(), Local: local,
		Held: h.lock.client.now() - t.start, Err: err,
	}
}

// exit gives up what the lease had, if no other lease of its stay is in. What was lost is
// gone already, and its turn; what the client's closing ended, Close has released.
func (t *leaseState) exit(ctx context.Context, cause error, how releaseMode) (local bool, err error) {
	h, last := t.hold, t.leave()
	switch {
	case errors.Is(cause, ErrClosed):
		return false, ErrClosed
	case !last && errors.Is(cause, ErrLost):
		return false, fmt.Errorf("%w: %w", ErrNotHeld, h.endReason())
	case !last:
		h.stopIfDropped()
		return true, nil
	}
	root := t.root()
	if how.keep > 0 {
		root.keepFor(how.keep)
	}
	if as := h.remove(root); as != asHolder {
		return h.afterReader(ctx, as)
	}
	if errors.Is(cause, ErrLost) {
		return false, h.releaseLost(ctx)
	}
	h.endMembers()
	return h.handOverOrRelease(ctx, how)
}

// handOverOrRelease hands the hold over or releases it, and gives up the turn.
func (h *hold) handOverOrRelease(ctx context.Context, how releaseMode) (local bool, err error) {
	c := h.lock.client
	if how == (releaseMode{}) && h.hasTurn.Load() && h.lock.turn().HandOver(h) {
		return true, nil
	}
	if c.renewer.Remove(&h.Item) {
		err = h.release(ctx, how)
	} else {
		err = h.releaseLost(ctx)
	}
	h.leaveTurn()
	return false, err
}

// releaseLost is the release of a hold that is over. The server may still think
// that we have it, when only the confirmations were lost: now that the work is
// done, that ends too.
//
// Whoever lost it by the clock alone is told here if an operator took it away.
func (h *hold) releaseLost(ctx context.Context) error {
	var lost *LostError
	err := h.endReason()
	if !errors.As(err, &lost) {
		return err
	}
	if lost.Reason == LossExpired || lost.Reason == LossLimit {
		_, _ = h.readEviction(request.Lasting(ctx))
	}
	switch {
	case lost.Reason != LossExpired && lost.Reason != LossLimit:
	case h.lock.minHold > 0:
		h.lock.client.life.Go(func() { _ = h.release(h.lock.client.life.Context(), releaseMode{}) })
	default:
		h.lock.client.canceller.Cancel(h.lock.attempt(h.attempt), h.lock.client.now())
	}
	return fmt.Errorf("%w: %w", ErrNotHeld, h.endReason())
}

// ReleaseAfter gives the lease up, but leaves the lock taken for delay from
// now, or until [MinHold] has passed if that is later: not for its lease, unless
// that is a reader's or one of permits, which nothing makes shorter. Nobody
// can shorten it but an operator. While other leases are in ([Reentrant]) it is
// a Release.
//
// Its errors are those of [Lease.Release]; after an [ErrUnknownOutcome] the
// lock stays taken for the delay or for the lease.
func (l *Lease) ReleaseAfter(ctx context.Context, delay time.Duration) error {
	if delay > maxTTL {
		return invalid("the delay is %v: at most %v make sense", delay, maxTTL)
	}
	return l.release(ctx, releaseMode{keep: max(delay, 0)})
}

// leaseContext is what a user's code sees of a lease: the values of the context that
// the lock was taken with, and an end in time. Timers are late on a busy machine, and
// after a suspension: whoever looks past the trust deadline ends the lease by that, and
// does not wait for the renewer's.
type leaseContext struct {
	context.Context     // ends with the lease
	own             any // the innermost lease that what runs under it belongs to
	lease           interface{ overdue() }
}

// Value adds the lease to the values that a context carries.
func (c *leaseContext) Value(key any) any {
	if key == (leaseKey{}) {
		return c.own
	}
	return c.Context.Value(key)
}

// Done is closed on return if the lease is over.
func (c *leaseContext) Done() <-chan struct{} {
	c.lease.overdue()
	return c.Context.Done()
}

// Err is not nil if the lease is over.
func (c *leaseContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.lease.overdue()
	return c.Context.Err()
}

// overdue ends the lease for its user if its trust deadline has passed. The renewer's
// timer, which has not run yet, does the rest: it tells, and lets the next goroutine
// of the process ask the server.
func (t *leaseState) overdue() {
	h := t.hold
	if h.Deadline() > h.lock.client.now() {
		return
	}
	t.mu.Lock()
	ended := t.cause != nil
	t.mu.Unlock()
	if ended || !h.lock.client.renewer.Expire(&h.Item) {
		return
	}
	lost := h.lostFor(h.EndReason())
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.endWith(lost) {
		t.early = true
	}
}

// together are the leases of several locks that end as one.
type together []*Lease

// overdue ends the lease if the trust deadline of one of the locks has passed.
func (all together) overdue() {
	for _, part := range all {
		_ = part.Err()
	}
}

// A lease whose handle was dropped, that is garbage collected without a release, is
// never released by that: its holder's code may still run, and nobody else may come
// in before the TTL is over. It is not renewed any more, so the TTL ends it; and it
// is reported, for it is most often a mistake. A fixed lease ends with its TTL
// anyway, and to take one and let it run out is a way to use it.

// reportLeak is told by the collector that the handle was dropped.
func (l *Lease) reportLeak() {
	t := l.state
	if !t.drop() {
		return
	}
	t.hold.stopIfDropped()
	c, at := t.hold.lock.client, location(t.taken)
	left := max(t.hold.Deadline()-c.now(), 0)
	c.events.tell(news{hold: t.hold, lease: t, event: t.ending(EventLeak, false, nil), log: func(log *slog.Logger) {
		log.Error("holdfast: a lease was dropped without Release: it is renewed no more, and the lock stays taken "+
			"until its TTL ends it", "lock", t.hold.lock.name, "taken at", at, "token", t.token.Load(), "left", left)
	}})
}

// drop notes that nobody has the lease any more. It reports false if it had ended.
func (t *leaseState) drop() bool {
	t.hold.mu.Lock()
	t.hold.dropped = true
	t.hold.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.released || t.cause != nil {
		return false
	}
	t.dropped = true
	return true
}

// stopIfDropped ends the renewals of a hold of which nothing is left but leases that were
// dropped. Nobody joins it from then on, nor is it passed on.
func (h *hold) stopIfDropped() {
	for {
		h.mu.Lock()
		dropped, reserved, all := h.dropped, h.reserved, h.leases()
		h.mu.Unlock()
		if !dropped || reserved > 0 || slices.ContainsFunc(all, (*leaseState).inUse) {
			return
		}
		h.mu.Lock()
		same := h.reserved == 0 && len(h.leases()) == len(all)
		if same {
			h.last = true
		}
		h.mu.Unlock()
		if same {
			break
		}
	}
	h.lock.client.renewer.StopRenewal(&h.Item)
	h.unshare()
}

// inUse reports whether somebody has a lease of the stay that t began.
func (t *leaseState) inUse() bool {
	t.mu.Lock()
	begun := !t.left && !t.dropped
	inner := slices.Clone(t.entered().inner)
	t.mu.Unlock()
	return begun || slices.ContainsFunc(inner, func(in *leaseState) bool { return !in.isDropped() })
}

func (t *leaseState) isDropped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}
