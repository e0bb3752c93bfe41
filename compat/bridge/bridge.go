// Package bridge holds a lock in an old form and in the native one at once, while a fleet moves from
// another library to Holdfast. Programs with the old lock, programs with both, and programs with the
// native one exclude each other in pairs, so the move takes three deploys and no pause:
//
//	old, _ := holdfast.New(redisson.New(s, redisson.Config{}), holdfast.Config{}) // the old form
//	native, _ := holdfast.New(s, holdfast.Config{})
//	stage, err := bridge.ParseStage(os.Getenv("LOCK_STAGE")) // old, both, native
//	mutex := bridge.New(stage, old.Mutex("invoice/42"), native.Mutex("invoice/42"))
//
// docs/moving says how to roll it out.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Stage says which forms a program holds. All programs must be at one stage or at two that are next to
// each other: Old and Native do not exclude each other.
type Stage uint8

// The stages of a move, in their order. To go back, deploy them in the opposite order.
const (
	Old    Stage = iota // the old form only, as the programs before the move
	Both                // both forms
	Native              // the native form only, after the move
)

var stages = []string{"old", "both", "native"}

func (s Stage) String() string {
	if int(s) < len(stages) {
		return stages[s]
	}
	return fmt.Sprintf("Stage(%d)", uint8(s))
}

// ParseStage reads a stage from a configuration: old, both or native. The error is an
// [holdfast.ErrInvalid]. There is no default, because a wrong stage lets two programs in.
func ParseStage(text string) (Stage, error) {
	for i, name := range stages {
		if name == text {
			return Stage(i), nil
		}
	}
	return 0, fmt.Errorf("%w: bridge: the stage %q is not one of old, both, native", holdfast.ErrInvalid, text)
}

// Mutex is a lock in one form or in two. Like a [holdfast.Mutex], it has no state.
type Mutex struct {
	halves []*holdfast.Mutex // in the order in which everybody acquires them: the old one first
	err    error
}

// New names a lock. old is of a client whose store speaks the old form, native of a client with an
// ordinary store. A stage that needs only one of them ignores the other, which may be nil. It does no
// I/O. If an argument cannot work, the first use returns an [holdfast.ErrInvalid].
//
// The two may have different options, but give them one TTL: the lease is as short as the shorter one.
// A limit of [holdfast.MaxWait] is for each of the two.
func New(stage Stage, old, native *holdfast.Mutex) *Mutex {
	var halves []*holdfast.Mutex
	switch stage {
	case Old:
		halves = []*holdfast.Mutex{old}
	case Both:
		halves = []*holdfast.Mutex{old, native}
	case Native:
		halves = []*holdfast.Mutex{native}
	default:
		return &Mutex{err: fmt.Errorf("%w: bridge: %v", holdfast.ErrInvalid, stage)}
	}
	for _, m := range halves {
		if m == nil {
			err := fmt.Errorf("%w: bridge: a mutex that the stage %v needs is nil", holdfast.ErrInvalid, stage)
			return &Mutex{err: err}
		}
	}
	return &Mutex{halves: halves}
}

// Lock acquires the lock. It acquires the old form first, and waits for the native one while it holds
// the old one. So does every other program at the stage Both, and so no two of them can wait for each
// other. If the old form is lost during that wait, Lock begins again.
//
// After an error the caller holds nothing. If a server may have granted a form, the library releases it
// in the background. The errors are those of [holdfast.Mutex.Lock]. If the process dies at any moment,
// each form is free within its TTL.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, (*holdfast.Mutex).Lock)
}

// TryLock acquires the lock if both forms are free. It does not wait. The errors are those of
// [holdfast.Mutex.TryLock].
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, (*holdfast.Mutex).TryLock)
}

type acquireFunc func(*holdfast.Mutex, context.Context) (*holdfast.Lease, error)

func (m *Mutex) acquire(ctx context.Context, acquire acquireFunc) (*Lease, error) {
	switch {
	case m.err != nil:
		return nil, m.err
	case ctx == nil:
		return nil, fmt.Errorf("%w: bridge: the context is nil", holdfast.ErrInvalid)
	}
	for {
		first, err := acquire(m.halves[0], ctx)
		if err != nil {
			return nil, err
		}
		if len(m.halves) == 1 {
			return newLease(first), nil
		}
		second, again, err := under(ctx, first, m.halves[1], acquire)
		if err == nil {
			return newLease(first, second), nil
		}
		// The work has not begun. If the release gets no answer, the client repeats it.
		_ = first.Release(ctx)
		if !again {
			return nil, err
		}
	}
}

// under acquires the native form under the lease of the old one, until ctx ends. If the old one is lost
// first, again is true.
func under(
	ctx context.Context, first *holdfast.Lease, native *holdfast.Mutex, acquire acquireFunc,
) (second *holdfast.Lease, again bool, err error) {
	both, cancel := context.WithCancel(first.Context()) // it has the values of ctx
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	second, err = acquire(native, &waitContext{Context: first.Context(), both: both, caller: ctx})
	if err == nil && first.Err() == nil {
		return second, false, nil
	}
	if err == nil {
		_ = second.Release(ctx)
	}
	end, gone := ctx.Err(), first.Err()
	switch {
	case gone == nil:
		return nil, false, err
	case end != nil:
		return nil, false, fmt.Errorf("bridge: lock %q: %w", native.Name(), end)
	case errors.Is(gone, holdfast.ErrLost):
		return nil, true, gone
	}
	return nil, false, gone // its client is closed
}

