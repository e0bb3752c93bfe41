package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
)

// Before charges an order under redislock's lock.
func Before(ctx context.Context, locks *redislock.Client, order string, charge func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // without a deadline, Obtain waits for its TTL at most
	defer cancel()
	lock, err := locks.Obtain(ctx, "order:"+order, 30*time.Second, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(50 * time.Millisecond),
	})
	if err != nil {
		return err
	}
	err = charge(ctx) // nothing renews the lock
	return errors.Join(err, lock.Release(context.WithoutCancel(ctx)))
}
