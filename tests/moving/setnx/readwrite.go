package setnx

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// ReadHash lets a reader in, if there is no writer.
const ReadHash = `
	if redis.call('HEXISTS', KEYS[1], 'writer') == 1 then return 0 end
	redis.call('HINCRBY', KEYS[1], 'readers', 1)
	redis.call('PEXPIRE', KEYS[1], ARGV[1])
	return 1`

// WriteHash lets a writer in, if there is nobody.
const WriteHash = `
	if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
	redis.call('HSET', KEYS[1], 'writer', 1)
	redis.call('PEXPIRE', KEYS[1], ARGV[1])
	return 1`

// LeaveReading frees the lock with the last reader.
const LeaveReading = `
	if redis.call('HINCRBY', KEYS[1], 'readers', -1) <= 0 then redis.call('DEL', KEYS[1]) end`

// BeforeReadWrite reads or writes under one hash. Its end is that of whoever came last, and a reader that crashed
// counts until then.
func BeforeReadWrite(ctx context.Context, rdb *redis.Client, key string, write bool,
	readTimeout, writeTimeout time.Duration, work func(context.Context) error,
) error {
	enter, leave, timeout := ReadHash, LeaveReading, readTimeout
	if write {
		enter, leave, timeout = WriteHash, `redis.call('DEL', KEYS[1])`, writeTimeout
	}
	for {
		entered, err := rdb.Eval(ctx, enter, []string{key}, timeout.Milliseconds()).Int()
		if err != nil {
			return err
		}
		if entered == 1 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	defer rdb.Eval(ctx, leave, []string{key})
	return work(ctx)
}

// AfterReadWrite does so on one Redis or on a Cluster. Each reader and each writer has its own lease.
func AfterReadWrite(ctx context.Context, client *holdfast.Client, name string, write bool,
	readTimeout, writeTimeout time.Duration, work func(context.Context) error,
) error {
	lock := client.RWMutex(name, holdfast.ReadTTL(readTimeout), holdfast.TTL(writeTimeout))
	if write {
		return lock.Do(ctx, work)
	}
	return lock.RDo(ctx, work)
}
