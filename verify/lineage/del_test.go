package lineage_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// setDel takes the lock in one command, and frees whatever it finds.
type setDel struct {
	rdb *redis.Client
	ttl time.Duration
}

func (l *setDel) lock(ctx context.Context) (bool, error) {
	return l.rdb.SetNX(ctx, lockName, "held", l.ttl).Result() // SET NX PX
}

func (l *setDel) unlock(ctx context.Context) error { return l.rdb.Del(ctx, lockName).Err() }

func (l *setDel) write(ctx context.Context, value string) error {
	return l.rdb.Set(ctx, "resource", value, 0).Err()
}

// A process is stopped past its lease, goes on, and frees the lock. The old
// way frees the lock of another, and a third process acquires it beside that one. With
// Holdfast it frees nothing and is told so.
func TestDELWithoutACheckFreesTheLockOfAnother(t *testing.T) {
	const ttl = time.Second
	halves(t, func(t *testing.T, s *redistest.Server) {
		sceneOfDel(t, s)
		a := start(t, "SET NX PX, DEL", s.Addr(), ttl)
		b := &setDel{connect(t, s.Addr()), time.Minute}
		c := &setDel{connect(t, s.Addr()), time.Minute}
		a.Hear(t, "held")
		a.Stop(t)
		gone(t, s, lockName)
		takes(t, "B", b.lock)
		refused(t, "C, while B holds", c.lock)
		a.Resume()
		a.Order("release")
		a.Hear(t, "released")
		takes(t, "C, while B holds", c.lock)
	}, func(t *testing.T, s *redistest.Server) {
		a := start(t, "Holdfast", s.Addr(), ttl)
		a.Hear(t, "held")
		b, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		c, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		a.Stop(t)
		l := harness.Lock(t, b.Mutex(lockName))
		a.Resume()
		a.Order("release")
		assert.Contains(t, a.Hear(t, "released"), strings.TrimPrefix(holdfast.ErrNotHeld.Error(), "holdfast: "))
		held(t, c)
		harness.Release(t, l)
	})
}
