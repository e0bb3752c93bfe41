package redsync

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/compat/redsync"
)

// Shared is Before with another import, and with what that adds: the lock is renewed, and charge
// hears of its loss. Instances of Before and of Shared exclude each other.
func Shared(ctx context.Context, rs *redsync.Redsync, order string, charge func(context.Context) error) error {
	mutex := rs.NewMutex("order:"+order,
		redsync.WithExpiry(30*time.Second),
		redsync.WithTries(600),
		redsync.WithRenewal(),
	)
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	err := charge(mutex.Context()) // ends before another instance can get the lock
	_, unlocked := mutex.UnlockContext(ctx)
	return errors.Join(err, unlocked)
}
