package neighbours

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	originalredislock "github.com/bsm/redislock"
	originalredsync "github.com/go-redsync/redsync/v4"
	originalpool "github.com/go-redsync/redsync/v4/redis"
	originalgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// The libraries whose locks are string keys. A process of ours uses the API of the original and
// native locks by turns: both are on the same keys.

// rdb makes a client of a server. Its limits are the same for all libraries.
func (c Config) rdb(addr string) *redis.Client {
	logging.Disable()
	limit := c.TTL() / 4
	return redis.NewClient(&redis.Options{
		Addr: addr, TLSConfig: redistest.TLS(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: limit, ReadTimeout: limit, WriteTimeout: limit,
	})
}

// endless is how often the API with a number of tries tries: until the context ends.
const endless = 1 << 30

// pause is between two tries.
func (c Config) pause() time.Duration {
	return c.TTL()/100 + rand.N(c.TTL()/50) //nolint:gosec // not a secret
}

// timeoutFactor is redsync's limit of a request, as a fraction of the TTL.
const timeoutFactor = 0.25

// mutex is a Mutex of redsync, or one with its API.
type mutex interface {
	LockContext(ctx context.Context) error
	UnlockContext(ctx context.Context) (bool, error)
	Until() time.Time
	Value() string
}

// mutexHold is a hold of a mutex.
type mutexHold struct {
	mutex

	lost    func() <-chan struct{} // nil: the library does not tell
	expired error
}

// Holds implements [Hold]. A careful user of redsync looks at Until.
func (h *mutexHold) Holds() bool {
	if h.lost == nil {
		return time.Now().Before(h.Until())
	}
	return !ended(h.lost())
}

// Holder implements [Hold].
func (h *mutexHold) Holder() string { return h.Value() }

// Unlock implements [Hold].
func (h *mutexHold) Unlock(ctx context.Context) string {
	ok, err := h.UnlockContext(ctx)
	switch {
	case ok:
		return Released
	case errors.Is(err, h.expired):
		return NotHeld
	}
	return Unknown
}

// ended reports whether the channel is closed.
func ended(lost <-chan struct{}) bool {
	select {
	case <-lost:
		return true
	default:
		return false
	}
}

func init() { //nolint:gochecknoinits // the table of another file
	lockers["redsync"] = openRedsync
	lockers["holdfast/redsync"] = openCompatRedsync
	lockers["redislock"] = openRedislock
	lockers["holdfast/redislock"] = openCompatRedislock
}

// lockerFunc is a Locker that is a function.
type lockerFunc func(ctx context.Context, name string) (Hold, error)

// Lock implements [Locker].
func (f lockerFunc) Lock(ctx context.Context, name string) (Hold, error) { return f(ctx, name) }

func openRedsync(cfg Config) (Locker, error) {
	var pools []originalpool.Pool
	for _, addr := range cfg.Addresses {
		pools = append(pools, originalgoredis.NewPool(cfg.rdb(addr)))
	}
	rs := originalredsync.New(pools...)
	return lockerFunc(func(ctx context.Context, name string) (Hold, error) {
		m := rs.NewMutex(name, originalredsync.WithExpiry(cfg.TTL()), originalredsync.WithTries(endless),
			originalredsync.WithTimeoutFactor(timeoutFactor),
			originalredsync.WithRetryDelayFunc(func(int) time.Duration { return cfg.pause() }))
		if err := m.LockContext(ctx); err != nil {
			return nil, err
		}
		return &mutexHold{mutex: m, expired: originalredsync.ErrLockAlreadyExpired}, nil
	}), nil
}

func openCompatRedsync(cfg Config) (Locker, error) {
	var pools, again []redsync.Pool
	for _, addr := range cfg.Addresses {
		rdb := cfg.rdb(addr)
		pools, again = append(pools, goredis.New(rdb)), append(again, goredis.New(rdb))
	}
	rs := redsync.New(pools...)
	return byTurns(cfg, redsync.NewStore(again...), func(ctx context.Context, name string) (Hold, error) {
		m := rs.NewMutex(name, redsync.WithExpiry(cfg.TTL()), redsync.WithTries(endless),
			redsync.WithTimeoutFactor(timeoutFactor), redsync.WithRenewal(),
			redsync.WithRetryDelayFunc(func(int) time.Duration { return cfg.pause() }))
		if err := m.LockContext(ctx); err != nil {
			return nil, err
		}
		return &mutexHold{mutex: m, lost: m.Lost, expired: redsync.ErrLockAlreadyExpired}, nil
	})
}

// byTurns locks by the API of an original, and by native locks.
func byTurns(cfg Config, s store.Store, api lockerFunc) (Locker, error) {
	client, err := holdfast.New(s, holdfast.Config{TTL: cfg.TTL(), RequestTimeout: cfg.TTL() / 4})
	if err != nil {
		return nil, err
	}
	var count atomic.Uint64
	return lockerFunc(func(ctx context.Context, name string) (Hold, error) {
		if count.Add(1)%2 == 0 {
			return api(ctx, name)
		}
		lease, err := client.Mutex(name).Lock(ctx)
		if err != nil {
			return nil, err
		}
		return leaseHold{lease, len(cfg.Addresses)}, nil
	}), nil
}

// leaseHold is a hold of a native lock.
type leaseHold struct {
	lease   *holdfast.Lease
	servers int
}

// Holds implements [Hold].
func (h leaseHold) Holds() bool { return h.lease.Err() == nil }

// Holder implements [Hold]. On several servers the value is not known.
func (h leaseHold) Holder() string {
	if h.servers > 1 {
		return ""
	}
	return h.lease.HolderID()
}

// Unlock implements [Hold].
func (h leaseHold) Unlock(ctx context.Context) string {
	err := h.lease.Release(ctx)
	switch {
	case err == nil:
		return Released
	case errors.Is(err, holdfast.ErrNotHeld):
		return NotHeld
	}
	return Unknown
}

// obtained is a lock of redislock, or one with its API.
type obtained interface {
	Token() string
	Release(ctx context.Context) error
}

// obtainedHold is a hold of redislock's API.
type obtainedHold struct {
	obtained

	till    time.Time              // a careful user counts from before the call
	lost    func() <-chan struct{} // nil: the library does not tell
	notHeld error
}

// Holds implements [Hold].
func (h *obtainedHold) Holds() bool {
	if h.lost == nil {
		return time.Now().Before(h.till)
	}
	return !ended(h.lost())
}

// Holder implements [Hold].
func (h *obtainedHold) Holder() string { return h.Token() }

// Unlock implements [Hold].
func (h *obtainedHold) Unlock(ctx context.Context) string {
	switch err := h.Release(ctx); {
	case err == nil:
		return Released
	case errors.Is(err, h.notHeld):
		return NotHeld
	}
	return Unknown
}

var errNoAnswer = errors.New("no answer")

// obtaining calls obtain until it succeeds, each time for one try: redislock does not say when the
// try began that succeeded.
func obtaining(
	ctx context.Context, cfg Config, notObtained error, obtain func() (obtained, error),
) (obtained, time.Time, error) {
	for {
		start := time.Now()
		l, err := obtain()
		var network net.Error
		switch {
		case errors.As(err, &network):
			return nil, start, errNoAnswer // without its ports, equal errors are one line of a report
		case err == nil || !errors.Is(err, notObtained):
			return l, start.Add(cfg.TTL() * 99 / 100), err
		}
		select {
		case <-time.After(cfg.pause()):
		case <-ctx.Done():
			return nil, start, ctx.Err()
		}
	}
}

func openRedislock(cfg Config) (Locker, error) {
	c := originalredislock.New(cfg.rdb(cfg.Address))
	return lockerFunc(func(ctx context.Context, name string) (Hold, error) {
		l, till, err := obtaining(ctx, cfg, originalredislock.ErrNotObtained, func() (obtained, error) {
			return c.Obtain(ctx, name, cfg.TTL(), nil)
		})
		if err != nil {
			return nil, err
		}
		return &obtainedHold{obtained: l, till: till, notHeld: originalredislock.ErrLockNotHeld}, nil
	}), nil
}

func openCompatRedislock(cfg Config) (Locker, error) {
	rdb := cfg.rdb(cfg.Address)
	c := redislock.New(goredis.New(rdb))
	return byTurns(cfg, redislock.NewStore(goredis.New(rdb)), func(ctx context.Context, name string) (Hold, error) {
		var lost func() <-chan struct{}
		l, till, err := obtaining(ctx, cfg, redislock.ErrNotObtained, func() (obtained, error) {
			l, err := c.Obtain(ctx, name, cfg.TTL(), &redislock.Options{Renew: true})
			if err != nil {
				return nil, err
			}
			lost = l.Lost
			return l, nil
		})
		if err != nil {
			return nil, err
		}
		return &obtainedHold{obtained: l, till: till, lost: lost, notHeld: redislock.ErrLockNotHeld}, nil
	})
}
