package lineage_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// watched is compare and delete with a watchdog: while the process lives, it
// gives the lock a new end every third of its lease; at most so many times if
// there is a limit.
type watched struct {
	compareAndDelete

	limit int // 0: none
	stop  chan struct{}
	dog   sync.WaitGroup
}

func watchdog(t *testing.T, rdb *redis.Client, ttl time.Duration, limit int) *watched {
	t.Helper()
	l := &watched{
		compareAndDelete: compareAndDelete{rdb: rdb, ttl: ttl}, limit: limit, stop: make(chan struct{}),
	}
	t.Cleanup(func() {
		close(l.stop)
		l.dog.Wait()
	})
	return l
}

var expireMine = redis.NewScript(`
	if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
	return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

func (l *watched) lock(ctx context.Context) (bool, error) {
	ok, err := l.compareAndDelete.lock(ctx)
	if ok {
		l.dog.Go(l.renew)
	}
	return ok, err
}

func (l *watched) renew() {
	tick := time.NewTicker(l.ttl / 3)
	defer tick.Stop()
	for n := 0; l.limit == 0 || n < l.limit; n++ {
		select {
		case <-tick.C:
			expireMine.Run(context.Background(), l.rdb, []string{lockName}, l.value, l.ttl.Milliseconds())
		case <-l.stop:
			return
		}
	}
}

// A job hangs for ever. A watchdog without a limit keeps its lock for as long.
// With Holdfast a limit can be set: the job's context ends, then the lock goes
// to the next, though the job hangs on.
func TestAWatchdogWithoutALimitKeepsAHungJobsLock(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	halves(t, func(t *testing.T, s *redistest.Server) {
		proxy := redistest.NewProxy(t, s.Addr())
		a := watchdog(t, connect(t, proxy.Addr()), ttl, 0)
		b := watchdog(t, connect(t, s.Addr()), ttl, 0)
		takes(t, "A", a.lock)
		proxy.Await(t, redistest.Executed, "EVALSHA", 7) // for more than two leases A did nothing else
		refused(t, "B", b.lock)
	}, func(t *testing.T, s *redistest.Server) {
		a, _ := client(t, s.Addr(), holdfast.Config{TTL: ttl})
		b, _ := client(t, s.Addr(), holdfast.Config{})
		hung := harness.Lock(t, a.Mutex(lockName, holdfast.MaxHold(2*ttl)))
		work := hung.Context()
		next, told := nextHolder(t, b, work.Err)
		assert.True(t, told != nil, "another was granted the lock before the job's context ended")
		harness.Release(t, next)
		late(t, hung)
	})
}

// A job takes longer than its watchdog's limit. The old way lets the lease end
// and says nothing: the job goes on beside the next. With Holdfast the job is
// told before the next is granted the lock.
func TestAWatchdogWithALimitEndsInSilence(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	halves(t, func(t *testing.T, s *redistest.Server) {
		a := watchdog(t, connect(t, s.Addr()), ttl, 2)
		b := watchdog(t, connect(t, s.Addr()), ttl, 2)
		takes(t, "A", a.lock)
		refused(t, "B", b.lock)
		gone(t, s, lockName) // A works on
		takes(t, "B, while A works", b.lock)
	}, func(t *testing.T, s *redistest.Server) {
		a, seen := client(t, s.Addr(), holdfast.Config{TTL: ttl})
		b, _ := client(t, s.Addr(), holdfast.Config{})
		l := harness.Lock(t, a.Mutex(lockName, holdfast.MaxRenewals(2)))
		work := l.Context()
		next, told := nextHolder(t, b, work.Err)
		assert.True(t, told != nil, "another was granted the lock before the job's context ended")
		assert.Equal(t, len(seen.Of(observe.EventRenew, lockName)), 2, "renewals")
		harness.Release(t, next)
		late(t, l)
	})
}
