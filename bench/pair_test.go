package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
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

// scriptPair is the two bare scripts of a form of the record, on the same client.
func scriptPair(t testing.TB, r raw, f form) pair {
	t.Helper()
	take, err := r.Load(t.Context(), f.take)
	check(t, err)
	give, err := r.Load(t.Context(), f.give)
	check(t, err)
	key, n := "form:"+f.name, 0
	return func(ctx context.Context) error {
		n++
		attempt := "1234567890123456789012/" + strconv.Itoa(n)
		answer, err := r.Eval(ctx, take, key, attempt, "30000", "630000", "x", "10000", "hf:")
		if err != nil || !strings.HasPrefix(answer, "granted ") {
			return fmt.Errorf("take: %s %w", answer, err)
		}
		answer, err = r.Eval(ctx, give, key, attempt, strings.Fields(answer)[1], "600000", "hf:")
		if err != nil || answer != "released" {
			return fmt.Errorf("give: %s %w", answer, err)
		}
		return nil
	}
}

// BenchmarkPair is one goroutine that acquires and releases a free lock. Beside it run the
// raw commands, and the two scripts that store a token and a holder and do nothing else.
// Nobody can cancel their context, except in cancellable.
func BenchmarkPair(b *testing.B) {
	eachKit(b, func(b *testing.B, r *rig) {
		ours := lockPair(r.party.client(b, holdfast.Config{}).Mutex("pair"))
		bare := rawPair(r.party.raw, "pair")
		scripts := scriptPair(b, r.party.raw, formNamed("hash"))
		b.Run("holdfast", func(b *testing.B) {
			benchPairs(b, ours, beside{"x-raw-p50", bare}, beside{"x-scripts-p50", scripts})
		})
		b.Run("scripts", func(b *testing.B) { benchPairs(b, scripts, beside{"x-raw-p50", bare}) })
		b.Run("raw", func(b *testing.B) { benchPairs(b, bare) })
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		with := func(p pair) pair { return func(context.Context) error { return p(ctx) } }
		b.Run("cancellable", func(b *testing.B) {
			benchPairs(b, with(ours), beside{"x-raw-p50", with(bare)}, beside{"x-scripts-p50", with(scripts)})
		})
	})
}

// beside is another kind of pair, and the name of the ratio to it.
type beside struct {
	ratio string
	pair  pair
}

// benchPairs times one kind of pair, and runs the other kinds untimed in between.
func benchPairs(b *testing.B, timed pair, others ...beside) {
	b.ReportAllocs()
	took, other := make([]time.Duration, 0, b.N), make([][]time.Duration, len(others))
	samplePairs(b, make([]time.Duration, 0, block), block, timed) // warm up
	b.ResetTimer()
	for left := b.N; left > 0; left -= block {
		n := min(left, block)
		took = samplePairs(b, took, n, timed)
		b.StopTimer()
		for i, o := range others {
			other[i] = samplePairs(b, other[i], n, o.pair)
		}
		b.StartTimer()
	}
	b.StopTimer()
	p50 := crew.Percentile(took, 50)
	b.ReportMetric(float64(p50), "p50-ns")
	b.ReportMetric(float64(crew.Percentile(took, 99)), "p99-ns")
	for i, o := range others {
		b.ReportMetric(float64(p50)/float64(crew.Percentile(other[i], 50)), o.ratio)
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
