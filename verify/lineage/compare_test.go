package lineage_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// compareAndDelete is the lock of most libraries: SET NX PX with a random
// value, and a script that deletes only that value.
type compareAndDelete struct {
	rdb   *redis.Client
	ttl   time.Duration
	value string
}

var deleteMine = redis.NewScript(`
	if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
	return 0`)

func (l *compareAndDelete) lock(ctx context.Context) (bool, error) {
	l.value = rand.Text()
	return l.rdb.SetNX(ctx, lockName, l.value, l.ttl).Result()
}

func (l *compareAndDelete) unlock(ctx context.Context) error {
	return deleteMine.Run(ctx, l.rdb, []string{lockName}, l.value).Err()
}

func (l *compareAndDelete) write(ctx context.Context, value string) error {
	return l.rdb.Set(ctx, "resource", value, 0).Err() // a random value says nothing about who came later
}

// The lease ends, and another takes the lock, while the answer to GET is on
// its way. The old way then deletes the lock of the other. With Holdfast the
// check and the release are one step: a release that arrives when another has
// the lock changes nothing.
func TestGETThenDELFreesTheLockOfAnother(t *testing.T) {
	halves(t, sceneOfGetThenDel, func(t *testing.T, s *redistest.Server) {
		const ttl = 3 * time.Second // A must hold it when it releases, on a busy machine too
		proxy := redistest.NewProxy(t, s.Addr())
		a, _ := client(t, proxy.Addr(), holdfast.Config{TTL: ttl})
		b, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		c, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		l := harness.Lock(t, a.Mutex(lockName))
		arrived := make(chan struct{}, 1)
		proxy.Hook(func(e redistest.Event) {
			if e.Stage == redistest.Arrived && is(e.Request, script.Release) {
				arrived <- struct{}{}
			}
		})
		proxy.BlackHole()
		released := make(chan error, 1)
		go func() { released <- l.Release(context.Background()) }()
		redistest.Next(t, "A's release at the proxy", arrived)
		next := harness.Lock(t, b.Mutex(lockName))
		assert.Is(t, redistest.Next(t, "A's Release", released), holdfast.ErrUnknownOutcome)
		done := executed(t, s, script.Release)
		proxy.Pass() // now A's release gets there
		done()
		held(t, c)
		harness.Release(t, next)
	})
}

// A process is stopped past its lease, goes on, and writes. A resource cannot
// tell the random values of two holders apart: the late write overwrites the
// newer one. Holdfast's tokens rise, and the resource refuses the lower one.
func TestARandomValueCannotRefuseALateWriter(t *testing.T) {
	const ttl = time.Second
	halves(t, func(t *testing.T, s *redistest.Server) {
		a := start(t, "compare and delete", s.Addr(), ttl)
		a.Hear(t, "held")
		a.Stop(t)
		gone(t, s, lockName)
		b := &compareAndDelete{rdb: connect(t, s.Addr()), ttl: time.Minute}
		takes(t, "B", b.lock)
		assert.Must(t, b.write(harness.Within(t), "B"))
		a.Resume()
		a.Order("write A")
		a.Hear(t, "wrote")
		assert.Equal(t, s.Do(t, "GET", "resource"), "A", "the resource: the flaw is not seen")
	}, func(t *testing.T, s *redistest.Server) {
		a := start(t, "Holdfast", s.Addr(), ttl)
		a.Hear(t, "held")
		a.Order("write A")
		assert.Equal(t, a.Hear(t, "wrote"), "<nil>", "the holder's write")
		a.Stop(t)
		rdb := connect(t, s.Addr())
		c, _ := client(t, s.Addr(), holdfast.Config{})
		l := harness.Lock(t, c.Mutex(lockName))
		assert.Must(t, writeFenced(harness.Within(t), rdb, l, "B"))
		a.Resume()
		a.Order("write A")
		assert.Contains(t, a.Hear(t, "wrote"), "STALE")
		assert.Equal(t, s.Do(t, "HGET", "resource", "value"), "B", "the resource has")
		harness.Release(t, l)
	})
}
