// MultiLease: one lease of several locks.

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// MultiLease is one acquisition of several locks. It ends as a whole: if any of the locks
// is lost, the lease is lost. It is safe for use by many goroutines. If a program drops a
// MultiLease without a release, the library reports it like a [Lease], and its TTL ends it.
type MultiLease struct {
	state *multiLeaseState
	leak  runtime.Cleanup
}

// multiLeaseState is shared by a MultiLease, its context and its clean-up. It must not
// point to the MultiLease.
type multiLeaseState struct {
	client *Client
	parts  []*Lease // by key
	ctx    context.Context
	taken  uintptr // where the caller acquired it; 0 if there is no logger

	// mu guards the fields below. The leases of the parts call end under their own mutex.
	// So code that holds mu must not call them.
	mu       sync.Mutex
	cause    error // why it ended; nil while held
	released bool
	cancel   []context.CancelCauseFunc
}

// newMultiLease makes one lease of several. parent belongs to all of the leases. ctx is the
// context of the lock call.
func newMultiLease(ctx, parent context.Context, c *Client, parts []*Lease) *MultiLease {
	b := &multiLeaseState{client: c, parts: parts}
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	b.cancel = append(b.cancel, cancel)
	b.ctx = &leaseContext{inner, leaseOf(parent), together(parts)}
	for _, part := range parts {
		t := part.state
		t.mu.Lock()
		t.onEnd(b.end) // also if it has ended already
		t.mu.Unlock()
	}
	l := &MultiLease{state: b}
	if !c.fake && !parts[0].state.hold.lock.noRenewal {
		l.leak = runtime.AddCleanup(l, reportMultiLeak, b)
	}
	return l
}

// end ends the lease for its user, because one part has ended or the caller has released
// it.
//
// After a loss, end does not release the other locks. The user's code may still run, and
// the next holder would run beside it. end only stops their renewal. So all of them are
// free within their TTL, even without a Release.
func (b *multiLeaseState) end(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cause != nil {
		return
	}
	b.cause = cause
	for _, cancel := range b.cancel {
		cancel(cause)
	}
	b.cancel = nil
	if errors.Is(cause, ErrLost) {
		for _, part := range b.parts {
			h := part.state.hold
			h.mu.Lock()
			h.last = true
			h.mu.Unlock()
			b.client.renewer.StopRenewal(&h.Item)
		}
	}
}

// release ends the lease for its user, as leaseState.release does.
func (b *multiLeaseState) release() (first bool, cause error) {
	b.end(ErrReleased)
	b.mu.Lock()
	defer b.mu.Unlock()
	first, b.released = !b.released, true
	return first, b.cause
}

// bind makes a child of ctx that also ends when the lease ends.
func (l *MultiLease) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	b := l.state
	inner, cancel := context.WithCancelCause(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cause != nil {
		cancel(b.cause)
	} else {
		b.cancel = append(b.cancel, cancel)
	}
	return &leaseContext{inner, leaseOf(b.ctx), together(b.parts)}, func() { cancel(ErrReleased) }
}

// Names returns the names of the locks, in the order in which they are acquired.
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
func (l *MultiLease) Context() context.Context { return l.state.ctx }

// Err returns nil while all of the locks are held. After that it returns why the lease
// ended.
func (l *MultiLease) Err() error {
	b := l.state
	b.mu.Lock()
	cause := b.cause
	b.mu.Unlock()
	for _, part := range b.parts {
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

// Deadline returns the current trust deadline on the wall clock, for people and logs. Code
// must decide by [MultiLease.Remaining].
func (l *MultiLease) Deadline() time.Time { return time.Now().Add(l.Remaining()) }

// Extend makes all of the locks last for ttl from now, as [Lease.Extend] does for one.
// After an error that is not an [ErrNotHeld], some locks may be extended and others not.
// The lease is then held until the first of them ends.
func (l *MultiLease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	return each(l.state.parts, func(part *Lease) error { return part.Extend(ctx, ttl) })
}

// Release releases all of the locks. The lease's context ends before the client sends
// anything. Release works although ctx has ended, as [Lease.Release] does. If the server
// did not answer for a lock, the client repeats that release in the background, and the
// lock is free within its TTL.
//
// The error is an [ErrNotHeld] that names the lock if one was lost before. The other locks
// are released all the same. It is an [ErrReleased] if the lease was released before, and
// an [ErrUnknownOutcome] if the server did not answer for a lock.
func (l *MultiLease) Release(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	b := l.state
	first, cause := b.release()
	if !first {
		return ErrReleased
	}
	l.leak.Stop()
	err := giveBack(ctx, b.parts)
	if errors.Is(cause, ErrClosed) {
		return ErrClosed
	}
	return err
}

// giveBack releases leases, several at a time, and joins the errors.
func giveBack(ctx context.Context, leases []*Lease) error {
	return each(leases, func(l *Lease) error { return l.Release(ctx) })
}

// releasers bounds how many locks of one lease are released at once.
const releasers = 16

// each calls do for every lease, several at a time.
func each(leases []*Lease, do func(*Lease) error) error {
	if len(leases) == 1 {
		return do(leases[0])
	}
	var (
		all  sync.WaitGroup
		next = make(chan int)
		errs = make([]error, len(leases))
	)
	for range min(releasers, len(leases)) {
		all.Go(func() {
			for i := range next {
				errs[i] = do(leases[i])
			}
		})
	}
	for i := range leases {
		next <- i
	}
	close(next)
	all.Wait()
	return errors.Join(errs...)
}

// reportMultiLeak reports a lease of several locks that the program has dropped.
func reportMultiLeak(b *multiLeaseState) {
	b.mu.Lock()
	ended := b.released || errors.Is(b.cause, ErrClosed)
	b.mu.Unlock()
	if ended {
		return
	}
	c, at := b.client, location(b.taken)
	names := make([]string, len(b.parts))
	for i, part := range b.parts {
		names[i] = part.Name()
	}
	c.events.tell(news{log: func(log *slog.Logger) {
		log.Error("holdfast: a lease of several locks was dropped without Release: it is no longer renewed, and the "+
			"locks stay held until its TTL ends", "locks", names, "taken at", at)
	}})
	for _, part := range b.parts {
		if t := part.state; t.drop() {
			t.hold.stopIfDropped()
			c.events.tell(news{hold: t.hold, lease: t, event: t.ending(EventLeak, false, nil)})
		}
	}
}
