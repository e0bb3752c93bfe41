package rules_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

type key struct{}

// D17 and the observer's promise: every acquisition shows a grant or a
// failure, and every grant one end.
func TestTheObserverSeesEveryAcquisitionAndItsEnd(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const goroutines, rounds = 6, 40
		cfg := holdfast.Config{TTL: 400 * time.Millisecond, Retention: time.Second}
		var wg sync.WaitGroup
		var clients []*holdfast.Client
		var seen []*harness.Watch
		for i := range 3 {
			c, s := w.local(t, cfg)
			clients, seen = append(clients, c), append(seen, s)
			for g := range goroutines {
				wg.Go(func() { wander(t, c, uint64(100+i*goroutines+g), rounds) })
			}
		}
		wg.Wait()
		held := harness.Lock(t, clients[0].Mutex("until the close"))
		for _, c := range clients {
			c.Close(harness.Within(t))
		}
		held.Release(harness.Within(t))
		for i, s := range seen {
			calls := goroutines * rounds
			if i == 0 {
				calls++
			}
			count := func(kind observe.EventKind) int { return len(s.Of(kind, "")) }
			grants, fails := count(observe.EventGrant), count(observe.EventFail)
			assert.True(t, grants+fails == calls,
				"%d acquisitions show %d grants and %d failures", calls, grants, fails)
			ends := map[uint64]int{}
			for _, kind := range []observe.EventKind{observe.EventRelease, observe.EventLost, observe.EventLeak} {
				for _, e := range s.Of(kind, "") {
					ends[e.Token]++
				}
			}
			for _, e := range s.Of(observe.EventGrant, "") {
				assert.Equal(t, ends[e.Token], 1, "ends of the grant of token %d", e.Token)
			}
			assert.True(t, len(ends) == grants, "%d grants, %d ends", grants, len(ends))
		}
	})
}
