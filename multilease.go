// MultiLease: one lease of several locks.

package holdfast

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// MultiLease is one acquisition of several locks. It ends as a whole: if any of the locks
// is lost, the lease is lost. It is safe for use by many goroutines. If a program drops a
// MultiLease without a release, the library reports it like a [Lease], and its TTL ends it.
type MultiLease struct{ state *multiLeaseState }

// multiLeaseState is shared by a MultiLease, its context and its clean-up. It must not
// point to the MultiLease.
//
// When a part ends, it ends the whole under its own mutex. So code that holds the mutex of
// the leaseEnd must not call the parts.
type multiLeaseState struct {
	leaseEnd
	parts []*Lease        // by key
	call  context.Context // of the lock call
	outer *leaseState     // the innermost lease: that of the last lock by key
	taken uintptr         // where the caller acquired it; 0 if there is no logger
}

// link is the parent of the lease of one lock of several: the call's context, under the previous lease of the call. At
// first the previous lease is the last one that the call acquired before. When the call has all locks, the leases are
// put in the order of their keys.
type link struct {
	context.Context
	outer atomic.Pointer[leaseState]
}

func (l *link) Value(key any) any {
	if outer := l.outer.Load(); outer != nil && key == (leaseKey{}) {
		return outer
	}
	return l.Context.Value(key)
}

// under returns ctx as a child of the last lease, which knows the earlier ones.
func under(ctx context.Context, taken []*Lease) *link {
	l := &link{Context: ctx}
	if len(taken) > 0 {
		l.outer.Store(taken[len(taken)-1].state)
	}
	return l
}

// newMultiLease makes one lease of several. ctx is the context of the lock call.
func newMultiLease(ctx context.Context, parts []*Lease) *MultiLease {
	mls := &multiLeaseState{parts: parts, call: ctx}
	slices.SortFunc(parts, func(a, b *Lease) int { return strings.Compare(a.key(), b.key()) })
	for _, part := range parts {
		part.state.parent.(*link).outer.Store(mls.outer)
		mls.outer = part.state
	}
	mls.onEnd(mls.stopRenewal)
	for _, part := range parts {
		part.state.onEnd(func(cause error) { mls.end(cause) }) // also if it has ended already
	}
	l := &MultiLease{state: mls}
	if parts[0].state.mayLeak() {
		runtime.SetFinalizer(l, (*MultiLease).reportLeak)
	}
	return l
}

// stopRenewal stops the renewal of all locks when one of them is lost, so all of them are
// free within their TTL, even without a Release. It does not release them: the user's code
// may still run, and the next holder would run beside it. It may have sent something to each of the
// resources, so the lock-delay counts for each lock.
func (mls *multiLeaseState) stopRenewal(cause error) {
	if !errors.Is(cause, ErrLost) {
		return
	}
	for _, part := range mls.parts {
		h := part.state.hold
		h.mu.Lock()
		h.noNewLease = true
		if h.lock.delay > 0 {
			h.more().late = true
		}
		h.mu.Unlock()
		h.lock.client.renewer.StopRenewal(&h.Item)
	}
}

// overdue ends the lease if the trust deadline of one of the locks has passed.
func (mls *multiLeaseState) overdue() {
	for _, part := range mls.parts {
		_ = part.Err()
	}
}

func (l *MultiLease) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	return l.state.bind(ctx, l.state.outer, l.state)
}

// reportLeak is called by the collector when the program has dropped the handle.
func (l *MultiLease) reportLeak() {
	dropped := make([]*leaseState, len(l.state.parts))
	for i, part := range l.state.parts {
		dropped[i] = part.state
	}
	reportLeak(l.state.taken, dropped...)
}

// Names returns the names of the locks, in the order of their keys.
func (l *MultiLease) Names() []string {
	names := make([]string, len(l.state.parts))
	for i, part := range l.state.parts {
		names[i] = part.Name()
	}
	return names
}

