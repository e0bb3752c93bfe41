package redsync

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// Connect returns a client on redsync's keys: its Mutex is the mutex of that name. For redsync's quorum, give
// NewStore a store of each server, as redsync.New has a pool of each.
func Connect(rdb redis.UniversalClient) (*holdfast.Client, error) {
	return holdfast.New(redsync.NewStore(goredis.New(rdb)), holdfast.Config{})
}

// Shared charges an order under the lock of Before. Instances of Before and of Shared exclude each other.
// The lease is renewed, and if it is lost, the context of charge ends first.
func Shared(ctx context.Context, old *holdfast.Client, order string, charge func(context.Context) error) error {
	return old.Mutex("order:"+order, holdfast.TTL(30*time.Second)).Do(ctx, charge)
}
