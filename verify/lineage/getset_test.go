package lineage_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// fastClock is a store on a machine whose clock is ahead.
type fastClock struct {
	store.Store
	started time.Time
	ahead   time.Duration
}

func (c fastClock) Clock() func() time.Duration {
	return func() time.Duration { return c.ahead + time.Since(c.started) }
}

func (fastClock) Random() func() float64 { return nil }

// Two machines disagree on the time by more than a lease. The old lock is
// judged by the client that asks, so the fast one takes what the other holds. With
// Holdfast only the server's clock ends a lease; no client's is ever sent.
func TestAClientWithAFastClockTakesALockThatIsHeld(t *testing.T) {
	const ttl, skew = time.Minute, 61 * time.Second
	halves(t, sceneOfGetset, func(t *testing.T, s *redistest.Server) {
		a, _ := client(t, s.Addr(), holdfast.Config{TTL: ttl})
		fast := fastClock{goredis.New(connect(t, s.Addr())), time.Now(), skew}
		c, _ := harness.Client(t, fast, holdfast.Config{TTL: ttl})
		l := harness.Lock(t, a.Mutex(lockName))
		held(t, c)
		harness.Release(t, l)
		// And a fast clock harms the machine itself neither.
		l = harness.Lock(t, c.Mutex(lockName))
		assert.True(t, l.Remaining() >= ttl/2 && l.Remaining() <= ttl,
			"with a fast clock the lease has %v left of %v", l.Remaining(), ttl)
		harness.Release(t, l)
	})
}