// Token returns the fencing token of one of the locks, like [Lease.Token]. It is 0 if the
// lease has no lock of that name. Tokens of different locks cannot be compared.
func (l *MultiLease) Token(name string) uint64 {
	for _, part := range l.state.parts {
		if part.Name() == name {
			return part.Token()
		}
	}
	return 0
}

// Context returns a context that ends when any of the locks is lost or the lease is
// released. [context.Cause] returns the reason: a [*LostError] that names the lock,
// [ErrReleased] or [ErrClosed]. Otherwise it is like [Lease.Context].
func (l *MultiLease) Context() context.Context {
	mls := l.state
	return mls.context(mls.call, mls.outer, mls)
}

// Err returns nil while all of the locks are held. After that it returns why the lease
// ended.
func (l *MultiLease) Err() error {
	mls := l.state
	mls.mu.Lock()
	cause := mls.cause
	mls.mu.Unlock()
	for _, part := range mls.parts {
		if cause == nil {
			cause = part.Err()
		}
	}
	return cause
}

// Remaining returns the time until the first trust deadline of the locks, if no further
// renewal succeeds. It is 0 when the lease has ended.
func (l *MultiLease) Remaining() time.Duration {
	if l.Err() != nil {
		return 0
	}
	least := time.Duration(1<<63 - 1)
	for _, part := range l.state.parts {
		least = min(least, part.Remaining())
	}
	return least
}

// Extend makes all of the locks last for ttl from now, as [Lease.Extend] does for one.
// After an error that is not an [ErrNotHeld], some locks may be extended and others not.
// The lease is then held until the first of them ends.
func (l *MultiLease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := l.Err(); err != nil {
		return errorf("%w: %w", ErrNotHeld, err)
	}
	return each(l.state.parts, func(part *Lease) error { return part.Extend(ctx, ttl) })
}

// Shorten makes all of the locks last for ttl from now at most, as [Lease.Shorten] does for
// one. After an error, all of them are trusted for ttl at most, and some may be held for longer
// on the server.
func (l *MultiLease) Shorten(ctx context.Context, ttl time.Duration) error {
	if err := l.Err(); err != nil {
		return errorf("%w: %w", ErrNotHeld, err)
	}
	return each(l.state.parts, func(part *Lease) error { return part.Shorten(ctx, ttl) })
}

// Release releases all of the locks. The lease's context ends before the client sends
// anything. Release works although ctx has ended, as [Lease.Release] does. If the server
// did not answer for a lock, the client repeats that release in the background, and the
// lock is free within its TTL.
//
// The error is an [ErrNotHeld] that names the lock if one was lost before. The other locks
// are released all the same. It is an [ErrReleased] if the lease was released before, and
// an [ErrUnknownOutcome] if the server did not answer for a lock.
func (l *MultiLease) Release(ctx context.Context) error { return l.release(ctx, releaseMode{}) }

func (l *MultiLease) release(ctx context.Context, how releaseMode) error {
	if ctx == nil {
		return errNoContext
	}
	mls := l.state
	if mls.parts[0].state.hold.lock.delay > 0 {
		mls.overdue() // this call may come before the timer that reports the loss of one, and must free none
	}
	first, cause, _ := mls.markReleased()
	if !first {
		return ErrReleased
	}
	if mls.parts[0].state.mayLeak() {
		runtime.SetFinalizer(l, nil)
	}
	err := releaseLeases(ctx, mls.parts, how)
	if errors.Is(cause, ErrClosed) {
		return ErrClosed
	}
	return err
}

// releaseLeases releases leases, all at the same time, and joins the errors.
func releaseLeases(ctx context.Context, leases []*Lease, how releaseMode) error {
	return each(leases, func(l *Lease) error { return l.release(ctx, how) })
}

// each calls do for every lease, for all at the same time: a silent server must not make them wait for each other.
func each(leases []*Lease, do func(*Lease) error) error {
	if len(leases) == 1 {
		return do(leases[0])
	}
	errs := make([]error, len(leases))
	inParallel(len(leases), leases, func(i int, l *Lease) { errs[i] = do(l) })
	return errors.Join(errs...)
}
