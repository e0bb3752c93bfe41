package compat

import (
	"context"
	"time"

	originalredislock "github.com/bsm/redislock"
	originalredsync "github.com/go-redsync/redsync/v4"

	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/compat/redsync"
)

// These declarations do not compile if a method of an original is missing, or has another type.
// TestEveryNameOfTheOriginalIsThere compares every name.

// mutex has every method of redsync's Mutex.
type mutex interface { //nolint:interfacebloat // as many as redsync has
	Name() string
	Value() string
	Until() time.Time
	Lock() error
	LockContext(ctx context.Context) error
	TryLock() error
	TryLockContext(ctx context.Context) error
	Unlock() (bool, error)
	UnlockContext(ctx context.Context) (bool, error)
	Extend() (bool, error)
	ExtendContext(ctx context.Context) (bool, error)
	Valid() (bool, error)
	ValidContext(ctx context.Context) (bool, error)
}

var _, _ mutex = (*originalredsync.Mutex)(nil), (*redsync.Mutex)(nil)

// redsyncOptions lists the options, by the types of each package.
type redsyncOptions[O any, D ~func(tries int) time.Duration] struct {
	expiry  func(time.Duration) O
	tries   func(int) O
	delay   func(time.Duration) O
	delays  func(D) O
	setNX   func() O
	drift   func(float64) O
	timeout func(float64) O
	gen     func(func() (string, error)) O
	value   func(string) O
	fast    func(bool) O
	shuffle func(bool) O
}

var (
	originalOptions = redsyncOptions[originalredsync.Option, originalredsync.DelayFunc]{
		originalredsync.WithExpiry, originalredsync.WithTries, originalredsync.WithRetryDelay,
		originalredsync.WithRetryDelayFunc, originalredsync.WithSetNXOnExtend, originalredsync.WithDriftFactor,
		originalredsync.WithTimeoutFactor, originalredsync.WithGenValueFunc, originalredsync.WithValue,
		originalredsync.WithFailFast, originalredsync.WithShufflePools,
	}
	ourOptions = redsyncOptions[redsync.Option, redsync.DelayFunc]{
		redsync.WithExpiry, redsync.WithTries, redsync.WithRetryDelay,
		redsync.WithRetryDelayFunc, redsync.WithSetNXOnExtend, redsync.WithDriftFactor,
		redsync.WithTimeoutFactor, redsync.WithGenValueFunc, redsync.WithValue,
		redsync.WithFailFast, redsync.WithShufflePools,
	}
)

// A conversion needs the same fields.
var (
	_ = redsync.ErrTaken(originalredsync.ErrTaken{Nodes: []int{0}})
	_ = redsync.ErrNodeTaken(originalredsync.ErrNodeTaken{Node: 0})
	_ = redsync.RedisError(originalredsync.RedisError{Node: 0, Err: nil})
)

// lock has every method of redislock's Lock, by the types of each package.
type lock[L, O any] interface {
	locker[L, O]
	Key() string
	Keys() []string
	Token() string
	Metadata() string
	TTL(ctx context.Context) (time.Duration, error)
	Refresh(ctx context.Context, ttl time.Duration, opt O) error
	Release(ctx context.Context) error
}

// locker has every method of redislock's Client.
type locker[L, O any] interface {
	Obtain(ctx context.Context, key string, ttl time.Duration, opt O) (L, error)
	ObtainMulti(ctx context.Context, keys []string, ttl time.Duration, opt O) (L, error)
}

var (
	_ lock[*originalredislock.Lock, *originalredislock.Options]   = (*originalredislock.Lock)(nil)
	_ lock[*redislock.Lock, *redislock.Options]                   = (*redislock.Lock)(nil)
	_ locker[*originalredislock.Lock, *originalredislock.Options] = (*originalredislock.Client)(nil)
	_ locker[*redislock.Lock, *redislock.Options]                 = (*redislock.Client)(nil)

	_ redislock.RetryStrategy = originalredislock.NoRetry()
)
