package neighbours

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	originalredislock "github.com/bsm/redislock"
	originalredsync "github.com/go-redsync/redsync/v4"
	originalpool "github.com/go-redsync/redsync/v4/redis"
	originalgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// The libraries whose locks are string keys.

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

// mutexHold is a hold of redsync.
type mutexHold struct{ *originalredsync.Mutex }

// Holds implements [Hold]. redsync does not tell of a loss: a careful user looks at Until.
func (h mutexHold) Holds() bool { return time.Now().Before(h.Until()) }

// Holder implements [Hold].
func (h mutexHold) Holder() string { return h.Value() }

// Unlock implements [Hold].
func (h mutexHold) Unlock(ctx context.Context) string {
	ok, err := h.UnlockContext(ctx)
	switch {
	case ok:
		return Released
	case errors.Is(err, originalredsync.ErrLockAlreadyExpired):
		return NotHeld
	}
	return Unknown
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
		return mutexHold{m}, nil
	}), nil
}

// openOurs opens a client of this library on the wire of an original.
func openOurs(storeOf func([]store.Store) store.Store) func(Config) (Locker, error) {
	return func(cfg Config) (Locker, error) {
		var servers []store.Store
		for _, addr := range cfg.Addresses {
			servers = append(servers, goredis.New(cfg.rdb(addr)))
		}
		client, err := holdfast.New(storeOf(servers), holdfast.Config{TTL: cfg.TTL(), RequestTimeout: cfg.TTL() / 4})
		if err != nil {
			return nil, err
		}
		return lockerFunc(func(ctx context.Context, name string) (Hold, error) {
			lease, err := client.Mutex(name).Lock(ctx)
			if err != nil {
				return nil, err
			}
			return leaseHold{lease, len(servers)}, nil
		}), nil
	}
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

// obtainedHold is a hold of redislock.
type obtainedHold struct {
	*originalredislock.Lock

	till time.Time // a careful user counts from before the call
}

// Holds implements [Hold].
func (h obtainedHold) Holds() bool { return time.Now().Before(h.till) }

// Holder implements [Hold].
func (h obtainedHold) Holder() string { return h.Token() }

// Unlock implements [Hold].
func (h obtainedHold) Unlock(ctx context.Context) string {
	switch err := h.Release(ctx); {
	case err == nil:
		return Released
	case errors.Is(err, originalredislock.ErrLockNotHeld):
		return NotHeld
	}
	return Unknown
}

var errNoAnswer = errors.New("no answer")

// openRedislock obtains a lock by calls of one try each: redislock does not say when the try began
// that succeeded.
func openRedislock(cfg Config) (Locker, error) {
	c := originalredislock.New(cfg.rdb(cfg.Address))
	return lockerFunc(func(ctx context.Context, name string) (Hold, error) {
		for {
			start := time.Now()
			l, err := c.Obtain(ctx, name, cfg.TTL(), nil)
			var network net.Error
			switch {
			case err == nil:
				return obtainedHold{l, start.Add(cfg.TTL() * 99 / 100)}, nil
			case errors.As(err, &network):
				return nil, errNoAnswer // without its ports, equal errors are one line of a report
			case !errors.Is(err, originalredislock.ErrNotObtained):
				return nil, err
			}
			select {
			case <-time.After(cfg.pause()):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}), nil
}
