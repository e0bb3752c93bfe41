package lineage_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// The answer to an entry is lost, and the client asks again. The old way, a
// count on the server, then counts two for one: after one release the lock is still held.
// With Holdfast every entry has a number of its own, and counts once however
// often it is sent.
func TestARepeatedRequestEntersTwice(t *testing.T) {
	halves(t, func(t *testing.T, s *redistest.Server) {
		proxy := redistest.NewProxy(t, s.Addr())
		a := &hashLock{connect(t, proxy.Addr()), time.Minute, "A"}
		b := &hashLock{connect(t, s.Addr()), time.Minute, "B"}
		assert.Must(t, enter.Load(harness.Within(t), a.rdb).Err())
		proxy.DropRepliesAndCut(1, "EVALSHA")
		ok, err := a.lock(harness.Within(t))
		assert.MustTrue(t, !ok && err != nil, "the lost answer was heard: %v, %v", ok, err)
		takes(t, "A, asking again", a.lock)
		if free, err := a.unlock(harness.Within(t)); free || err != nil {
			t.Errorf("A has left as often as it entered: %v, %v: the flaw is not seen", free, err)
		}
		refused(t, "B", b.lock)
	}, func(t *testing.T, s *redistest.Server) {
		proxy := redistest.NewProxy(t, s.Addr())
		a, _ := client(t, proxy.Addr(), holdfast.Config{TTL: time.Minute})
		b, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		mu := a.Mutex(lockName, holdfast.Owner("order 7"))
		loseAnswer(proxy, script.Acquire)
		l, err := mu.TryLock(harness.Within(t)) // it withdraws the entry without an answer, and enters anew
		assert.Must(t, err)
		harness.Release(t, l)
		harness.Release(t, harness.Lock(t, b.Mutex(lockName)))
	})
}

// localCount is reentry by a count that the process keeps, one for each
// thread: a holder enters again without a request.
type localCount struct {
	compareAndDelete

	count map[string]int
}

func (l *localCount) enter(thread string) func(ctx context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		if l.count[thread] == 0 {
			if ok, err := l.lock(ctx); !ok || err != nil {
				return ok, err
			}
		}
		l.count[thread]++
		return true, nil
	}
}

// The lease ends while its holder is away, and another takes the lock. The
// count in the old process knows nothing of that: the thread enters a lock
// that another holds. With Holdfast the context that re-enters is the lease's
// own, and the lease knows when it is over.
func TestAThreadLocalCountEntersALockThatIsLost(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	halves(t, func(t *testing.T, s *redistest.Server) {
		a := &localCount{compareAndDelete{rdb: connect(t, s.Addr()), ttl: ttl}, map[string]int{}}
		b := &localCount{compareAndDelete{rdb: connect(t, s.Addr()), ttl: time.Minute}, map[string]int{}}
		takes(t, "A", a.enter("thread 1"))
		gone(t, s, lockName)
		takes(t, "B", b.enter("thread 1"))
		takes(t, "A, while B is in", a.enter("thread 1"))
	}, func(t *testing.T, s *redistest.Server) {
		proxy := redistest.NewProxy(t, s.Addr())
		a, _ := client(t, proxy.Addr(), holdfast.Config{TTL: ttl})
		b, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		mu := a.Mutex(lockName, holdfast.Reentrant())
		outer := harness.Lock(t, mu)
		inner, err := mu.Lock(outer.Context())
		assert.Must(t, err)
		harness.Release(t, inner)
		proxy.BlackHole()
		next := harness.Lock(t, b.Mutex(lockName))
		l, err := mu.Lock(outer.Context())
		assert.True(t, err != nil, "entered again with a lease that is lost: %v", l)
		proxy.Pass()
		harness.Release(t, next)
		late(t, outer)
	})
}
