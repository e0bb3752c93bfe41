package lineage_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// rwHash is a read-write lock in one hash: its mode, and a count for each holder.
// Readers and writers have time-outs of their own, but the key has one
// expiry: the last holder sets it.
type rwHash struct {
	rdb              *redis.Client
	owner            string
	reading, writing time.Duration
}

var (
	enterReading = redis.NewScript(`
		if redis.call('HGET', KEYS[1], 'mode') == 'write' then return 0 end
		redis.call('HSET', KEYS[1], 'mode', 'read')
		redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
		redis.call('PEXPIRE', KEYS[1], ARGV[2])
		return 1`)
	enterWriting = redis.NewScript(`
		if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
		redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[1], 1)
		redis.call('PEXPIRE', KEYS[1], ARGV[2])
		return 1`)
)

func (l *rwHash) rlock(ctx context.Context) (bool, error) {
	return enterReading.Run(ctx, l.rdb, []string{lockName}, l.owner, l.reading.Milliseconds()).Bool()
}

func (l *rwHash) lock(ctx context.Context) (bool, error) {
	return enterWriting.Run(ctx, l.rdb, []string{lockName}, l.owner, l.writing.Milliseconds()).Bool()
}

// One reader reads for long, another for a moment. The old way gives both the short
// time-out of the second one: a writer gets the lock while the first still reads. With
// Holdfast each has an expiry of its own.
func TestAShortReadersTimeoutEndsALongReadersLock(t *testing.T) {
	t.Parallel()
	const short, long = 3 * time.Second, time.Minute
	halves(t, func(t *testing.T, s *redistest.Server) {
		a := &rwHash{connect(t, s.Addr()), "A", long, long}
		b := &rwHash{connect(t, s.Addr()), "B", short, long}
		c := &rwHash{connect(t, s.Addr()), "C", long, long}
		takes(t, "A, for a minute", a.rlock)
		takes(t, "B, for a moment", b.rlock)
		refused(t, "the writer", c.lock)
		gone(t, s, lockName)
		takes(t, "the writer, while A reads", c.lock)
	}, func(t *testing.T, s *redistest.Server) {
		a, _ := client(t, s.Addr(), holdfast.Config{TTL: long})
		b, _ := client(t, s.Addr(), holdfast.Config{TTL: short})
		c, _ := client(t, s.Addr(), holdfast.Config{TTL: long})
		reading, err := a.RWMutex(lockName).RLock(harness.Within(t))
		assert.Must(t, err)
		share, err := b.RWMutex(lockName).RLock(harness.Within(t))
		assert.Must(t, err)
		defer runtime.KeepAlive(share) // or it would be released as forgotten
		b.Abandon()                    // its share ends by itself
		redistest.Await(t, "the short reader's share has ended", func() bool {
			state, err := c.Inspect(harness.Within(t), lockName)
			return err == nil && len(state.Holders) == 1
		})
		if l, err := c.RWMutex(lockName).TryLock(harness.Within(t)); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("a writer beside the long reader: %v, %v", l, err)
		}
		harness.Release(t, reading)
		l, err := c.RWMutex(lockName).Lock(harness.Within(t))
		assert.Must(t, err)
		harness.Release(t, l)
	})
}
