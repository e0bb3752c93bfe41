package lineage_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// luaExpire mends the first lock by a script: both commands in one request.
type luaExpire struct {
	rdb *redis.Client
	ttl time.Duration
}

var setAndExpire = redis.NewScript(`
	if redis.call('SETNX', KEYS[1], 'held') == 0 then return 0 end
	redis.call('PEXPIRE', KEYS[1], ARGV[1])
	return 1`)

func (l *luaExpire) lock(ctx context.Context) (bool, error) {
	return setAndExpire.Run(ctx, l.rdb, []string{lockName}, l.ttl.Milliseconds()).Bool()
}

// The holder's link goes silent, so that nothing can be renewed. The old lock
// goes to another. With Holdfast the holder knows that its lease is
// over before another has the lock.
func TestACutOffHolderIsNotTold(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	halves(t, func(t *testing.T, s *redistest.Server) {
		proxy := redistest.NewProxy(t, s.Addr())
		a := &luaExpire{connect(t, proxy.Addr()), ttl}
		b := &luaExpire{connect(t, s.Addr()), ttl}
		takes(t, "A", a.lock)
		proxy.BlackHole()
		gone(t, s, lockName)
		takes(t, "B, while A works", b.lock)
	}, func(t *testing.T, s *redistest.Server) {
		proxy := redistest.NewProxy(t, s.Addr())
		a, _ := client(t, proxy.Addr(), holdfast.Config{TTL: ttl})
		b, _ := client(t, s.Addr(), holdfast.Config{})
		l := harness.Lock(t, a.Mutex(lockName))
		work := l.Context()
		proxy.BlackHole()
		next, told := nextHolder(t, b, work.Err)
		assert.True(t, told != nil, "another was granted the lock before the holder knew")
		harness.Release(t, next)
		late(t, l)
	})
}
