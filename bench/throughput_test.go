package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
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
		b.Run("holdfast", func(b *testing.B) { benchMany(b, ours, bare) })
		b.Run("raw", func(b *testing.B) { benchMany(b, bare, nil) })
	})
}

// benchMany runs at least b.N pairs.
func benchMany(b *testing.B, timed, beside []pair) {
	b.ReportAllocs()
	together(b, timed, 5) // warm up
	if beside != nil {
		together(b, beside, 5)
	}
	var took time.Duration
	var ratios []float64
	pairs := 0
	b.ResetTimer()
	for left := b.N; left > 0; left -= many * manyEach {
		each := min((left+many-1)/many, manyEach)
		d := together(b, timed, each)
		took += d
		pairs += many * each
		if beside != nil {
			b.StopTimer()
			ratios = append(ratios, together(b, beside, each).Seconds()/d.Seconds())
			b.StartTimer()
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(pairs)/took.Seconds(), "pairs/s")
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
