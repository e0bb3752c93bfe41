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

// setnxExpire is the first lock: take it, then give it an end.
type setnxExpire struct {
	rdb *redis.Client
	ttl time.Duration
}

func (l *setnxExpire) lock(ctx context.Context) (bool, error) {
	ok, err := l.rdb.Do(ctx, "SETNX", lockName, "held").Bool()
	if !ok || err != nil {
		return false, err
	}
	return true, l.rdb.Expire(ctx, lockName, l.ttl).Err()
}

func (l *setnxExpire) unlock(ctx context.Context) error { return l.rdb.Del(ctx, lockName).Err() }

func (l *setnxExpire) write(ctx context.Context, value string) error {
	return l.rdb.Set(ctx, "resource", value, 0).Err()
}

// A process is killed after its first command. Then the old lock has no end,
// and nobody who could delete it. With Holdfast taking the lock is one step,
// and what a dead process holds ends with its lease.
func TestAProcessKilledBetweenSETNXAndEXPIREHoldsForEver(t *testing.T) {
	const ttl = time.Second
	// killed runs a child until the server has done its first request of such
	// a kind, of which it never hears: what it would send next is not sent.
	killed := func(t *testing.T, s *redistest.Server, role, command string, first func([]string) bool) {
		proxy, done := redistest.NewProxy(t, s.Addr()), make(chan struct{}, 1)
		proxy.Hook(func(e redistest.Event) {
			if e.Stage == redistest.Executed && first(e.Request) {
				proxy.BlackHole()
				done <- struct{}{}
			}
		})
		p := start(t, role, proxy.Addr(), ttl)
		redistest.Next(t, command, done)
		p.Die()
	}
	halves(t, func(t *testing.T, s *redistest.Server) {
		sceneOfSetnx(t, s)
		killed(t, s, "SETNX EXPIRE", "SETNX", func(request []string) bool { return request[0] == "SETNX" })
		other := &setnxExpire{connect(t, s.Addr()), ttl}
		refused(t, "another process", other.lock)
		left := s.Do(t, "PTTL", lockName)
		assert.True(t, left == int64(-1), "the lock ends in %v ms: the flaw is not seen", left)
	}, func(t *testing.T, s *redistest.Server) {
		killed(t, s, "Holdfast", "acquire", func(request []string) bool { return is(request, script.Acquire) })
		assert.AtLeast(t, s.Do(t, "PTTL", harness.Key(lockName)).(int64), 0, "the record has no end")
		c, _ := client(t, s.Addr(), holdfast.Config{})
		harness.Release(t, harness.Lock(t, c.Mutex(lockName)))
	})
}
