package compat

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// On the wire of another library, the key lives for the lock-delay longer, and a release ends it at once.
func TestALockDelayOnTheWiresOfOtherLibraries(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), TLSConfig: redistest.TLS()})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	for name, wire := range map[string]store.Store{
		"redsync": redsync.NewStore(goredis.New(rdb)), "redislock": redislock.NewStore(goredis.New(rdb)),
		"redisson": redisson.New(goredis.New(rdb), redisson.Config{Kind: redisson.Lock}),
		"readers":  redisson.New(goredis.New(rdb), redisson.Config{Kind: redisson.ReadWrite}),
	} {
		c, err := holdfast.New(wire, holdfast.Config{})
		assert.Must(t, err)
		t.Cleanup(func() { assert.NoError(t, c.Close(t.Context())) })
		take := c.Mutex(name, holdfast.LockDelay(time.Hour)).Lock
		if name == "readers" {
			take = c.RWMutex(name, holdfast.LockDelay(time.Hour)).RLock
		}
		l, err := take(t.Context())
		assert.Must(t, err)
		assert.NoError(t, l.Extend(t.Context(), time.Minute))
		s, err := c.Inspect(t.Context(), name)
		assert.Must(t, err)
		assert.MustTrue(t, len(s.Holders) == 1, "%s: %+v", name, s)
		h := s.Holders[0]
		assert.True(t, h.HolderID == l.HolderID() && h.LockDelay == time.Hour, "%s: %+v", name, h)
		assert.True(t, h.Remaining > time.Hour && l.Remaining() <= time.Minute, "%s: %+v", name, h)
		assert.NoError(t, l.Release(t.Context()))
		s, err = c.Inspect(t.Context(), name)
		assert.True(t, err == nil && !s.Held(), "%s: %v, %+v", name, err, s)
	}
}
