package setnx

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// BeforeGetset waits if isBlock, for blockWaitingSeconds at most. The value is the time at which the lock ends, by
// the client's clock.
func BeforeGetset(ctx context.Context, rdb *redis.Client, key string, isBlock bool, blockWaitingSeconds int,
	work func(context.Context) error,
) (locked bool, err error) {
	until := time.Now().Add(time.Duration(blockWaitingSeconds) * time.Second)
	for {
		now := time.Now().UnixMilli()
		mine := strconv.FormatInt(now+30_000, 10)
		if locked, err = rdb.SetNX(ctx, key, mine, 0).Result(); err != nil {
			return false, err
		}
		found, missing := rdb.Get(ctx, key).Int64()
		if !locked && missing == nil && found < now { // by this machine's clock, it has ended
			before, _ := rdb.Do(ctx, "GETSET", key, mine).Text()
			locked = before == strconv.FormatInt(found, 10)
		}
		if locked {
			defer rdb.Del(ctx, key)
			return true, work(ctx)
		}
		if !isBlock || time.Now().After(until) {
			return false, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// AfterGetset waits in order of arrival. MaxWait(0) tries once. If the lock stays held, the error is an ErrHeld.
func AfterGetset(ctx context.Context, client *holdfast.Client, name string, isBlock bool, blockWaitingSeconds int,
	work func(context.Context) error,
) error {
	wait := time.Duration(0)
	if isBlock {
		wait = time.Duration(blockWaitingSeconds) * time.Second
	}
	return client.Mutex(name, holdfast.MaxWait(wait)).Do(ctx, work)
}
