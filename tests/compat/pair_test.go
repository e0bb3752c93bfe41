package compat

import (
	"context"
	"syscall"
	"testing"
	"time"

	originalredislock "github.com/bsm/redislock"
	originalredsync "github.com/go-redsync/redsync/v4"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// pass locks and unlocks once.
type pass func(ctx context.Context) error

// long is an expiry that no measurement reaches.
const long = 30 * time.Second

// contenders are the libraries on each wire. open makes a client.
var contenders = []struct {
	wire, library string
	servers       int
	open          func(t testing.TB, addrs []string) pass
}{
	{"redsync", "redsync", 1, passRedsync},
	{"redsync", "Holdfast", 1, passNative(redsyncStore)},
	{"redsync, of five", "redsync", 5, passRedsync},
	{"redsync, of five", "Holdfast", 5, passNative(redsyncStore)},
	{"redislock", "redislock", 1, passRedislock},
	{"redislock", "Holdfast", 1, passNative(redislockStore)},
	{"Holdfast's own", "Holdfast", 1, passNative(ownStore)},
}

func passRedsync(t testing.TB, addrs []string) pass {
	rs := original(t, addrs...)
	return func(ctx context.Context) error {
		m := rs.NewMutex("key", originalredsync.WithExpiry(long))
		if err := m.LockContext(ctx); err != nil {
			return err
		}
		_, err := m.UnlockContext(context.WithoutCancel(ctx))
		return err
	}
}

func passRedislock(t testing.TB, addrs []string) pass {
	c := originalredislock.New(rdb(t, addrs[0]))
	return func(ctx context.Context) error {
		l, err := c.Obtain(ctx, "key", long, nil)
		if err != nil {
			return err
		}
		return l.Release(context.WithoutCancel(ctx))
	}
}

func ownStore(t testing.TB, addrs []string) store.Store { return goredis.New(rdb(t, addrs[0])) }

func passNative(open func(testing.TB, []string) store.Store) func(testing.TB, []string) pass {
	return func(t testing.TB, addrs []string) pass {
		mutex := native(t, open(t, addrs), holdfast.Config{}).Mutex("key")
		return func(ctx context.Context) error {
			lease, err := mutex.Lock(ctx)
			if err != nil {
				return err
			}
			return lease.Release(context.WithoutCancel(ctx))
		}
	}
}

// BenchmarkPair takes a lock and gives it back. Beside the time, it reports the processor time of
// this process, and that of the servers' commands and scripts without the network. These two say
// more than the time on a machine that does other work.
func BenchmarkPair(b *testing.B) {
	for _, c := range contenders {
		b.Run(c.wire+"/"+c.library, func(b *testing.B) {
			servers := redistest.Primaries(b, c.servers, redistest.AllowAll())
			pass := c.open(b, redistest.Addrs(servers))
			for range steady {
				must(b, pass(b.Context()))
			}
			for _, server := range servers {
				server.ResetStats(b)
			}
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				must(b, pass(b.Context()))
			}
			micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(b.N) }
			b.ReportMetric(micros(processorTime(b)-before), "client-µs/op")
			var busy time.Duration
			for _, server := range servers {
				took := server.CommandTimes(b)
				busy += took["set"] + took["evalsha"]
			}
			b.ReportMetric(micros(busy), "server-µs/op")
		})
	}
}

// steady is how many pairs a client needs until all its connections are made.
const steady = 50

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
