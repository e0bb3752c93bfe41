package setnx

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// EnterHash counts the entries of one owner in a hash.
const EnterHash = `
	if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
		redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
		redis.call('PEXPIRE', KEYS[1], ARGV[2])
		return 1
	end
	return 0`

// LeaveHash takes an entry back. The last one frees the lock.
const LeaveHash = `
	if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
	if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) <= 0 then redis.call('DEL', KEYS[1]) end
	return 1`

// BeforeHash enters the lock as an owner: a process ID and a thread ID, or the ID of a request.
func BeforeHash(ctx context.Context, rdb *redis.Client, key, owner string, ttl time.Duration,
	work func(context.Context) error,
) error {
	for {
		entered, err := rdb.Eval(ctx, EnterHash, []string{key}, owner, ttl.Milliseconds()).Int()
		if err != nil {
			return err
		}
		if entered == 1 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	defer rdb.Eval(ctx, LeaveHash, []string{key}, owner)
	return work(ctx)
}

// AfterHash does so: calls with the same owner share the hold, in any process. An entry that is sent twice counts
// once.
func AfterHash(ctx context.Context, client *holdfast.Client, name, owner string, ttl time.Duration,
	work func(context.Context) error,
) error {
	return client.Mutex(name, holdfast.Owner(owner), holdfast.TTL(ttl)).Do(ctx, work)
}
