// Lease: what a caller has from the grant to the release.

package holdfast

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/timelimit"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/observe"
)

// Lease is one acquisition of a lock. It is safe for use by many goroutines. Any goroutine
// may release it, not only the one that acquired it.
//
// If a program drops a lease without a release, the garbage collector finds it. The library
// then stops the renewal, and reports the lease to the logger and the observer. The lock stays
// held until the lease's TTL ends: nothing frees it earlier. So keep the Lease itself: to keep
// only its context is not enough.
//
// There are two exceptions. Leases of [NoRenewal] are not reported. A store with its own
// clock, such as memstore, gets no such check, because the collector must not touch objects
// in a bubble of testing/synctest.
type Lease struct {
	state *leaseState
	check *leakCheck // after a hand-over inside the process; only the Lease points to it
}

// leaseState is shared by a lease's context, its hold and its clean-up. It must not point
// to the Lease, because then the collector could never collect the Lease.
type leaseState struct {
	hold       *hold
	token      atomic.Uint64
	root       *leaseState     // the first lease of this re-entry; the others are stored there
	parent     context.Context // the context of the call that acquired the lease
	start      time.Duration   // of a local lease: the hold's, if there is no observer
	number     uint64          // see observe.Event.Lease; 0 if there is no observer
	acquiredPC uintptr         // where the caller acquired it; 0 if there is no logger

	leaseEnd
	local          bool     // acquired without a request to the server
	grantDelivered reported // guarded by the notifier

	// mu, of the leaseEnd, guards the fields below.
	left    bool // this first lease is released; re-entries beside it may still be live
	dropped bool // the caller has dropped the lease
	early   bool // a caller has seen the loss before the renewer reported it
}

// leaseEnd is the end of a Lease or of a MultiLease: why it ended, and which contexts end
// with it.
type leaseEnd struct {
	mu       lockorder.Mutex[leaseEnd] // guards the fields below; under mu the code calls nothing but cancel
	cause    error                     // nil while held
	extra    *leaseExtra               // nil until it is needed
	released bool                      // the caller has called Release
}

// leaseExtra holds the fields that few leases need.
type leaseExtra struct {
	own    context.Context // the context that [Lease.Context] returns; nil before its first call
	cancel []context.CancelCauseFunc
	term   *term // of a leadership
	reentries
}

// more returns the extra fields, to be changed by the caller. The caller holds e.mu.
func (e *leaseEnd) more() *leaseExtra {
	if e.extra == nil {
		e.extra = new(leaseExtra)
	}
	return e.extra
}

// context returns the lease's own context. parent gives it its values. inner is the
// innermost lease that code under the context belongs to.
func (e *leaseEnd) context(parent context.Context, inner *leaseState, lease overdue) context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.more()
	if x.own == nil {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
		x.own = &leaseContext{ctx, inner, lease}
		e.add(cancel)
	}
	return x.own
}

// bind makes a child of ctx that also ends when the lease ends.
func (e *leaseEnd) bind(
	ctx context.Context, inner *leaseState, lease overdue,
) (context.Context, context.CancelFunc) {
	child, cancel := context.WithCancelCause(ctx)
	e.onEnd(cancel)
	return &leaseContext{child, inner, lease}, func() { cancel(ErrReleased) }
}

// onEnd arranges that cancel is called with the cause when the lease ends. If it has ended,
// cancel is called at once.
func (e *leaseEnd) onEnd(cancel context.CancelCauseFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.add(cancel)
}

// add does what onEnd does. The caller holds e.mu.
func (e *leaseEnd) add(cancel context.CancelCauseFunc) {
	if e.cause != nil {
		cancel(e.cause)
		return
	}
	x := e.more()
	x.cancel = append(x.cancel, cancel)
}

// end ends the lease for its user.
func (e *leaseEnd) end(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endWith(cause)
}

// endWith does what end does. It reports false if the lease had already ended. The caller holds e.mu.
func (e *leaseEnd) endWith(cause error) bool {
	if e.cause != nil {
		return false
	}
	e.cause = cause
	if e.extra == nil {
		return true
	}
	for _, cancel := range e.extra.cancel {
		cancel(cause)
	}
	e.extra.cancel = nil
	return true
}

// markReleased ends the lease for its user and marks it as released. first is false if the lease
// was released before. cause is why the lease ended. t is nil unless it is that of a leadership.
func (e *leaseEnd) markReleased() (first bool, t *term, cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endWith(ErrReleased)
	first, e.released = !e.released, true
	if e.extra != nil {
		t = e.extra.term
	}
	return first, t, e.cause
}

