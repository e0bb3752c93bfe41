package redisson

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// Connect returns a client on Redisson's keys: its Mutex is the RLock of that name.
func Connect(rdb redis.UniversalClient) (*holdfast.Client, error) {
	return holdfast.New(redisson.New(goredis.New(rdb), redisson.Config{}), holdfast.Config{})
}

// Shared charges an order under the lock of Before, which a Java service may hold. Each side is woken by
// the release of the other.
func Shared(ctx context.Context, client *holdfast.Client, order string, charge func(context.Context) error) error {
	return client.Mutex("order:"+order, holdfast.MaxWait(time.Minute)).Do(ctx, charge)
}
