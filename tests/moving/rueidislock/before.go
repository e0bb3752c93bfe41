package rueidislock

import (
	"context"

	"github.com/redis/rueidis/rueidislock"
)

// Before charges an order under rueidislock's lock. The locker renews it.
func Before(ctx context.Context, locker rueidislock.Locker, order string, charge func(context.Context) error) error {
	ctx, cancel, err := locker.WithContext(ctx, "order:"+order)
	if err != nil {
		return err
	}
	defer cancel() // cannot say whether the lock was still held
	return charge(ctx)
}
