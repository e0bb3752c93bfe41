package setnx

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// BeforeExpire is tryLock(lockSeconds, tryIntervalMillis, maxTryCount) with SETNX and EXPIRE.
func BeforeExpire(ctx context.Context, rdb *redis.Client, key string, lockSeconds, tryIntervalMillis, maxTryCount int,
	work func(context.Context) error,
) (locked bool, err error) {
	for try := 1; ; try++ {
		if locked, err = rdb.SetNX(ctx, key, 1, 0).Result(); locked || err != nil {
			break
		}
		if try == maxTryCount {
			return false, nil
		}
		time.Sleep(time.Duration(tryIntervalMillis) * time.Millisecond)
	}
	if err != nil {
		return false, err
	}
	rdb.Expire(ctx, key, time.Duration(lockSeconds)*time.Second) // a crash before this line locks for ever
	defer rdb.Del(ctx, key)                                      // if it has expired, this deletes another's lock
	return true, work(ctx)
}

// AfterExpire has the same parameters. If the lock stays held, the error is an ErrHeld.
func AfterExpire(ctx context.Context, client *holdfast.Client, name string,
	lockSeconds, tryIntervalMillis, maxTryCount int, work func(context.Context) error,
) error {
	mutex := client.Mutex(name,
		holdfast.TTL(time.Duration(lockSeconds)*time.Second),
		holdfast.Tries(maxTryCount, time.Duration(tryIntervalMillis)*time.Millisecond))
	return mutex.Do(ctx, work)
}
