package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Calls is code in the shape of redislock's. The comments name the calls that it replaces.
func Calls(ctx context.Context, client *holdfast.Client, charge func(context.Context) error) error {
	mutex := client.Mutex("order/42", // the key of Obtain
		holdfast.TTL(30*time.Second),                          // the TTL of Obtain
		holdfast.Tries(11, 100*time.Millisecond),              // LimitRetry(LinearBackoff(…), 10)
		holdfast.Tags(map[string]string{"server": "billing"}), // Metadata
		holdfast.NoRenewal(),                                  // without it, the lease is renewed
	)
	lease, err := mutex.Lock(ctx) // Obtain
	if held := (*holdfast.HeldError)(nil); errors.As(err, &held) {
		return fmt.Errorf("%s has order 42: %w", held.HeldBy, err) // ErrNotObtained
	} else if err != nil {
		return err
	}
	err = charge(lease.Context()) // ends when TTL would be 0, or when the lock is lost
	if err == nil {
		err = lease.Extend(ctx, 30*time.Second) // Refresh
	}
	released := lease.Release(ctx) // Release, also after the end of ctx
	if errors.Is(released, holdfast.ErrNotHeld) {
		released = fmt.Errorf("order 42 may be charged twice: %w", released) // ErrLockNotHeld
	}
	return errors.Join(err, released)
}

// Several charges two orders under both locks. It replaces ObtainMulti.
func Several(ctx context.Context, client *holdfast.Client, charge func(context.Context) error) error {
	return client.MultiMutex([]string{"order/42", "order/43"}).Do(ctx, charge)
}
