package topology_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	rueidisstore "github.com/holdfast-go/holdfast/store/rueidis"
	"github.com/holdfast-go/holdfast/verify/internal/leaks"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{}) // nodes that are killed would be reported
	// The tests mostly wait: for servers to come up, and for each other's votes.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	leaks.Main(m,
		// rueidis closes connections to nodes that went away some seconds later,
		// and looks at the Cluster's slots some time after it was told to.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// quiet is a logger of go-redis.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// login is how a client presents itself.
type login struct{ user, password string }

// restrict makes the user who may do no more than needed: all tests run as it.
func restrict(t testing.TB, servers []*redistest.Server) login {
	t.Helper()
	for _, s := range servers {
		args := []any{"ACL", "SETUSER", "least", "reset", "on", ">pw"}
		for _, rule := range s.Rights(t) {
			args = append(args, rule)
		}
		if got := s.Do(t, args...); got != "OK" {
			t.Fatalf("ACL SETUSER: %v", got)
		}
	}
	return login{"least", "pw"}
}

// adapter makes stores with one of the client libraries, each with
// connections of its own.
type adapter struct {
	name     string
	cluster  func(t testing.TB, addrs []string, as login) store.Store
	sentinel func(t testing.TB, addrs []string, as login) store.Store
	alone    func(t testing.TB, addr string, as login) store.Store
}

var adapters = []adapter{
	{"goredis", goredisCluster, goredisSentinel, goredisAlone},
	{"rueidis", rueidisCluster, rueidisSentinel, rueidisAlone},
}

func goredisAlone(t testing.TB, addr string, as login) store.Store {
	rdb := redis.NewClient(&redis.Options{
		Addr: addr, Username: as.user, Password: as.password, TLSConfig: redistest.TLS(),
	})
	t.Cleanup(func() { rdb.Close() })
	return goredis.New(rdb)
}

func rueidisAlone(t testing.TB, addr string, as login) store.Store {
	return rueidisOf(t, rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, Username: as.user, Password: as.password,
		DisableCache: true, ConnWriteTimeout: 2 * time.Second,
	})
}

func goredisCluster(t testing.TB, addrs []string, as login) store.Store {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, Username: as.user, Password: as.password, TLSConfig: redistest.TLS(),
	})
	t.Cleanup(func() { rdb.Close() })
	return goredis.New(rdb)
}

func goredisSentinel(t testing.TB, addrs []string, as login) store.Store {
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.SentinelName, SentinelAddrs: addrs, Username: as.user, Password: as.password,
		TLSConfig: redistest.TLS(),
	})
	t.Cleanup(func() { rdb.Close() })
	return goredis.New(rdb)
}

func rueidisCluster(t testing.TB, addrs []string, as login) store.Store {
	return rueidisOf(t, rueidis.ClientOption{
		InitAddress: addrs, Username: as.user, Password: as.password,
		DisableCache: true, ConnWriteTimeout: 2 * time.Second,
	})
}

func rueidisSentinel(t testing.TB, addrs []string, as login) store.Store {
	return rueidisOf(t, rueidis.ClientOption{
		InitAddress: addrs, Sentinel: rueidis.SentinelOption{MasterSet: redistest.SentinelName},
		Username: as.user, Password: as.password, DisableCache: true, ConnWriteTimeout: 2 * time.Second,
	})
}

func rueidisOf(t testing.TB, opts rueidis.ClientOption) store.Store {
	t.Helper()
	opts.TLSConfig, opts.Sentinel.TLSConfig = redistest.TLS(), redistest.TLS()
	rdb, err := rueidis.NewClient(opts)
	if err != nil {
		t.Fatalf("rueidis: %v", err)
	}
	t.Cleanup(rdb.Close)
	return rueidisstore.New(rdb)
}

// quick is the option of Clusters whose nodes are killed: they are missed soon.
var quick = redistest.NodeTimeout(time.Second)

// inCluster runs a test with each of the libraries, on a Cluster of its own.
func inCluster(
	t *testing.T, test func(t *testing.T, c *redistest.Cluster, open func(testing.TB) *party), opts ...redistest.Option,
) {
	t.Parallel()
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, opts...)
			as := restrict(t, c.Nodes)
			test(t, c, func(t testing.TB) *party { return newParty(t, a.cluster(t, c.Addrs(), as)) })
		})
	}
}

// behindSentinel runs a test with each of the libraries, on servers of its own.
func behindSentinel(t *testing.T, test func(t *testing.T, g *redistest.Sentinel, open func(testing.TB) *party)) {
	t.Parallel()
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			g := redistest.StartSentinel(t)
			g.Forbear(t)
			as := restrict(t, g.Servers)
			test(t, g, func(t testing.TB) *party { return newParty(t, a.sentinel(t, g.Addrs(), as)) })
		})
	}
}

// ttl is the lease of these tests: a failover fits into it several times.
const ttl = 12 * time.Second

// party is a client, and what it has observed.
type party struct {
	*holdfast.Client
	store store.Store

	mu      sync.Mutex
	events  []holdfast.Event
	changed chan struct{}
}

func newParty(t testing.TB, s store.Store) *party {
	t.Helper()
	p := &party{store: s, changed: make(chan struct{})}
	c, err := holdfast.New(s, holdfast.Config{
		TTL: ttl, Observer: p, MaxLocalHandOvers: -1, App: "topology", Prefix: redistest.Prefix(),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Client = c
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		c.Close(ctx)
	})
	return p
}

// Observe implements [holdfast.Observer].
func (p *party) Observe(e holdfast.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	close(p.changed)
	p.changed = make(chan struct{})
}

