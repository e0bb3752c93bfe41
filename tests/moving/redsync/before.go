package redsync

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
)

// Before charges an order under redsync's lock.
func Before(ctx context.Context, rs *redsync.Redsync, order string, charge func(context.Context) error) error {
	mutex := rs.NewMutex("order:"+order,
		redsync.WithExpiry(30*time.Second), // nothing renews it
		redsync.WithTries(600),             // 32 otherwise, which is five seconds or so
	)
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	err := charge(ctx) // hears nothing of a lock that expires
	_, unlocked := mutex.UnlockContext(context.WithoutCancel(ctx))
	return errors.Join(err, unlocked)
}
