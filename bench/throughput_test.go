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

// BenchmarkOwnKeys64 is 64 goroutines, each with its own lock. Beside them run the raw commands of the
// same client library, and of the fastest one. least is the same in batches without the library: four
// goroutines send two scripts that call what a batch must call, for 16 locks each, and check nothing.
func BenchmarkOwnKeys64(b *testing.B) {
	eachKit(b, func(b *testing.B, r *rig) {
		client := r.party.client(b, holdfast.Config{})
		fastest, err := kitNamed("rueidis").open(r.server.Addr())
		check(b, err)
		b.Cleanup(fastest.close)
		var ours, bare, best, least []pair
		for i := range many {
			name := fmt.Sprintf("own-%d", i)
			ours = append(ours, lockPair(client.Mutex(name)))
			bare, best = append(bare, rawPair(r.party.raw, name)), append(best, rawPair(fastest.raw, name))
			if i%leastBatch == 0 {
				least = append(least, leastPairs(b, r.party.raw, i))
			}
		}
		raw, top := rivals64{"x-raw-rate", bare}, rivals64{"x-best-raw-rate", best}
		b.Run("holdfast", func(b *testing.B) { benchMany(b, r.server, ours, raw, top) })
		b.Run("least", func(b *testing.B) { benchMany(b, r.server, least, raw, top) })
		b.Run("raw", func(b *testing.B) { benchMany(b, r.server, bare) })
	})
}

// rivals64 are other pairs for the same locks, and the name of the ratio to them.
type rivals64 struct {
	ratio string
	pairs []pair
}

// leastBatch is how many locks one goroutine of least has. So its rounds are as long as those of 64.
const leastBatch = 16

const (
	leastTake = `
for i = 1, #ARGV do
  redis.call('HGET', ARGV[i], 'lock')
  redis.call('PEXPIRE', ARGV[i], 630000)
  redis.call('HSET', ARGV[i], 'lock', '1234567890123456 30000 1234567890123456789012/1')
end
return 'granted'`
	leastGive = `
for i = 1, #ARGV do
  redis.call('HGET', ARGV[i], 'lock')
  redis.call('HSET', ARGV[i], 'lock', '1234567890123456')
end
return 'released'`
)

// leastPairs takes leastBatch locks in one request and gives them back in another one.
func leastPairs(b *testing.B, r raw, first int) pair {
	b.Helper()
	take, err := r.Load(b.Context(), leastTake)
	check(b, err)
	give, err := r.Load(b.Context(), leastGive)
	check(b, err)
	var keys []string
	for i := range leastBatch {
		keys = append(keys, fmt.Sprintf("least-%d", first+i))
	}
	return func(ctx context.Context) error {
		for _, sha := range []string{take, give} {
			if _, err := r.Eval(ctx, sha, keys[0], keys...); err != nil {
				return err
			}
		}
		return nil
	}
}

// benchMany takes and gives back at least b.N locks. It also reports what a pair costs the processor:
// client-µs in this process, and server-µs in the server.
func benchMany(b *testing.B, server *redistest.Server, timed []pair, others ...rivals64) {
	b.ReportAllocs()
	together(b, timed, 5) // warm up
	for _, o := range others {
		together(b, o.pairs, 5)
	}
	var took, ofClient, ofServer time.Duration
	ratios := make([][]float64, len(others))
	pairs := 0
	b.ResetTimer()
	for left := b.N; left > 0; left -= many * manyEach {
		each := min((left+many-1)/many, manyEach)
		b.StopTimer()
		clientBefore, serverBefore := clientCPU(b), cpuOf(b, server)
		b.StartTimer()
		d := together(b, timed, each)
		b.StopTimer()
		ofClient, ofServer = ofClient+clientCPU(b)-clientBefore, ofServer+cpuOf(b, server)-serverBefore
		took, pairs = took+d, pairs+many*each
		for i, o := range others {
			ratios[i] = append(ratios[i], together(b, o.pairs, each).Seconds()/d.Seconds())
		}
		b.StartTimer()
	}
	b.StopTimer()
	b.ReportMetric(float64(pairs)/took.Seconds(), "pairs/s")
	b.ReportMetric(ofClient.Seconds()/float64(pairs)*1e6, "client-µs")
	b.ReportMetric(ofServer.Seconds()/float64(pairs)*1e6, "server-µs")
	for i, o := range others {
		b.ReportMetric(crew.Percentile(ratios[i], 50), o.ratio)
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
