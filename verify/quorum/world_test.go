package quorum_test

import (
	"context"
	"errors"
	"flag"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	rueidisstore "github.com/holdfast-go/holdfast/store/rueidis"
	"github.com/holdfast-go/holdfast/verify/internal/leaks"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // they wait most of the time
		panic(err)
	}
	redis.SetLogger(quiet{}) // servers that are killed would be reported
	leaks.Main(m)
}

// quiet is a logger of go-redis.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

const (
	ttl     = 15 * time.Second
	timeout = 2 * time.Second
)

// adapters make a store with one of the client libraries, which gives up no
// earlier than after limit.
var adapters = map[string]func(t testing.TB, addr string, limit time.Duration) store.Store{
	"goredis": func(t testing.TB, addr string, limit time.Duration) store.Store {
		rdb := redis.NewClient(&redis.Options{
			Addr: addr, TLSConfig: redistest.TLS(),
			DialTimeout: limit, ReadTimeout: limit, WriteTimeout: limit, PoolTimeout: limit,
		})
		t.Cleanup(func() { rdb.Close() })
		return goredis.New(rdb)
	},
	"rueidis": func(t testing.TB, addr string, limit time.Duration) store.Store {
		rdb, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, TLSConfig: redistest.TLS(), DisableCache: true, ConnWriteTimeout: limit,
			Dialer: net.Dialer{Timeout: limit},
		})
		if err != nil {
			t.Fatalf("rueidis: %v", err)
		}
		t.Cleanup(rdb.Close)
		return rueidisstore.New(rdb)
	},
}

// world is five servers. The clock of the last is ahead.
type world struct {
	servers []*redistest.Server
	open    func(t testing.TB, addr string, limit time.Duration) store.Store
}

// each runs a test with each of the libraries, on servers of its own.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	for name, open := range adapters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// storetest has keys of its own, and counts who listens no longer.
			shared := redistest.Allow("~storetest:*", "&storetest:*", "+unsubscribe")
			fast := redistest.Start(t, redistest.Clock(), redistest.Needs("in a quorum"), shared)
			servers := append(redistest.Primaries(t, 4, shared), fast)
			servers[4].MoveClock(ahead)
			test(t, &world{servers: servers, open: open})
		})
	}
}

// key is where a lock has its record.
func key(name string) string { return redistest.Prefix() + ":{" + name + "}" }

// ahead is by how much the last server's clock is ahead at first.
const ahead = 40 * time.Second

func (w *world) store(t testing.TB, longest, limit time.Duration) *quorum.Store {
	t.Helper()
	addrs := make([]string, len(w.servers))
	for i, s := range w.servers {
		addrs[i] = s.Addr()
	}
	return w.storeAt(t, longest, limit, addrs)
}

// storeAt is a store by ways to the servers that may not be the direct ones.
func (w *world) storeAt(t testing.TB, longest, limit time.Duration, addrs []string) *quorum.Store {
	t.Helper()
	nodes := make([]store.Store, len(addrs))
	for i, addr := range addrs {
		nodes[i] = w.open(t, addr, limit)
	}
	s, err := quorum.New(nodes, quorum.Config{MaxTTL: longest, Timeout: limit})
	if err != nil {
		t.Fatal(err)
	}
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
	c, err := holdfast.New(s, holdfast.Config{TTL: ttl, Prefix: redistest.Prefix()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		c.Close(ctx)
	})
	return c
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// take locks m. It tries again, after a pause, where too few servers have
// answered in time, as they may on a machine that has other work, or too few
// count. The answer is nil after an error.
func take(t testing.TB, m *holdfast.Mutex) *holdfast.Lease {
	t.Helper()
	ctx := within(t)
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
		if err := l.Extend(within(t), ttl); err != nil && !errors.Is(err, holdfast.ErrUnknownOutcome) {
			t.Fatal(err)
		}
		for _, s := range w.servers {
			record, _ := s.Do(t, "HGET", key(l.Name()), "lock").(string)
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
		err := l.Extend(within(t), ttl)
		if err != nil && !errors.Is(err, holdfast.ErrUnknownOutcome) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// history is what several clients saw of one lock.
type history struct {
	mu     sync.Mutex
	inside int
	last   uint64
	grants int
}

// contend lets clients take and release the lock n times each, and asserts that
// no two hold it and that tokens rise.
func (h *history) contend(t *testing.T, n int, clients ...*holdfast.Client) {
	t.Helper()
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			for range n {
				l := take(t, c.Mutex("x"))
				if l == nil {
					return
				}
				h.mu.Lock()
				if h.inside++; h.inside > 1 && l.Err() == nil {
					t.Error("two holders")
				}
				if l.Token() <= h.last {
					t.Errorf("token %d after %d", l.Token(), h.last)
				}
				h.last = l.Token()
				h.grants++
				h.mu.Unlock()
				h.mu.Lock()
				h.inside--
				h.mu.Unlock()
				if err := l.Release(within(t)); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	all.Wait()
}
