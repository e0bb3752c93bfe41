package redsync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Calls is code in the shape of redsync's. The comments name the calls that it replaces.
func Calls(ctx context.Context, client *holdfast.Client, charge func(context.Context) error) error {
	mutex := client.Mutex("order/42", // NewMutex
		holdfast.TTL(30*time.Second),             // WithExpiry
		holdfast.Tries(10, 150*time.Millisecond), // WithTries, WithRetryDelay; without it, Lock waits in the queue
		holdfast.NoRenewal(),                     // without it, the lease is renewed
	)
	lease, err := mutex.Lock(ctx) // LockContext
	if held := (*holdfast.HeldError)(nil); errors.As(err, &held) {
		return fmt.Errorf("%s has order 42: %w", held.HeldBy, err) // ErrTaken
	} else if err != nil {
		return err // ErrFailed, RedisError
	}
	err = charge(lease.Context()) // ends at Until, or when the lock is lost
	if err == nil {
		err = lease.Extend(ctx, 30*time.Second) // ExtendContext
	}
	released := lease.Release(ctx) // UnlockContext, also after the end of ctx
	if errors.Is(released, holdfast.ErrNotHeld) {
		released = fmt.Errorf("order 42 may be charged twice: %w", released) // ErrLockAlreadyExpired
	}
	return errors.Join(err, released)
}
