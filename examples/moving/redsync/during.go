package redsync

import (
	"context"

	"github.com/go-redsync/redsync/v4"

	"github.com/holdfast-go/holdfast"
)

// During holds both locks, for as long as some instances run Before and others After. All that
// hold both acquire the old one first, so that they cannot wait for each other.
func During(ctx context.Context, rs *redsync.Redsync, client *holdfast.Client, order string,
	charge func(context.Context) error,
) error {
	return Before(ctx, rs, order, func(ctx context.Context) error {
		return After(ctx, client, order, charge)
	})
}
