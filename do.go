// Do of every kind: acquire, run, release.

package holdfast

import (
	"context"
	"errors"
)

// do runs f under the lock.
func (lk *lock) do(ctx context.Context, f func(ctx context.Context) error) error {
	if err := runnable(ctx, f == nil); err != nil {
		return err
	}
	l, err := lk.acquire(ctx, false)
	if err != nil {
		return err
	}
	return do(ctx, l, f)
}

// tryDo runs f under the lock if it is free.
func (lk *lock) tryDo(ctx context.Context, f func(ctx context.Context) error) (ran bool, err error) {
	if err := runnable(ctx, f == nil); err != nil {
		return false, err
	}
	l, err := lk.acquire(ctx, true)
	if err != nil {
		return false, skipped(err)
	}
	return true, do(ctx, l, f)
}

// skipped drops the error of a try if the server, or this process, said that the lock is held. Any other error stays.
func skipped(err error) error {
	var held *HeldError
	if errors.As(err, &held) && held.Err == nil {
		return nil
	}
	return err
}

// boundLease is a lease under which do runs a function.
type boundLease interface {
	bind(ctx context.Context) (context.Context, context.CancelFunc)
	Release(ctx context.Context) error
}

// do runs f under a lease, and releases the lease when f has returned or panicked.
func do(ctx context.Context, l boundLease, f func(ctx context.Context) error) (err error) {
	inner, cancel := l.bind(ctx)
	defer func() {
		cancel()
		err = joinErrors(err, l.Release(ctx))
	}()
	return f(inner)
}

// runnable refuses a call of Do or Loop without a context or without a function.
func runnable(ctx context.Context, none bool) error {
	switch {
	case ctx == nil:
		return errNoContext
	case none:
		return errNoFunction
	}
	return nil
}

// joinErrors joins the function's error with the error of its lock. If there is only one,
// joinErrors returns it unchanged.
func joinErrors(err, lock error) error {
	switch {
	case lock == nil:
		return err
	case err == nil:
		return lock
	}
	return errors.Join(err, lock)
}
