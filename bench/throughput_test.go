package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	many     = 64 // goroutines
	manyEach = 50 // pairs of each before the other side's round
)

// BenchmarkOwnKeys64 is 64 goroutines, each with its own lock.
func BenchmarkOwnKeys64(b *testing.B) {
	eachKit(b, func(b *testing.B, r *rig) {
		client := r.party.client(b, holdfast.Config{})
		var ours, bare []pair
		for i := range many {
			name := fmt.Sprintf("own-%d", i)
			ours = append(ours, lockPair(client.Mutex(name)))
			bare = append(bare, rawPair(r.party.raw, name))
		}
		b.Run("holdfast", func(b *testing.B) { benchMany(b, r.server, ours, bare) })
		b.Run("raw", func(b *testing.B) { benchMany(b, r.server, bare, nil) })
	})
}

// benchMany runs at least b.N pairs. It also reports what a pair costs the processor: client-µs in this
// process and server-µs in the server. With two cores, the larger one bounds the rate.
func benchMany(b *testing.B, server *redistest.Server, timed, beside []pair) {
	b.ReportAllocs()
	together(b, timed, 5) // warm up
	if beside != nil {
		together(b, beside, 5)
	}
	var took time.Duration
	var ratios []float64
	pairs := 0
	var ofClient, ofServer time.Duration
	b.ResetTimer()
	for left := b.N; left > 0; left -= many * manyEach {
		each := min((left+many-1)/many, manyEach)
		b.StopTimer()
		clientBefore, serverBefore := clientCPU(b), cpuOf(b, server)
		b.StartTimer()
		d := together(b, timed, each)
		took += d
		b.StopTimer()
		ofClient, ofServer = ofClient+clientCPU(b)-clientBefore, ofServer+cpuOf(b, server)-serverBefore
		b.StartTimer()
		pairs += many * each
		if beside != nil {
			b.StopTimer()
			ratios = append(ratios, together(b, beside, each).Seconds()/d.Seconds())
			b.StartTimer()
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(pairs)/took.Seconds(), "pairs/s")
	b.ReportMetric(ofClient.Seconds()/float64(pairs)*1e6, "client-µs")
	b.ReportMetric(ofServer.Seconds()/float64(pairs)*1e6, "server-µs")
	if beside != nil {
		b.ReportMetric(crew.Percentile(ratios, 50), "x-raw-rate")
	}
}

// together runs each pair in its own goroutine, each times.
func together(b *testing.B, pairs []pair, each int) time.Duration {
	ctx := context.Background()
	var group sync.WaitGroup
	start := time.Now()
	for _, p := range pairs {
		group.Go(func() {
			for range each {
				if err := p(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return time.Since(start)
}
