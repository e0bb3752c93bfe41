package setnx

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// DeleteIfMine releases a lock, if it is still the caller's.
const DeleteIfMine = `
	if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
	return 0`

// ExpireIfMine is the watchdog's step.
const ExpireIfMine = `
	if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
	return 0`

// BeforeSetPX holds the lock with a watchdog that renews it maxRenewals times.
func BeforeSetPX(ctx context.Context, rdb *redis.Client, key string, ttl time.Duration, maxRenewals int,
	work func(context.Context) error,
) error {
	value := rand.Text()
	for {
		locked, err := rdb.SetNX(ctx, key, value, ttl).Result() // SET key value NX PX ttl
		if err != nil {
			return err
		}
		if locked {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	stop := make(chan struct{})
	go func() {
		for range maxRenewals {
			select {
			case <-stop:
				return
			case <-time.After(ttl / 3):
				rdb.Eval(ctx, ExpireIfMine, []string{key}, value, ttl.Milliseconds()) // work is not told of a loss
			}
		}
	}()
	defer rdb.Eval(ctx, DeleteIfMine, []string{key}, value)
	defer close(stop)
	return work(ctx)
}

// AfterSetPX renews the lease by itself. If the lease is lost, or its renewals are used up, the context of work ends.
func AfterSetPX(ctx context.Context, client *holdfast.Client, name string, ttl time.Duration, maxRenewals int,
	work func(context.Context) error,
) error {
	return client.Mutex(name, holdfast.TTL(ttl), holdfast.MaxRenewals(maxRenewals)).Do(ctx, work)
}
