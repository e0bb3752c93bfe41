// MultiLease: one lease over several.

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

// MultiLease is one acquisition of several locks. It ends as a whole: when any
// of the locks is lost, the lease is lost. It is safe for use by many
// goroutines. Like a [Lease] it is reported if it is garbage collected, and its TTL ends it.
type MultiLease struct {
	state *multiLeaseState
	leak  runtime.Cleanup
}

// multiLeaseState is what a MultiLease, its context and its clean-up share. It must not
// point to the MultiLease.
type multiLeaseState struct {
	client *Client
	parts  []*Lease // by key
	ctx    context.Context
	taken  uintptr // where the caller took it; 0 if nobody is told

	// mu guards the fields below. The leases of the parts call end with their
	// own mutex held, so nothing of theirs is asked under it.
	mu       sync.Mutex
	cause    error // why it ended; nil while held
	released bool
	cancel   []context.CancelCauseFunc
}

// newMultiLease makes one lease of several. parent knows all of them, ctx is what the
// caller gave.
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
		l.leak = runtime.AddCleanup(l, leakedBundle, b)
	}
	return l
}

// end ends the lease for its user, because of one part or for good.
//
// After a loss the other locks are not given away at once: the user's code may
// still run, and the next holder would meet it. But they are not renewed any
// more, so that all are free within their TTL although Release may never come.
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

// release ends the lease for its user, for good, as leaseState.release does.
func (b *multiLeaseState) release() (first bool, cause error) {
	b.end(ErrReleased)
	b.mu.Lock()
	defer b.mu.Unlock()
	first, b.released = !b.released, true
	return first, b.cause
}

// bind makes a child of ctx that is also done when the lease ends.
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

// Names are the names of the locks, in the order in which they are taken.
func (l *MultiLease) Names() []string {
	names := make([]string, len(l.state.parts))
	for i, part := range l.state.parts {
		names[i] = part.Name()
	}
	return names
}

// Token is the fencing token of one of the locks, as [Lease.Token] has it; 0 if
// the name is none of theirs. Tokens of different locks are not to be compared.
func (l *MultiLease) Token(name string) uint64 {
	for _, part := range l.state.parts {
		if part.Name() == name {
			return part.Token()
		}
	}
	return 0
}

// Context is done when any of the locks is lost or the lease is released;
// [context.Cause] says which: a [*LostError] that names the lock,
// [ErrReleased] or [ErrClosed]. Otherwise it is like [Lease.Context].
func (l *MultiLease) Context() context.Context { return l.state.ctx }

// Err is nil while all of the locks are held, and then why the lease ended.
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

// Remaining is for how long all of the locks are still to be trusted if no
// further renewal succeeds: the least of theirs; 0 when the lease has ended.
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

// Deadline is the present trust deadline on the wall clock, for people and
// logs; decide by [MultiLease.Remaining].
func (l *MultiLease) Deadline() time.Time { return time.Now().Add(l.Remaining()) }

// Extend makes all of the locks last for ttl from now, as [Lease.Extend] does
// for one. After an error that is no [ErrNotHeld] some of them may have been
// extended and others not; the lease is held until the first of them ends.
func (l *MultiLease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	return each(l.state.parts, func(part *Lease) error { return part.Extend(ctx, ttl) })
}

// Release gives all of the locks up. The lease's context is done before
// anything is sent. It works although ctx has ended, as [Lease.Release] does.
//
// The error is an [ErrNotHeld] that names the lock if one had been lost before
// (the others are released all the same), an [ErrReleased] if the lease was
// released before, and an [ErrUnknownOutcome] if the server did not answer for
// one: that is repeated in the background, and frees itself within its TTL.
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

// giveBack releases leases, several at a time, and joins what went wrong.
func giveBack(ctx context.Context, leases []*Lease) error {
	return each(leases, func(l *Lease) error { return l.Release(ctx) })
}

// releasers bounds how many of the locks of one lease are released at once.
const releasers = 16

// each does the same with several leases, some at a time: they are few enough
// that their requests share a moment on the wire.
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

// leakedBundle is leaked for a lease of several locks.
func leakedBundle(b *multiLeaseState) {
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
		log.Error("holdfast: a lease of several locks was dropped without Release: it is renewed no more, and the "+
			"locks stay taken until its TTL ends it", "locks", names, "taken at", at)
	}})
	for _, part := range b.parts {
		if t := part.state; t.drop() {
			t.hold.stopIfDropped()
			c.events.tell(news{hold: t.hold, lease: t, event: t.ending(EventLeak, false, nil)})
		}
	}
}
