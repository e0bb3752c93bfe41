package rules_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// unlimited lists, in one step, the keys that would stay for ever.
const unlimited = `
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) < 0 then found[#found + 1] = key end
end
return table.concat(found, ' ')`

// Invariant I2. Every key has a life time at every moment of a life with
// waiting, cancelling, passing, evicting and crashing in it, and after it
// nothing is left.
func TestEveryKeyHasALifeTime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const clients, goroutines, rounds = 4, 4, 40
		cfg := holdfast.Config{TTL: 500 * time.Millisecond, Retention: 300 * time.Millisecond}
		var wg sync.WaitGroup
		all := make([]*holdfast.Client, clients)
		for i := range all {
			all[i], _ = w.local(t, cfg)
			for g := range goroutines {
				wg.Go(func() { wander(t, all[i], uint64(i*goroutines+g), rounds) })
			}
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			wg.Wait()
		}()
		conn, looks := w.Dial(t), 0
		for working := true; working; looks++ {
			select {
			case <-over:
				working = false
			default:
			}
			assert.MustEqual(t, conn.Do(t, "EVAL", unlimited, 0), "", "a script that may run for ever")
		}
		assert.AtLeast(t, looks, 20, "looks")
		// Half of them go without a word, as in a crash.
		for i, c := range all {
			if i%2 == 0 {
				c.Abandon()
			} else if err := c.Close(harness.Within(t)); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		redistest.Await(t, "nothing is left but the crashed clients' names", func() bool {
			left := 0
			for _, key := range w.Do(t, "KEYS", "*").([]any) {
				if !strings.HasPrefix(key.(string), redistest.Prefix()+":client:") {
					return false
				}
				left++
			}
			return left <= clients/2
		})
		for _, key := range w.Do(t, "KEYS", "*").([]any) {
			ms := w.Do(t, "PTTL", key).(int64)
			assert.True(t, ms > 0 && ms <= 15*60*1000, "%v is left for %d ms", key, ms)
		}
	})
}

// wander takes and gives up locks in all the ways there are.
func wander(t *testing.T, c *holdfast.Client, seed uint64, rounds int) {
	chance := rand.New(rand.NewPCG(seed, 1))
	for range rounds {
		name := fmt.Sprint("lock ", chance.IntN(3))
		limit := time.Duration(chance.IntN(40)) * time.Millisecond
		l, err := c.Mutex(name, holdfast.MaxWait(limit)).Lock(t.Context())
		switch what := chance.IntN(8); {
		case err != nil && what == 0:
			c.Evict(t.Context(), name, holdfast.Eviction{By: "test", Reason: "chance"})
		case err != nil:
		case what == 1:
			l.Extend(t.Context(), 700*time.Millisecond)
			l.Release(t.Context())
		case what == 2:
			l.ReleaseAfter(t.Context(), 20*time.Millisecond)
		default:
			l.Release(t.Context())
		}
	}
}

// Invariant I2 and rule 10. The record with its fence outlives the last lease
// by the retention, and no longer.
func TestTheFenceOutlivesTheLeaseByTheRetention(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c, _ := w.local(t, holdfast.Config{TTL: 10 * time.Second, Retention: 5 * time.Second})
		l := harness.Lock(t, c.Mutex("x"))
		life := func() int64 { return w.Do(t, "PTTL", harness.Key("x")).(int64) }
		ms := life()
		assert.True(t, ms > 10_000 && ms <= 15_000, "while held the record lives for %d ms", ms)
		harness.Release(t, l)
		ms = life()
		assert.True(t, ms > 0 && ms <= 15_000, "after the release the record lives for %d ms", ms)
		next := harness.Lock(t, c.Mutex("x"))
		assert.More(t, next.Token(), l.Token(), "token")
		harness.Release(t, next)
	})
}