// outerLease returns the lease under whose context this one was acquired.
func (ls *leaseState) outerLease() *leaseState { return leaseOf(ls.parent) }

type leaseKey struct{}

func leaseOf(ctx context.Context) *leaseState {
	ls, _ := ctx.Value(leaseKey{}).(*leaseState)
	return ls
}

// newLease creates a lease of the hold, which ends when the hold is lost or the client closes.
// It returns nil if that has happened already.
func (h *hold) newLease(parent context.Context) *Lease {
	ls, local := &h.firstLease, h.handOvers.Load() > 0
	if local {
		ls = new(leaseState)
	}
	ls.init(parent, h, local)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.admits(asAgreed, nil) != admitted {
		return nil
	}
	h.lease, h.departed = ls, false
	if !local || !ls.mayLeak() {
		return ls.handle()
	}
	l, x := &Lease{state: ls}, h.more()
	if l.check, x.leak = x.leak, nil; l.check == nil {
		l.check = new(leakCheck)
		runtime.SetFinalizer(l.check, (*leakCheck).report)
	}
	l.check.state = ls
	return l
}

// newLeaseState creates a lease that is not attached to the hold yet.
func newLeaseState(parent context.Context, h *hold, local bool) *leaseState {
	ls := new(leaseState)
	ls.init(parent, h, local)
	return ls
}

// init fills a lease in. A local lease begins now. Only the observer's events use the beginning and
// the number of a lease, and a hand-over takes less time than to read the clock three times.
func (ls *leaseState) init(parent context.Context, h *hold, local bool) {
	c := h.lock.client
	ls.hold, ls.root, ls.parent, ls.local, ls.start = h, ls, parent, local, h.firstLease.start
	ls.token.Store(h.token())
	if !c.events.observed() {
		return
	}
	ls.number = c.events.leases.Add(1)
	if local {
		ls.start = c.now()
	}
}

// handle returns the Lease for the caller.
func (ls *leaseState) handle() *Lease {
	l := &Lease{state: ls}
	l.startLeakCheck()
	return l
}

// Name returns the lock's name.
func (l *Lease) Name() string { return l.state.hold.lock.name }

func (l *Lease) key() string { return l.state.hold.lock.key() }

// HolderID returns the identity of the acquisition on the server: the client's ID, a slash
// and a number, and the [LockDelay] behind it if there is one. Leases that share a hold have the
// same ID: after a local hand-over, and after a re-entry under a lease's context.
func (l *Lease) HolderID() string { return l.state.hold.attemptID() }

// Token returns the fencing token. It is higher than the token of every lease granted before on
// this lock. Only leases that share a hold ([Reentrant], [Owner], readers of one process) have
// the same token. A resource that remembers the highest token can refuse a late writer: the
// package fence has guards that do this. If a write depends on a read, show the token with the
// read too. Otherwise the resource accepts a late write that comes between the two, and your
// write then replaces it.
//
// A service that is sent a token can ask whether the lease is live: see [Client.Check].
//
// The token fits a signed 64-bit integer. See docs/protocol.md for its parts, and
// docs/guarantees.md for the conditions under which it rises.
//
// On the wire of another library, the token is that library's own number. It is 0 if its locks
// have no tokens, and the guards refuse it then: see docs/moving/sharing.md.
func (l *Lease) Token() uint64 { return l.state.token.Load() }

// Context returns a context that ends when the lease is lost or released, at the latest at
// the trust deadline. [context.Cause] returns the reason: a [*LostError], [ErrReleased] or
// [ErrClosed]. The context has the values of the context that was given to the lock call.
// It does not end with that context.
//
// After the trust deadline, Err returns an error and the channel of Done is closed for
// every caller that asks. A goroutine that already waits on Done is woken by a timer. The
// timer runs as soon after the deadline as the machine allows, and within a second after a
// suspension. The same holds for derived contexts.
func (l *Lease) Context() context.Context {
	ls := l.state
	return ls.context(ls.parent, ls, ls)
}

func (l *Lease) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	return l.state.bind(ctx, l.state, l.state)
}

// ended returns why the lease ended, or nil.
func (ls *leaseState) ended() error {
	ls.overdue()
	ls.mu.Lock()
	cause := ls.cause
	ls.mu.Unlock()
	if errors.Is(cause, ErrLost) {
		return ls.hold.endReason() // the hold may know more by now
	}
	return cause
}

// HoldCount returns how many leases of this hold are live in this process: 1, or more after
// a re-entry ([Reentrant]). It is 0 when this lease has ended.
func (l *Lease) HoldCount() int {
	if l.state.ended() != nil {
		return 0
	}
	return l.state.holdCount()
}

