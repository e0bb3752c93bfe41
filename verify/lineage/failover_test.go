package lineage_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// counted is compare and delete with a fencing token that a counter gives.
type counted struct {
	compareAndDelete

	token int64
}

func (l *counted) lock(ctx context.Context) (bool, error) {
	ok, err := l.compareAndDelete.lock(ctx)
	if !ok || err != nil {
		return ok, err
	}
	l.token, err = l.rdb.Incr(ctx, lockName+":token").Result()
	return true, err
}

// couple is a primary and its replica, which a failover puts in its place.
type couple struct {
	primary, replica *redistest.Server
	addr             atomic.Pointer[string] // of what is the primary now
}

func newCouple(t *testing.T, primary *redistest.Server) *couple {
	t.Helper()
	c := &couple{primary: primary, replica: server(t, redistest.ReplicaOf(primary))}
	addr := primary.Addr()
	c.addr.Store(&addr)
	return c
}

// connect is a client that finds the primary, as one does with a Sentinel.
func (c *couple) connect(t *testing.T) *redis.Client {
	t.Helper()
	options := plain("the primary")
	options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, *c.addr.Load())
	}
	rdb := redis.NewClient(options)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// cut ends the replication: the replica keeps what it has.
func (c *couple) cut(t *testing.T) {
	t.Helper()
	_, port, err := net.SplitHostPort(redistest.ClosedAddr(t))
	assert.Must(t, err)
	c.replica.Do(t, "REPLICAOF", "127.0.0.1", port)
}

// failover kills the primary and puts the replica in its place.
func (c *couple) failover(t *testing.T) {
	t.Helper()
	c.primary.Kill()
	c.replica.Do(t, "REPLICAOF", "NO", "ONE")
	addr := c.replica.Addr()
	c.addr.Store(&addr)
}

// The primary dies before its replica has heard of the grant. Exclusion is
// lost then, in every way, for the new primary cannot know what it never heard.
// The old way gives the second holder the same token, too, so that no
// resource can tell the two apart. Holdfast's tokens rise all the same, and
// the first holder learns of it with its next renewal.
func TestAFailoverRepeatsACountersToken(t *testing.T) {
	halves(t, func(t *testing.T, s *redistest.Server) {
		c := newCouple(t, s)
		a := &counted{compareAndDelete: compareAndDelete{rdb: c.connect(t), ttl: time.Minute}}
		b := &counted{compareAndDelete: compareAndDelete{rdb: c.connect(t), ttl: time.Minute}}
		c.cut(t)
		takes(t, "A", a.lock)
		c.failover(t)
		takes(t, "B, while A holds", b.lock)
		assert.True(t, a.token == b.token, "the tokens are %d and %d: the flaw is not seen", a.token, b.token)
	}, func(t *testing.T, s *redistest.Server) {
		c := newCouple(t, s)
		a, _ := harness.Client(t, goredis.New(c.connect(t)), holdfast.Config{TTL: 3 * time.Second})
		b, _ := harness.Client(t, goredis.New(c.connect(t)), holdfast.Config{TTL: time.Minute})
		c.cut(t)
		first := harness.Lock(t, a.Mutex(lockName))
		work := first.Context()
		c.failover(t)
		second := harness.Lock(t, b.Mutex(lockName))
		assert.True(t, second.Token() > first.Token(), "tokens %d, then %d", first.Token(), second.Token())
		redistest.Next(t, "A learns that it lost the lock", work.Done())
		assert.Is(t, context.Cause(work), holdfast.ErrLost)
		late(t, first)
		harness.Release(t, second)
	})
}
