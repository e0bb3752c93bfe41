package lineage_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// setNXPX is the lock of the manual: one command, a value of one's own.
type setNXPX struct {
	rdb   *redis.Client
	ttl   time.Duration
	value string
}

func (l *setNXPX) lock(ctx context.Context) (bool, error) {
	return l.rdb.SetNX(ctx, lockName, l.value, l.ttl).Result()
}

// The answer to the request is lost. The old way asks again, as every client
// with retries does, and finds the lock taken: by itself. Nobody works, and
// all wait for the end of the lease. With Holdfast what was granted unheard is
// given back at once, and the call gets the lock.
func TestALostAnswerLeavesALockThatNobodyHolds(t *testing.T) {
	const ttl = time.Minute // longer than the test waits for anything
	halves(t, func(t *testing.T, s *redistest.Server) {
		proxy := redistest.NewProxy(t, s.Addr())
		a := &setNXPX{connect(t, proxy.Addr()), ttl, "A"}
		b := &setNXPX{connect(t, s.Addr()), ttl, "B"}
		proxy.DropRepliesAndCut(1, "SET")
		ok, err := a.lock(harness.Within(t))
		assert.MustTrue(t, !ok && err != nil, "the lost answer was heard: %v, %v", ok, err)
		refused(t, "A, asking again", a.lock)
		refused(t, "B", b.lock)
		assert.Equal(t, s.Do(t, "GET", lockName), "A", "the holder of the lock: the flaw is not seen")
	}, func(t *testing.T, s *redistest.Server) {
		proxy := redistest.NewProxy(t, s.Addr())
		a, _ := client(t, proxy.Addr(), holdfast.Config{TTL: ttl})
		b, _ := client(t, s.Addr(), holdfast.Config{TTL: ttl})
		loseAnswer(proxy, script.Acquire)
		l, err := a.Mutex(lockName).TryLock(harness.Within(t)) // it withdraws what was granted unheard, and asks anew
		assert.Must(t, err)
		harness.Release(t, l)
		harness.Release(t, harness.Lock(t, b.Mutex(lockName)))
		harness.Release(t, harness.Lock(t, a.Mutex(lockName)))
	})
}