// Err returns nil while the lease is held. After that it returns why the lease ended.
func (l *Lease) Err() error { return l.state.ended() }

// Remaining returns the time until the trust deadline, if no further renewal succeeds. It
// is 0 when the lease has ended. Time in which the machine is suspended counts.
//
// After a wait, Remaining may at first be two or three seconds. It rises when
// the renewal that confirms the grant succeeds. The client sends that renewal at once.
func (l *Lease) Remaining() time.Duration {
	ls := l.state
	if ls.ended() != nil {
		return 0
	}
	return max(ls.hold.Deadline()-ls.hold.lock.client.now(), 0)
}

// Release gives the hold up. The next goroutine of this process gets it, or the server
// grants the lock to the next waiter in the same step. The lease's context ends before the
// client sends anything. While other leases share the hold ([Reentrant], [Owner]), those
// keep the lock. With [MinHold] the lock stays held until that time has passed.
//
// Release works although ctx has ended, and does not stop when ctx is cancelled. It is
// bounded by the deadline of ctx, if that is still ahead. If the server does not answer, it takes
// [Config.RequestTimeout] at most. If the server answers that the hold is gone, Release asks why,
// within the same time again.
//
// If the server did not answer, the client repeats the release in the background, and the
// lock is free within its TTL at the latest.
//
// To hold the lock until a context ends, call Release in a function of [context.AfterFunc]. If the lease
// is released earlier, stop that function: until then the context keeps the lease in memory.
//
// The error is an [ErrNotHeld] if the lease had been lost before. It is also an
// [ErrHeldByOther] if the server says that another client holds the lock. It is an
// [ErrReleased] if the lease was released before. If the server did not answer, it is an
// [ErrUnknownOutcome], or an [ErrUnreachable] without a connection.
func (l *Lease) Release(ctx context.Context) error { return l.release(ctx, releaseMode{}) }

func (l *Lease) release(ctx context.Context, how releaseMode) error {
	if ctx == nil {
		return errNoContext
	}
	ls := l.state
	first, t, cause := ls.markReleased()
	switch {
	case !first && t != nil:
		<-t.over // the program may end when this call returns
		return ErrReleased
	case !first:
		return ErrReleased
	case t != nil:
		defer close(t.over)
		if errors.Is(cause, ErrReleased) {
			how.since = max(ls.hold.lock.client.now(), 1) // a clock of a test may begin at 0
			t.resign(ctx)
		}
	}
	hadCheck := l.check != nil
	if hadCheck {
		l.passLeakCheckOn()
	}
	local, err := ls.exit(ctx, cause, how)
	if !hadCheck {
		l.stopLeakCheck() // the next holder does not wait for this
	}
	if ls.hold.lock.client.events.observed() {
		ls.reportEnd(cause, local, err)
	}
	return err
}

// reportEnd reports how the lease ended. Each grant has one end: a loss or a Close was
// reported before.
func (ls *leaseState) reportEnd(cause error, local bool, err error) {
	if !errors.Is(cause, ErrLost) && !errors.Is(cause, ErrClosed) {
		ls.hold.lock.client.events.tellNow(ls.hold, ls.endEvent(observe.EventRelease, local, err))
	}
}

// endEvent returns the event of the lease's end.
func (ls *leaseState) endEvent(kind observe.EventKind, local bool, err error) observe.Event {
	h := ls.hold
	return observe.Event{
		Kind: kind, Context: ls.parent, Name: h.lock.name, Mode: h.lock.mode(), HolderID: h.attemptID(),
		Lease: ls.number, Token: ls.token.Load(), Local: local, Held: h.lock.client.now() - ls.start, Err: err,
	}
}

// exit gives up the lease's part of the hold, unless other leases of the same re-entry are
// live. After a loss, the hold and its turn are already gone. After a Close, the hold is
// already released.
func (ls *leaseState) exit(ctx context.Context, cause error, how releaseMode) (local bool, err error) {
	h, last := ls.hold, ls.leaveReentry()
	switch {
	case errors.Is(cause, ErrClosed):
		return false, ErrClosed
	case !last && errors.Is(cause, ErrLost):
		return false, errorf("%w: %w", ErrNotHeld, h.endReason())
	case !last:
		h.stopIfDropped()
		return true, nil
	}
	root := ls.root
	kept := how.keep > 0 && h.keepUntil(h.lock.client.now()+how.keep, root)
	as, guests := h.remove(root)
	switch {
	case as != asHolder:
		local, err = h.afterReader(ctx, as)
		if as == asOneReader && kept && err == nil { // the server knows it, whatever ends the other readers
			local, err = false, (&releasing{hold: h, how: how}).keep(timelimit.Lasting(ctx))
		}
		return local, err
	case errors.Is(cause, ErrLost):
		h.passTurnOn() // the caller may have noticed the loss before the renewer
		return false, h.releaseLost(ctx, how)
	}
	for guest := range guests {
		guest.end(ErrReleased)
	}
	return h.handOverOrRelease(ctx, how)
}