// await returns the n-th event of a kind on a lock.
func (p *party) await(t testing.TB, kind holdfast.EventKind, name string, n int) holdfast.Event {
	t.Helper()
	late := time.After(redistest.Patience)
	for {
		p.mu.Lock()
		changed, found := p.changed, 0
		for _, e := range p.events {
			if e.Kind != kind || e.Name != name || kind == holdfast.EventRenew && e.Err != nil {
				continue
			}
			if found++; found == n {
				p.mu.Unlock()
				return e
			}
		}
		p.mu.Unlock()
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%v of %q came %d times, want %d", kind, name, found, n)
		}
	}
}

// count is how many events of a kind on a lock there were.
func (p *party) count(kind holdfast.EventKind, name string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.Kind == kind && e.Name == name && (kind != holdfast.EventRenew || e.Err == nil) {
			n++
		}
	}
	return n
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	t.Cleanup(cancel)
	return ctx
}

func (p *party) lock(t testing.TB, name string, options ...holdfast.MutexOption) *holdfast.Lease {
	t.Helper()
	l, err := p.Mutex(name, options...).Lock(within(t))
	if err != nil {
		t.Fatalf("Lock: %v", err)
	}
	return l
}

func release(t testing.TB, l *holdfast.Lease) {
	t.Helper()
	if err := l.Release(within(t)); err != nil {
		t.Errorf("Release: %v", err)
	}
}

// outcome is what Lock returned.
type outcome struct {
	lease *holdfast.Lease
	err   error
}

// waiting locks in a goroutine of its own, and returns once it stands in line.
func (p *party) waiting(t testing.TB, name string, options ...holdfast.MutexOption) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	before := p.count(holdfast.EventWait, name)
	ctx := within(t)
	go func() {
		l, err := p.Mutex(name, options...).Lock(ctx)
		done <- outcome{l, err}
	}()
	p.await(t, holdfast.EventWait, name, before+1)
	return done
}

// granted waits for an acquisition that must succeed.
func granted(t testing.TB, c <-chan outcome) *holdfast.Lease {
	t.Helper()
	select {
	case o := <-c:
		if o.err != nil {
			t.Fatalf("Lock: %v", o.err)
		}
		return o.lease
	case <-time.After(redistest.Patience):
		t.Fatalf("Lock: not within %v", redistest.Patience)
		return nil
	}
}

// lost waits for the end of a lease that nobody released.
func lost(t testing.TB, l *holdfast.Lease, reason holdfast.LossReason) {
	t.Helper()
	select {
	case <-l.Context().Done():
	case <-time.After(redistest.Patience):
		t.Fatal("the lease did not end")
	}
	var why *holdfast.LostError
	if !errors.As(context.Cause(l.Context()), &why) || why.Reason != reason {
		t.Errorf("the cause of the end is %v, want loss: %s", context.Cause(l.Context()), reason)
	}
}

// granting is when the server granted a lease, by its clock, which is this
// machine's: tokens are made of it.
func granting(l *holdfast.Lease) time.Time { return time.UnixMicro(int64(l.Token() >> 10)) }

// history is what happened under one lock, told by those who held it.
type history struct {
	t      testing.TB
	mu     sync.Mutex
	inside *holdfast.Lease
	last   uint64
	grants int
}

// hold enters and leaves. Nobody may be inside who still trusts its lease, and
// tokens must rise.
func (h *history) hold(l *holdfast.Lease) {
	h.mu.Lock()
	if h.inside != nil && h.inside.Err() == nil {
		h.t.Errorf("two holders: %s and %s", h.inside.HolderID(), l.HolderID())
	}
	if l.Token() <= h.last {
		h.t.Errorf("token %d after %d", l.Token(), h.last)
	}
	h.inside, h.last = l, l.Token()
	h.grants++
	h.mu.Unlock()
	if err := l.Err(); err == nil {
		_ = l.Remaining()
	}
	h.mu.Lock()
	if h.inside == l {
		h.inside = nil
	}
	h.mu.Unlock()
}

// load has each of the parties lock and release until stop is called, which
// waits for them and answers how often the lock was granted. An error that is
// no unknown outcome fails the test; those are returned.
func (h *history) load(name string, parties ...*party) (stop func() (grants, unknown int)) {
	end := make(chan struct{})
	var all sync.WaitGroup
	unknown := 0
	ctx, cancel := context.WithTimeout(context.Background(), 2*redistest.Patience)
	note := func(err error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if unknown++; !errors.Is(err, holdfast.ErrUnknownOutcome) && !errors.Is(err, holdfast.ErrUnreachable) {
			h.t.Errorf("%v", err)
		}
	}
	for _, p := range parties {
		all.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				l, err := p.Mutex(name).Lock(ctx)
				if err != nil {
					note(err)
					continue
				}
				h.hold(l)
				until := l.Deadline()
				err = l.Release(ctx)
				if errors.Is(err, holdfast.ErrNotHeld) && time.Now().After(until) {
					// Nobody renews what is being released: the request took longer than
					// was left of the lease, which for one that was pushed is little.
					err = fmt.Errorf("%w: %w", holdfast.ErrUnknownOutcome, err)
				}
				if err != nil {
					note(err)
				}
			}
		})
	}
	stop = sync.OnceValues(func() (int, int) {
		close(end)
		all.Wait()
		return h.grants, unknown
	})
	h.t.Cleanup(func() {
		stop()
		cancel()
	})
	return stop
}

// served waits until the lock was granted n more times.
func (h *history) served(n int) {
	h.t.Helper()
	h.mu.Lock()
	want := h.grants + n
	h.mu.Unlock()
	redistest.Await(h.t, "the lock is granted again and again", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.grants >= want
	})
}
