package setnx

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// SetAndExpire acquires a lock with an end, in one step.
const SetAndExpire = `
	if redis.call('SETNX', KEYS[1], ARGV[1]) == 0 then return 0 end
	redis.call('EXPIRE', KEYS[1], ARGV[2])
	return 1`

// DelayExpire moves the end, if the lock is still the caller's.
const DelayExpire = `
	if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
	return redis.call('EXPIRE', KEYS[1], ARGV[2])`

// BeforeLua works in two parts under a lease of expireSeconds each.
func BeforeLua(ctx context.Context, rdb *redis.Client, key, lockValue string, expireSeconds int,
	first, second func(context.Context) error,
) (locked bool, err error) {
	got, err := rdb.Eval(ctx, SetAndExpire, []string{key}, lockValue, expireSeconds).Int()
	if err != nil || got == 0 {
		return false, err
	}
	defer rdb.Eval(ctx, DeleteIfMine, []string{key}, lockValue)
	if err := first(ctx); err != nil {
		return true, err
	}
	rdb.Eval(ctx, DelayExpire, []string{key}, lockValue, expireSeconds) // nobody looks whether it worked
	return true, second(ctx)
}

// AfterLua does so with a fixed lease. Without NoRenewal the lease is renewed, and Extend is not needed.
func AfterLua(ctx context.Context, client *holdfast.Client, name string, expireSeconds int,
	first, second func(context.Context) error,
) error {
	ttl := time.Duration(expireSeconds) * time.Second
	lease, err := client.Mutex(name, holdfast.TTL(ttl), holdfast.NoRenewal()).TryLock(ctx)
	if err != nil {
		return err // ErrHeld if another client has the lock
	}
	err = first(lease.Context()) // ends before another client can get the lock
	if err == nil {
		err = lease.Extend(ctx, ttl) // ErrNotHeld if it is too late
	}
	if err == nil {
		err = second(lease.Context())
	}
	return errors.Join(err, lease.Release(ctx))
}