// waitContext ends with the lease of the old form or with the caller's context. If the caller's ends it,
// its error is that one's, so the native form says itself why the wait failed. The embedded context is not the one
// that ends with both: a child would be cancelled by that one directly, and would not ask for this error.
type waitContext struct {
	context.Context                 // of the lease
	both            context.Context // ends with either
	caller          context.Context
}

// Done returns a channel that is closed when either context has ended.
func (c *waitContext) Done() <-chan struct{} { return c.both.Done() }

// Deadline returns that of the caller's context.
func (c *waitContext) Deadline() (time.Time, bool) { return c.caller.Deadline() }

// Err returns an error if either context has ended.
func (c *waitContext) Err() error {
	err := c.both.Err()
	if end := c.caller.Err(); err != nil && end != nil {
		return end
	}
	return err
}

// Do runs f while it holds the lock, as [holdfast.Mutex.Do] does with one form. The context of f ends
// with ctx, and when either form is lost. If nothing went wrong with the lease, the error is f's own.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) (err error) {
	if f == nil {
		return fmt.Errorf("%w: bridge: the function is nil", holdfast.ErrInvalid)
	}
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { // also after a panic
		if failed := lease.Release(ctx); failed != nil {
			err = errors.Join(err, failed)
		}
	}()
	stop := context.AfterFunc(ctx, func() { lease.own.cancel(context.Cause(ctx)) })
	defer stop()
	return f(lease.Context())
}

// Lease is one acquisition, of one form or of two. It ends as a whole: if either form is lost, the lease
// is lost. It is safe for use by many goroutines.
type Lease struct {
	halves []*holdfast.Lease // in the order of their acquisition
	own    *leaseContext
}

func newLease(halves ...*holdfast.Lease) *Lease {
	l := &Lease{halves: halves, own: &leaseContext{}}
	for _, half := range halves {
		l.own.halves = append(l.own.halves, half.Context())
	}
	// The last context belongs to all of the leases, because it was acquired under the others.
	inner, cancel := context.WithCancelCause(l.own.halves[len(halves)-1])
	l.own.Context, l.own.cancel = inner, cancel
	for _, half := range l.own.halves[:len(halves)-1] {
		context.AfterFunc(half, func() { cancel(context.Cause(half)) })
	}
	return l
}

// leaseContext ends with the first of the halves.
type leaseContext struct {
	context.Context
	cancel context.CancelCauseFunc
	halves []context.Context
}

// check ends the context if a half has ended. A half knows its end from its trust deadline on, also if
// no timer has run yet.
func (c *leaseContext) check() {
	for _, half := range c.halves {
		if half.Err() != nil {
			c.cancel(context.Cause(half))
		}
	}
}

// Done returns a closed channel if the lease has ended.
func (c *leaseContext) Done() <-chan struct{} {
	c.check()
	return c.Context.Done()
}

// Err returns an error if the lease has ended.
func (c *leaseContext) Err() error {
	c.check()
	return c.Context.Err()
}

// Context returns a context that ends when either form is lost, or when the lease is released, as that
// of [holdfast.Lease.Context]. context.Cause returns the reason. [holdfast.LeaseOf] of it is the lease
// of the native form, if there is one.
func (l *Lease) Context() context.Context { return l.own }

// Err returns nil while all forms are held. After that it returns why they are not: a loss of either
// form stays the reason after the release.
func (l *Lease) Err() error {
	var ended error
	for _, half := range l.halves {
		if err := half.Err(); err != nil && (ended == nil || errors.Is(ended, holdfast.ErrReleased)) {
			ended = err
		}
	}
	return ended
}

// Token returns the fencing token of the native form. At the stage Old it is that of the old form, and 0
// if that has none. A program without the native form shows no token, or one of another kind: check
// tokens at a resource when the stage Old is over everywhere.
func (l *Lease) Token() uint64 { return l.halves[len(l.halves)-1].Token() }

// Remaining returns the time until the first trust deadline, if no further renewal succeeds. It is 0
// when the lease has ended.
func (l *Lease) Remaining() time.Duration {
	left := l.halves[0].Remaining()
	for _, half := range l.halves[1:] {
		left = min(left, half.Remaining())
	}
	return left
}

// Extend makes all forms last for ttl from now, as [holdfast.Lease.Extend] does with one. After an error
// that is not an [holdfast.ErrNotHeld], some may be extended and others not. The lease is held until the
// first of them ends.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	var all []error
	for _, half := range l.halves {
		all = append(all, half.Extend(ctx, ttl))
	}
	return errors.Join(all...)
}

// Release releases the native form, then the old one. The lease's context ends before anything is sent.
// Release works although ctx has ended, and tries both forms whatever the error of the first is. If a
// server did not answer, the client repeats that release in the background, and the form is free within
// its TTL. The errors are those of [holdfast.Lease.Release], joined.
func (l *Lease) Release(ctx context.Context) error {
	l.own.check() // a loss of before stays the cause
	l.own.cancel(holdfast.ErrReleased)
	var all []error
	for _, half := range slices.Backward(l.halves) {
		all = append(all, half.Release(ctx))
	}
	return errors.Join(all...)
}
