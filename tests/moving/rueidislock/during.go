package rueidislock

import (
	"context"

	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast"
)

// During holds both locks, for as long as some instances run Before and others After. All that
// hold both acquire the old one first, so that they cannot wait for each other.
func During(ctx context.Context, locker rueidislock.Locker, client *holdfast.Client, order string,
	charge func(context.Context) error,
) error {
	return Before(ctx, locker, order, func(ctx context.Context) error {
		return After(ctx, client, order, charge)
	})
}
