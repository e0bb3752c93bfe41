package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/verify/history"
)

// crew is the clients and their load. Each client is replaced now and then, as if its process
// had crashed: its leases expire.
type crew struct {
	prefix string
	ttl    time.Duration
	addrs  []string

	mu      sync.Mutex // guards clients
	clients []*member

	fresh, done, failed, lost atomic.Int64
}

// member is one client of the library, with its connections.
type member struct {
	locks *holdfast.Client
	rdb   *redis.Client
}

// Observe implements [observe.Observer].
func (c *crew) Observe(e observe.Event) {
	if e.Kind == observe.EventLost {
		c.lost.Add(1)
	}
}

func (c *crew) open(addr string) (*member, error) {
	// Few connections: the warm-up then makes all that a client will ever have, and their buffers
	// do not count as growth.
	rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 4})
	locks, err := holdfast.New(goredis.New(rdb), holdfast.Config{
		Prefix: c.prefix, TTL: c.ttl, Retention: 2 * time.Second, App: "soak", Observer: c,
	})
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return &member{locks, rdb}, nil
}

func (c *crew) openAll() error {
	for _, addr := range c.addrs {
		m, err := c.open(addr)
		if err != nil {
			return err
		}
		c.clients = append(c.clients, m)
	}
	return nil
}

// replace abandons a client, and opens another in its place.
func (c *crew) replace(i int) error {
	next, err := c.open(c.addrs[i])
	if err != nil {
		return err
	}
	c.mu.Lock()
	old := c.clients[i]
	c.clients[i] = next
	c.mu.Unlock()
	old.locks.Abandon()
	return old.rdb.Close()
}

func (c *crew) closeAll(ctx context.Context) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.clients {
		err = errors.Join(err, m.locks.Close(ctx), m.rdb.Close())
	}
	c.clients = nil
	return err
}

func (c *crew) client(i int) *holdfast.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clients[i%len(c.clients)].locks
}

// workersEach is how many goroutines each client has.
const workersEach = 8

// work runs operations, rate a second in all, until ctx ends. It returns when all have ended.
func (c *crew) work(ctx context.Context, rate, seed int) {
	var group sync.WaitGroup
	workers := workersEach * len(c.addrs)
	pause := time.Duration(workers) * time.Second / time.Duration(rate)
	for i := range workers {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(i))) //nolint:gosec // it is to be repeated
			for history.Sleep(ctx, pause/2+time.Duration(rng.Int64N(int64(pause)+1))) {
				limited, cancel := context.WithTimeout(ctx, 3*c.ttl)
				err := c.one(limited, c.client(i), rng)
				cancel()
				if c.done.Add(1); err != nil {
					c.failed.Add(1)
				}
			}
		})
	}
	group.Wait()
}

func someName(rng *rand.Rand) string { return fmt.Sprintf("lock/%d", rng.IntN(40)) }

// one is one operation of a kind that is drawn.
func (c *crew) one(ctx context.Context, locks *holdfast.Client, rng *rand.Rand) error {
	hold := time.Duration(rng.Int64N(int64(20 * time.Millisecond)))
	work := func(ctx context.Context) error {
		history.Sleep(ctx, hold)
		return ctx.Err()
	}
	switch n := rng.IntN(100); {
	case n < 30:
		return locks.Mutex(someName(rng)).Do(ctx, work)
	case n < 45: // a name that nobody used before
		return locks.Mutex(fmt.Sprintf("new/%d", c.fresh.Add(1))).Do(ctx, work)
	case n < 60:
		return locks.RWMutex("file/"+someName(rng)).RDo(ctx, work)
	case n < 65:
		return locks.RWMutex("file/"+someName(rng)).Do(ctx, work)
	case n < 75:
		return locks.Semaphore("permits/"+someName(rng), 4).Do(ctx, 1+rng.IntN(2), work)
	case n < 82:
		first := rng.IntN(20)
		var names []string
		for i := range 3 {
			names = append(names, fmt.Sprintf("lock/%d", first+10*i))
		}
		return locks.MultiMutex(names).Do(ctx, work)
	case n < 87: // a call that gives up
		limited, cancel := context.WithTimeout(ctx, hold/4)
		defer cancel()
		err := locks.Mutex("busy").Do(limited, work)
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	case n < 92:
		_, err := locks.Periodic(fmt.Sprintf("job/%d", rng.IntN(10)), 5*time.Second).Do(ctx, work)
		return err
	case n < 96:
		return locks.Election("leader").Do(ctx, "soak", func(ctx context.Context, _ *holdfast.Leadership) error {
			return work(ctx)
		})
	case n < 99: // renewed several times
		return locks.Mutex("long/"+someName(rng)).Do(ctx, func(ctx context.Context) error {
			history.Sleep(ctx, 2*c.ttl)
			return nil
		})
	default: // dropped without a release: it expires
		lease, err := locks.Mutex(fmt.Sprintf("dropped/%d", c.fresh.Add(1))).Lock(ctx)
		runtime.KeepAlive(lease)
		return err
	}
}
