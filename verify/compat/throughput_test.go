package compat

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	originalredislock "github.com/bsm/redislock"
	originalredsync "github.com/go-redsync/redsync/v4"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// each is how long a figure is measured. -each 2s measures for longer.
var each = flag.Duration("each", 20*time.Millisecond, "how long TestThroughput measures a figure")

// pass locks and unlocks once.
type pass func(ctx context.Context, key string) error

// contender is a library on a wire. open makes a client of its own, as another process has one.
type contender struct {
	wire, library string
	servers       int
	open          func(t testing.TB, addrs []string) pass
}

// long is an expiry that no measurement reaches.
const long = 30 * time.Second

var contenders = []contender{
	{"redsync", "redsync", 1, passRedsync},
	{"redsync", "compat/redsync", 1, passCompatRedsync},
	{"redsync", "native locks", 1, passNative},
	{"redsync, of five", "redsync", 5, passRedsync},
	{"redsync, of five", "compat/redsync", 5, passCompatRedsync},
	{"redsync, of five", "native locks", 5, passNative},
	{"redislock", "redislock", 1, passRedislock},
	{"redislock", "compat/redislock", 1, passCompatRedislock},
	{"redislock", "native locks", 1, passNativeRedislock},
	{"Holdfast's own", "native locks", 1, passOwn},
}

func passRedsync(t testing.TB, addrs []string) pass {
	rs := original(t, addrs...)
	return passMutex(func(key string) mutex {
		return rs.NewMutex(key, originalredsync.WithExpiry(long), originalredsync.WithTries(1<<30))
	})
}

func passCompatRedsync(t testing.TB, addrs []string) pass {
	rs := ours(t, addrs...)
	return passMutex(func(key string) mutex {
		return rs.NewMutex(key, redsync.WithExpiry(long), redsync.WithTries(1<<30))
	})
}

func passMutex(mutexOf func(key string) mutex) pass {
	return func(ctx context.Context, key string) error {
		m := mutexOf(key)
		if err := m.LockContext(ctx); err != nil {
			return err
		}
		_, err := m.UnlockContext(context.WithoutCancel(ctx))
		return err
	}
}

func passRedislock(t testing.TB, addrs []string) pass {
	c := originalredislock.New(client(t, addrs[0]))
	return func(ctx context.Context, key string) error {
		l, err := c.Obtain(ctx, key, long, &originalredislock.Options{
			RetryStrategy: originalredislock.LinearBackoff(100 * time.Millisecond),
		})
		if err != nil {
			return err
		}
		return l.Release(context.WithoutCancel(ctx))
	}
}

func passCompatRedislock(t testing.TB, addrs []string) pass {
	c := redislock.New(goredis.New(client(t, addrs[0])))
	t.Cleanup(c.Close)
	return func(ctx context.Context, key string) error {
		l, err := c.Obtain(ctx, key, long, &redislock.Options{
			RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
		})
		if err != nil {
			return err
		}
		return l.Release(context.WithoutCancel(ctx))
	}
}

func passNative(t testing.TB, addrs []string) pass {
	return passClient(t, redsyncStore(t, addrs))
}

func passNativeRedislock(t testing.TB, addrs []string) pass {
	return passClient(t, redislockStore(t, addrs))
}

func passOwn(t testing.TB, addrs []string) pass {
	return passClient(t, goredis.New(client(t, addrs[0])))
}

func passClient(t testing.TB, s store.Store) pass {
	c := native(t, s, holdfast.Config{})
	return func(ctx context.Context, key string) error {
		lease, err := c.Mutex(key).Lock(ctx)
		if err != nil {
			return err
		}
		return lease.Release(context.WithoutCancel(ctx))
	}
}

// measure lets clients pass locks for so long. It returns how often they did in a second, and
// which part of that one of them did. Either each has a lock of its own, or all have one.
func measure(
	t *testing.T, c contender, addrs []string, clients int, key func(i int) string,
) (rate, luckiest float64) {
	t.Helper()
	passes := make([]pass, clients)
	for i := range passes {
		passes[i] = c.open(t, addrs)
		must(t, passes[i](t.Context(), fmt.Sprintf("warm-%d", i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(*each, cancel)
	counts := make([]float64, clients)
	var all sync.WaitGroup
	start := time.Now()
	for i, pass := range passes {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := pass(ctx, key(i)); err == nil {
					counts[i]++
				} else if ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	sum := 0.0
	for _, n := range counts {
		sum += n
	}
	return sum / time.Since(start).Seconds(), slices.Max(counts) / max(sum, 1)
}

// TestThroughput prints how many times a second locks are taken and given back, the originals and
// ours in one run. All use go-redis and their own defaults; each client has a connection pool of its
// own.
func TestThroughput(t *testing.T) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "keys of\tlibrary\t1 client\t8 clients, 8 locks\t8 clients, 1 lock\tby one of them")
	for _, c := range contenders {
		addrs := redistest.Addrs(redistest.Primaries(t, c.servers, redistest.AllowAll()))
		own := func(i int) string { return fmt.Sprintf("own-%d", i) }
		one, _ := measure(t, c, addrs, 1, own)
		many, _ := measure(t, c, addrs, 8, own)
		shared, luckiest := measure(t, c, addrs, 8, func(int) string { return "shared" })
		_, _ = fmt.Fprintf(out, "%s\t%s\t%.0f/s\t%.0f/s\t%.0f/s\t%.0f %%\n",
			c.wire, c.library, one, many, shared, 100*luckiest)
	}
	must(t, out.Flush())
}
