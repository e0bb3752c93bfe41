package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/compat/redislock"
)

// Shared is Before with another import, and with what that adds: the lock is renewed, and charge
// hears of its loss. Instances of Before and of Shared exclude each other.
func Shared(ctx context.Context, locks *redislock.Client, order string, charge func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	lock, err := locks.Obtain(ctx, "order:"+order, 30*time.Second, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(50 * time.Millisecond),
		Renew:         true,
	})
	if err != nil {
		return err
	}
	err = charge(lock.Context()) // ends before another instance can get the lock
	return errors.Join(err, lock.Release(ctx))
}