// ReleaseAfter gives the hold up, but the lock stays held for delay from now, or until
// [MinHold] has passed, whichever is later. For an exclusive lock, the rest of its lease does
// not count. The lease of a reader or of permits lasts at least as long as before, because
// ReleaseAfter does not shorten it. Only an operator can free the lock earlier. While other
// leases share the hold ([Reentrant]), ReleaseAfter does what Release does. delay is at most
// 365 days.
//
// The errors are those of [Lease.Release]. After an [ErrUnknownOutcome] the lock stays held for
// the delay, or until the lease ends.
func (l *Lease) ReleaseAfter(ctx context.Context, delay time.Duration) error {
	if delay > maxTTL {
		return invalid("the delay is %v: it must be at most %v", delay, maxTTL)
	}
	return l.release(ctx, releaseMode{keep: max(delay, 0)})
}

// leaseContext is the context that the user's code gets: the values of the lock call's
// context, and its own end. Timers are late on a busy machine and after a suspension. So a
// caller that asks after the trust deadline ends the lease itself, and does not wait for
// the renewer's timer.
type leaseContext struct {
	context.Context             // ends with the lease
	inner           *leaseState // the innermost lease that code under this context belongs to
	lease           overdue
}

// overdue is a lease, or several that end together.
type overdue interface {
	overdue() // ends the lease if its trust deadline has passed
}

// Value adds the lease to the context's values.
func (c *leaseContext) Value(key any) any {
	if key == (leaseKey{}) {
		return c.inner
	}
	return c.Context.Value(key)
}

// Done returns a closed channel if the lease has ended.
func (c *leaseContext) Done() <-chan struct{} {
	c.lease.overdue()
	return c.Context.Done()
}

// Err returns an error if the lease has ended.
func (c *leaseContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.lease.overdue()
	return c.Context.Err()
}

// overdue ends the lease for its user if its trust deadline has passed. The renewer's timer
// does the rest when it runs: it reports the loss, and lets the next goroutine of the
// process ask the server.
func (ls *leaseState) overdue() {
	h := ls.hold
	if h.Deadline() > h.lock.client.now() {
		return
	}
	ls.mu.Lock()
	ended := ls.cause != nil
	ls.mu.Unlock()
	if ended || !h.lock.client.renewer.Expired(&h.Item) {
		return
	}
	lost := h.lostFor(h.EndReason())
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.endWith(lost) {
		ls.early = true
	}
}

// LeaseInfo is a lease at one moment, as code that runs under it sees it, or another process that finishes its
// work: see [Client.ExtendLease].
type LeaseInfo struct {
	Name      string        // the lock, the election or the job
	HolderID  string        // as [Lease.HolderID]: whoever knows it can release the lock
	Owner     string        // the name of the option [Owner]; empty without it
	Token     uint64        // as [Lease.Token]
	Remaining time.Duration // as [Lease.Remaining]: until the trust deadline; 0: the lease has ended
	Others    int           // how many other locks ctx belongs to leases of, too
}

// LeaseOf returns the innermost lease that ctx belongs to, or the innermost one of the named locks. ctx is
// the context of a function that a Do or a Loop runs, that of a lease, or a child of one. If ctx belongs to
// no such lease, ok is false. Under a [MultiLease] the innermost lease is that of the last of its locks.
//
// Use it where there is no [Lease]: a job of [Periodic.Do] finds its fencing token, and how
// much time is left if no further renewal succeeds.
func LeaseOf(ctx context.Context, names ...string) (l LeaseInfo, ok bool) {
	if ctx == nil {
		return LeaseInfo{}, false
	}
	locks := make(map[string]bool)
	for ls := leaseOf(ctx); ls != nil; ls = ls.outerLease() {
		lease := Lease{state: ls}
		if locks[lease.key()] = true; !ok && (len(names) == 0 || slices.Contains(names, lease.Name())) {
			ok = true
			l = LeaseInfo{
				Name: lease.Name(), HolderID: lease.HolderID(), Owner: wire.Decode(ls.hold.lock.owner),
				Token: lease.Token(), Remaining: lease.Remaining(),
			}
		}
	}
	if ok {
		l.Others = len(locks) - 1
	}
	return l, ok
}
