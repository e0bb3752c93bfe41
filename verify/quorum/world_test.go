package quorum_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

func TestMain(m *testing.M) {
	harness.Program{Parallel: 4}.Main(m) // they wait most of the time
}

const (
	ttl     = 15 * time.Second
	timeout = 2 * time.Second
)

// world is five servers. The clock of the last is ahead.
type world struct {
	servers []*redistest.Server
	adapter harness.Adapter
}

// each runs a test with each of the libraries, on servers of its own.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	for _, a := range harness.Adapters {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			// storetest has keys of its own, and counts subscribers that have left.
			shared := redistest.Allow("~storetest:*", "&storetest:*", "+unsubscribe", "+scan")
			fast := redistest.Start(t, redistest.Clock(), redistest.Needs("in a quorum"), shared)
			servers := append(redistest.Primaries(t, 4, shared), fast)
			servers[4].MoveClock(ahead)
			test(t, &world{servers: servers, adapter: a})
		})
	}
}

// ahead is by how much the last server's clock is ahead at first.
const ahead = 40 * time.Second

func (w *world) store(t testing.TB, longest, limit time.Duration) *quorum.Store {
	t.Helper()
	return w.storeAt(t, longest, limit, redistest.Addrs(w.servers))
}

// ways are the addresses of all servers, but those of proxies for the servers with these numbers.
func (w *world) ways(t testing.TB, numbers ...int) (addrs []string, ways []*redistest.Proxy) {
	addrs = redistest.Addrs(w.servers)
	for _, i := range numbers {
		way := redistest.NewProxy(t, addrs[i])
		addrs[i], ways = way.Addr(), append(ways, way)
	}
	return addrs, ways
}

// open makes a store on one server.
func (w *world) open(t testing.TB, addr string, limit time.Duration) store.Store {
	t.Helper()
	return w.adapter.Server(t, addr, harness.Login{}, limit)
}

// storeAt is a store by ways to the servers that may not be the direct ones.
func (w *world) storeAt(t testing.TB, longest, limit time.Duration, addrs []string) *quorum.Store {
	t.Helper()
	nodes := make([]store.Store, len(addrs))
	for i, addr := range addrs {
		nodes[i] = w.open(t, addr, limit)
	}
	s, err := quorum.New(nodes, quorum.Config{MaxTTL: longest, Timeout: limit})
	assert.Must(t, err)
	t.Cleanup(s.Close)
	return s
}

// client is a process of its own.
func (w *world) client(t testing.TB) *holdfast.Client {
	t.Helper()
	return w.clientOf(t, w.store(t, ttl, timeout))
}

func (w *world) clientOf(t testing.TB, s *quorum.Store) *holdfast.Client {
	t.Helper()
	c, _ := harness.Client(t, s, holdfast.Config{TTL: ttl})
	return c
}

// take locks m. It tries again, after a pause, where too few servers have
// answered in time, as they may on a machine that has other work, or too few
// count. The answer is nil after an error.
func take(t testing.TB, m *holdfast.Mutex) *holdfast.Lease {
	t.Helper()
	ctx := harness.Within(t)
	var before error
	// Without the pause it would be thousands of tries a second, each on all
	// servers: nobody else would get an answer in time.
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for ; ; <-pause.C {
		l, err := m.Lock(ctx)
		switch {
		case err == nil:
			return l
		case !errors.Is(err, holdfast.ErrUnknownOutcome) || ctx.Err() != nil:
			t.Errorf("%v; before that: %v", err, before)
			return nil
		}
		before = err
	}
}

// known returns when each of the servers has been known for longer than d. It
// asks the servers: a server stopped to find out would be missed by the leases
// that have to be renewed meanwhile.
func (w *world) known(t testing.TB, d time.Duration, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		redistest.Await(t, s.Addr()+" is known for "+d.String(), func() bool {
			text, _ := s.Do(t, "HGET", redistest.Prefix()+":quorum", "mark").(string)
			mark := majority.ParseMark(text)
			if mark.Epoch == 0 {
				return false
			}
			now := s.Do(t, "EVAL", "return redis.call('TIME')[1] * 1000", 0).(int64)
			return time.Duration(now)*time.Millisecond-mark.Shift-mark.Born > d
		})
	}
}

// holding returns when all servers hold the lease, which is renewed until they do.
func (w *world) holding(t testing.TB, l *holdfast.Lease) {
	t.Helper()
	redistest.Await(t, "all servers hold "+l.Name(), func() bool {
		if err := l.Extend(harness.Within(t), ttl); err != nil && !errors.Is(err, holdfast.ErrUnknownOutcome) {
			t.Fatal(err)
		}
		for _, s := range w.servers {
			record, _ := s.Do(t, "HGET", harness.Key(l.Name()), "lock").(string)
			if len(strings.Fields(record)) < 3 { // free: its fence, if anything
				return false
			}
		}
		return true
	})
}

// vouched returns when all servers hold the lease, and have for so long that
// each of them counts at the next renewal.
func (w *world) vouched(t testing.TB, l *holdfast.Lease) {
	t.Helper()
	w.holding(t, l)
	// The first may be what tells of a hold, and what is known since the
	// second counts from the third on.
	for range 3 {
		w.extend(t, l)
	}
}

// extend renews the lease at once.
func (w *world) extend(t testing.TB, l *holdfast.Lease) {
	t.Helper()
	redistest.Await(t, "the lease is renewed", func() bool {
		err := l.Extend(harness.Within(t), ttl)
		if err != nil && !errors.Is(err, holdfast.ErrUnknownOutcome) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// contend makes clients acquire and release the lock n times each. All holds are part of h.
func contend(t *testing.T, h *harness.History, n int, clients ...*holdfast.Client) {
	t.Helper()
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			for range n {
				l := take(t, c.Mutex("x"))
				if l == nil {
					return
				}
				h.Hold(l)
				harness.Release(t, l)
			}
		})
	}
	all.Wait()
}
