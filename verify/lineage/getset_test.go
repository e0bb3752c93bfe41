package lineage_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// getset is the lock without EXPIRE: its value is the time at which it ends,
// and a client that finds that time past writes its own. If several do so at once, the
// one that gets the old value back wins.
type getset struct {
	rdb *redis.Client
	ttl time.Duration
	now func() time.Time // the clock of this process's machine
}

func (l *getset) lock(ctx context.Context) (bool, error) {
	mine := strconv.FormatInt(l.now().Add(l.ttl).UnixMilli(), 10)
	if ok, err := l.rdb.Do(ctx, "SETNX", lockName, mine).Bool(); ok || err != nil {
		return ok, err
	}
	found, err := l.rdb.Get(ctx, lockName).Result()
	if err != nil {
		return false, err
	}
	if ends, err := strconv.ParseInt(found, 10, 64); err != nil || ends > l.now().UnixMilli() {
		return false, err
	}
	swapped, err := l.rdb.Do(ctx, "GETSET", lockName, mine).Text()
	return swapped == found, err
}

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
	fast := func() time.Time { return time.Now().Add(skew) }
	halves(t, func(t *testing.T, s *redistest.Server) {
		sceneOfGetset(t, s)
		a := &getset{connect(t, s.Addr()), ttl, time.Now}
		b := &getset{connect(t, s.Addr()), ttl, time.Now}
		c := &getset{connect(t, s.Addr()), ttl, fast}
		takes(t, "A", a.lock)
		refused(t, "B, whose clock is right", b.lock)
		takes(t, "C, whose clock is fast, while A holds", c.lock)
	}, func(t *testing.T, s *redistest.Server) {
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
