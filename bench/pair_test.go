package bench

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// block is how many pairs run before the other side's round.
const block = 50

// A pair acquires a lock and releases it.
type pair func(ctx context.Context) error

func lockPair(mu *holdfast.Mutex) pair {
	return func(ctx context.Context) error {
		l, err := mu.Lock(ctx)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
}

// rawPair sets key to a new value each time, as a lock must.
func rawPair(r raw, key string) pair {
	n := 0
	return func(ctx context.Context) error {
		n++
		value := key + "/" + strconv.Itoa(n)
		ok, err := r.Set(ctx, key, value, rawTTL)
		if err != nil {
			return err
		}
		if !ok {
			return errTaken
		}
		return r.Unset(ctx, key, value)
	}
}

// BenchmarkPair is one goroutine that acquires and releases a free lock.
func BenchmarkPair(b *testing.B) {
	eachKit(b, func(b *testing.B, r *rig) {
		ours := lockPair(r.party.client(b, holdfast.Config{}).Mutex("pair"))
		bare := rawPair(r.party.raw, "pair")
		b.Run("holdfast", func(b *testing.B) { benchPairs(b, ours, bare, "x-raw-p50") })
		b.Run("raw", func(b *testing.B) { benchPairs(b, bare, nil, "") })
	})
}

// benchPairs times one kind of pair, and runs the other kind untimed in between.
func benchPairs(b *testing.B, timed, beside pair, ratio string) {
	b.ReportAllocs()
	took, other := make([]time.Duration, 0, b.N), make([]time.Duration, 0, b.N)
	samplePairs(b, make([]time.Duration, 0, block), block, timed) // warm up
	b.ResetTimer()
	for left := b.N; left > 0; left -= block {
		n := min(left, block)
		took = samplePairs(b, took, n, timed)
		if beside != nil {
			b.StopTimer()
			other = samplePairs(b, other, n, beside)
			b.StartTimer()
		}
	}
	b.StopTimer()
	p50 := crew.Percentile(took, 50)
	b.ReportMetric(float64(p50), "p50-ns")
	b.ReportMetric(float64(crew.Percentile(took, 99)), "p99-ns")
	if beside != nil {
		b.ReportMetric(float64(p50)/float64(crew.Percentile(other, 50)), ratio)
	}
}

func samplePairs(b *testing.B, took []time.Duration, n int, p pair) []time.Duration {
	ctx := context.Background()
	for range n {
		start := time.Now()
		assert.Must(b, p(ctx))
		took = append(took, time.Since(start))
	}
	return took
}
