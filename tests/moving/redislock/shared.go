package redislock

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// Connect returns a client on redislock's keys: its Mutex is the lock of that key.
func Connect(rdb redis.UniversalClient) (*holdfast.Client, error) {
	return holdfast.New(redislock.NewStore(goredis.New(rdb)), holdfast.Config{})
}

// Shared charges an order under the lock of Before. Instances of Before and of Shared exclude each other.
// The lease is renewed, and if it is lost, the context of charge ends first.
func Shared(ctx context.Context, old *holdfast.Client, order string, charge func(context.Context) error) error {
	return old.Mutex("order:"+order, holdfast.MaxWait(time.Minute)).Do(ctx, charge)
}
