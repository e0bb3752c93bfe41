package lineage_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// twoKeys is a read-write lock of two keys: how many read, and who writes.
type twoKeys struct {
	rdb *redis.Client
	ttl time.Duration
}

const readers, writer = lockName + ":readers", lockName + ":writer"

func (l *twoKeys) rlock(ctx context.Context) (bool, error) {
	if n, err := l.rdb.Exists(ctx, writer).Result(); n > 0 || err != nil {
		return false, err
	}
	if err := l.rdb.Incr(ctx, readers).Err(); err != nil {
		return false, err
	}
	return true, l.rdb.PExpire(ctx, readers, l.ttl).Err()
}

func (l *twoKeys) runlock(ctx context.Context) error { return l.rdb.Decr(ctx, readers).Err() }

func (l *twoKeys) lock(ctx context.Context) (bool, error) {
	n, err := l.rdb.Get(ctx, readers).Int()
	if n > 0 || err != nil && !errors.Is(err, redis.Nil) {
		return false, err
	}
	return l.rdb.SetNX(ctx, writer, "held", l.ttl).Result()
}

// A writer has seen that nobody reads; before it has said that it writes, a
// reader has seen that nobody writes. The old way lets both in. With
// Holdfast check and entry are one step for readers and writers alike.
func TestAReaderEntersBetweenTheTwoKeysOfAWriter(t *testing.T) {
	halves(t, sceneOfTwoKeys, func(t *testing.T, s *redistest.Server) {
		proxy := redistest.NewProxy(t, s.Addr())
		a, _ := client(t, proxy.Addr(), holdfast.Config{TTL: time.Minute})
		b, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		asked, pass := holdAnswer(t, proxy, func(request []string) bool { return is(request, script.Acquire) })
		got := harness.Acquiring(harness.Within(t), a.RWMutex(lockName).Lock)
		redistest.Next(t, "the writer at the server", asked)
		l, err := b.RWMutex(lockName).TryRLock(harness.Within(t))
		assert.True(t, errors.Is(err, holdfast.ErrHeld), "a reader beside the writer: %v, %v", l, err)
		pass()
		harness.Release(t, harness.Granted(t, got))
	})
}

// A reader dies. The old way counts it as long as other readers come, each of
// which gives the count a new life: no writer gets in, though in the end
// nobody reads. With Holdfast each reader's share ends by itself.
func TestACrashedReaderIsCountedWhileOthersCome(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	halves(t, func(t *testing.T, s *redistest.Server) {
		dead := &twoKeys{connect(t, s.Addr()), ttl}
		r := &twoKeys{connect(t, s.Addr()), ttl}
		w := &twoKeys{connect(t, s.Addr()), ttl}
		takes(t, "the reader that dies", dead.rlock)
		deadline := time.NewTimer(2 * ttl)
		defer deadline.Stop()
		for over := false; !over; { // one reader comes and goes, for twice the lease of the dead
			select {
			case <-deadline.C:
				over = true
			default:
				takes(t, "a reader", r.rlock)
				assert.Must(t, r.runlock(harness.Within(t)))
			}
		}
		refused(t, "the writer, while nobody reads", w.lock)
	}, func(t *testing.T, s *redistest.Server) {
		dead, _ := client(t, s.Addr(), holdfast.Config{TTL: ttl})
		r, _ := client(t, s.Addr(), holdfast.Config{TTL: ttl})
		w, _ := client(t, s.Addr(), holdfast.Config{})
		share, err := dead.RWMutex(lockName).RLock(harness.Within(t))
		assert.Must(t, err)
		defer runtime.KeepAlive(share) // or it would be released as forgotten
		dead.Abandon()                 // as a crash: nothing is sent any more
		ctx, stop := context.WithCancel(harness.Within(t))
		var coming sync.WaitGroup
		coming.Go(func() {
			for ctx.Err() == nil {
				if l, err := r.RWMutex(lockName).RLock(ctx); err == nil {
					l.Release(ctx)
				}
			}
		})
		l, err := w.RWMutex(lockName).Lock(harness.Within(t))
		if err != nil {
			t.Errorf("the writer: %v", err)
		} else {
			harness.Release(t, l)
		}
		stop()
		coming.Wait()
	})
}
