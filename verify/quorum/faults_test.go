package quorum_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
	rueidisstore "github.com/holdfast-go/holdfast/store/rueidis"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// The clock of one server that granted a lease is set forward past its end.
func TestAServerWhoseClockWasSetForwardDoesNotGrantASecondTime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		// The server whose clock can be set is one of the three that granted the lease.
		addrs, ways := w.ways(t, 0, 1)
		a := w.clientOf(t, w.storeAt(t, ttl, timeout, addrs))
		b := w.client(t)
		h := harness.NewHistory(t)
		contend(t, h, 1, a, b)
		for _, way := range ways {
			way.RefuseNew(true)
			way.Cut()
		}
		l := take(t, a.Mutex("x", holdfast.NoRenewal()))
		if l == nil {
			return
		}
		w.servers[4].MoveClock(ahead + time.Hour)
		redistest.Await(t, "the lock is granted again", func() bool {
			m, err := b.Mutex("x").TryLock(harness.Within(t))
			if err != nil {
				return false
			}
			assert.True(t, l.Err() != nil, "two holders, %d and %d", l.Token(), m.Token())
			return m.Release(harness.Within(t)) == nil
		})
	})
}

// If somebody acquires the lock on the coordinator alone, that blocks nobody for longer than
// two leases.
func TestACoordinatorThatAlwaysSaysHeldHasNoVeto(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		b := w.client(t)
		h := harness.NewHistory(t)
		contend(t, h, 1, b)
		coordinator := w.servers[majority.Order(harness.Key("x"), 5)[0]]
		cfg := holdfast.Config{TTL: ttl, Prefix: redistest.Prefix()}
		alone, err := holdfast.New(w.open(t, coordinator.Addr(), timeout), cfg)
		assert.Must(t, err)
		t.Cleanup(func() { _ = alone.Close(harness.Within(t)) })
		there := take(t, alone.Mutex("x"))
		l := take(t, b.Mutex("x"))
		if l == nil {
			return
		}
		assert.NoError(t, there.Err())
		assert.NoError(t, l.Release(harness.Within(t)))
	})
}

// A server that was stopped during the acquisition is brought into the lease.
func TestAServerThatDidNotAnswerJoinsTheLease(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.client(t)
		h := harness.NewHistory(t)
		contend(t, h, 1, a)
		w.servers[1].Pause()
		defer w.servers[1].Continue()
		w.servers[2].Kill()
		l := take(t, a.Mutex("x"))
		if l == nil {
			return
		}
		w.servers[1].Continue()
		w.servers[2].Restart()
		w.holding(t, l)
		assert.NoError(t, l.Release(harness.Within(t)))
		redistest.Await(t, "nobody holds", func() bool {
			for _, s := range w.servers {
				if record, _ := s.Do(t, "HGET", harness.Key("x"), "lock").(string); len(strings.Fields(record)) > 1 {
					return false
				}
			}
			return true
		})
	})
}

// rueidis connects when its client is made: a node that is down is opened later.
func TestAQuorumOverRueidisIsOpenedWhileANodeIsDown(t *testing.T) {
	t.Parallel()
	w := &world{servers: redistest.Primaries(t, 5)}
	w.servers[3].Kill()
	nodes := make([]store.Store, 5)
	for i, s := range w.servers {
		nodes[i] = quorum.Lazy(func() (store.Store, error) {
			rdb, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{s.Addr()}, TLSConfig: redistest.TLS(), DisableCache: true,
				ConnWriteTimeout: timeout, Dialer: net.Dialer{Timeout: timeout},
			})
			if err != nil {
				return nil, err
			}
			t.Cleanup(rdb.Close)
			return rueidisstore.New(rdb), nil
		})
	}
	s, err := quorum.New(nodes, quorum.Config{MaxTTL: ttl, Timeout: timeout})
	assert.Must(t, err)
	t.Cleanup(s.Close)
	c := w.clientOf(t, s)
	l := take(t, c.Mutex("x"))
	if l == nil {
		return
	}
	w.servers[3].Restart()
	w.holding(t, l)
	assert.NoError(t, l.Release(harness.Within(t)))
}
