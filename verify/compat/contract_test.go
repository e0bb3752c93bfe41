package compat

import (
	"context"
	"time"

	originalredislock "github.com/bsm/redislock"
	originalredsync "github.com/go-redsync/redsync/v4"

	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/compat/redsync"
)

// These declarations fail to compile if a name, a method or a field of an original is missing, or
// has another type. Only the constructors differ: their arguments are connections.

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

// maker has the methods of Redsync, by the types of each package.
type maker[M, O any] interface {
	NewMutex(name string, options ...O) M
}

var (
	_ maker[*originalredsync.Mutex, originalredsync.Option] = (*originalredsync.Redsync)(nil)
	_ maker[*redsync.Mutex, redsync.Option]                 = (*redsync.Redsync)(nil)
)

// option is an option, by the mutex of each package.
type option[M any] interface{ Apply(mutex M) }

var (
	_ option[*originalredsync.Mutex] = originalredsync.Option(nil)
	_ option[*redsync.Mutex]         = redsync.Option(nil)
	_ option[*originalredsync.Mutex] = originalredsync.OptionFunc(nil)
	_ option[*redsync.Mutex]         = redsync.OptionFunc(nil)
)

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

// The errors of redsync: values, and types with their fields. A conversion needs the same ones.
var (
	_ = []error{
		originalredsync.ErrFailed, originalredsync.ErrExtendFailed, originalredsync.ErrLockAlreadyExpired,
		redsync.ErrFailed, redsync.ErrExtendFailed, redsync.ErrLockAlreadyExpired,
		originalredsync.ErrTaken{}, &originalredsync.ErrTaken{}, redsync.ErrTaken{}, &redsync.ErrTaken{},
		originalredsync.ErrNodeTaken{}, &originalredsync.ErrNodeTaken{},
		redsync.ErrNodeTaken{}, &redsync.ErrNodeTaken{},
		originalredsync.RedisError{}, &originalredsync.RedisError{}, redsync.RedisError{}, &redsync.RedisError{},
	}
	_ = redsync.ErrTaken(originalredsync.ErrTaken{Nodes: []int{0}})
	_ = redsync.ErrNodeTaken(originalredsync.ErrNodeTaken{Node: 0})
	_ = redsync.RedisError(originalredsync.RedisError{Node: 0, Err: nil})

	_, _ interface{ Unwrap() error } = originalredsync.RedisError{}, redsync.RedisError{}
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
	_                                                             = (&originalredislock.Lock{}).Client
	_                                                             = (&redislock.Lock{}).Client
)

// strategies lists the constructors of redislock's strategies. The two interfaces are the same.
type strategies[R any] struct {
	none   func() R
	linear func(time.Duration) R
	limit  func(R, int) R
	double func(low, high time.Duration) R
}

var (
	_ = strategies[originalredislock.RetryStrategy]{
		originalredislock.NoRetry, originalredislock.LinearBackoff, originalredislock.LimitRetry,
		originalredislock.ExponentialBackoff,
	}
	_ = strategies[redislock.RetryStrategy]{
		redislock.NoRetry, redislock.LinearBackoff, redislock.LimitRetry, redislock.ExponentialBackoff,
	}
	_ redislock.RetryStrategy = originalredislock.NoRetry()
	_                         = originalredislock.Options{RetryStrategy: nil, Metadata: "", Token: ""}
	_                         = redislock.Options{RetryStrategy: nil, Metadata: "", Token: ""}
	_                         = []error{
		originalredislock.ErrNotObtained, originalredislock.ErrLockNotHeld,
		redislock.ErrNotObtained, redislock.ErrLockNotHeld,
	}
)

// The functions, by the types of each package.
type obtain[C, L, O any] func(ctx context.Context, client C, key string, ttl time.Duration, opt O) (L, error)

type obtainMulti[C, L, O any] func(
	ctx context.Context, client C, keys []string, ttl time.Duration, opt O,
) (L, error)

type (
	theirClient = originalredislock.RedisClient
	theirLock   = *originalredislock.Lock
	theirOption = *originalredislock.Options
	ourClient   = redislock.RedisClient
	ourLock     = *redislock.Lock
	ourOption   = *redislock.Options
)

var (
	_ obtain[theirClient, theirLock, theirOption]      = originalredislock.Obtain
	_ obtain[ourClient, ourLock, ourOption]            = redislock.Obtain
	_ obtainMulti[theirClient, theirLock, theirOption] = originalredislock.ObtainMulti
	_ obtainMulti[ourClient, ourLock, ourOption]       = redislock.ObtainMulti
)
