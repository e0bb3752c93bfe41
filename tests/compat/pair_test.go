package compat

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// BenchmarkPair takes a lock and gives it back. Beside the time, it reports the processor time of
// this process, and that of the servers' commands and scripts without the network. These two say
// more than the time on a machine that does other work.
func BenchmarkPair(b *testing.B) {
	for _, c := range contenders {
		for _, ctx := range []struct {
			name string
			of   func(context.Context) (context.Context, context.CancelFunc)
		}{
			{"background", func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithoutCancel(ctx), func() {}
			}},
			{"cancellable", context.WithCancel},
		} {
			b.Run(strings.Join([]string{c.wire, c.library, ctx.name}, "/"), func(b *testing.B) {
				servers := redistest.Primaries(b, c.servers, redistest.AllowAll())
				pass := c.open(b, redistest.Addrs(servers))
				ctx, cancel := ctx.of(b.Context())
				defer cancel()
				for range steady {
					must(b, pass(ctx, "key"))
				}
				for _, server := range servers {
					server.ResetStats(b)
				}
				b.ReportAllocs()
				before := processorTime(b)
				for b.Loop() {
					must(b, pass(ctx, "key"))
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
}

// steady is how many pairs a client needs until all its connections are made.
const steady = 50

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
