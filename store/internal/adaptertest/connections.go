package adaptertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// dead is a client whose connections a router has forgotten.
type dead struct {
	t      *testing.T
	proxy  *redistest.Proxy // in front of one server
	forget func() int       // forgets the connections
	c      *holdfast.Client
	other  *holdfast.Client // past the router
	name   string           // of the lock
}

// limit is the time limit of a request in these tests. On a busy machine everything takes longer, so each
// call has a limit of its own that only a lost request exceeds.
const limit = 10 * time.Second

func (l Library) deadAt(t *testing.T, server *redistest.Server) *dead {
	proxy := redistest.NewProxy(t, server.Addr())
	d := deadOver(t, l.store(t, proxy.Addr(), Client{Watched: true}), l.store(t, server.Addr(), Client{}))
	d.proxy, d.forget = proxy, proxy.Forget
	return d
}

// deadOver makes one over a store behind the router and one past it.
func deadOver(t *testing.T, behind, past store.Store) *dead {
	d := &dead{t: t, name: "a"}
	for st, c := range map[store.Store]**holdfast.Client{behind: &d.c, past: &d.other} {
		made, err := holdfast.New(st, holdfast.Config{RequestTimeout: limit, Prefix: redistest.Prefix()})
		assert.Must(t, err)
		*c = made
	}
	t.Cleanup(d.close)
	return d
}

// close closes the clients, whose connections may be dead. It may be called again.
func (d *dead) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = d.c.Close(ctx), d.other.Close(ctx)
}

// use makes n goroutines hold a lock at the same time, so that the client has as many connections as it
// makes for that.
func (d *dead) use(n int) {
	d.t.Helper()
	var all, held sync.WaitGroup
	held.Add(n)
	for i := range n {
		all.Go(func() {
			l, err := d.c.Mutex(fmt.Sprint(d.name, "-", i)).Lock(d.t.Context())
			held.Done()
			held.Wait()
			if err == nil {
				err = l.Release(d.t.Context())
			}
			if err != nil {
				d.t.Error(err)
			}
		})
	}
	all.Wait()
}

// DeadConnectionsCostLittle tests that each call succeeds within the limit of one request although a router
// has forgotten all connections of the client. For some calls those are ten.
func (l Library) DeadConnectionsCostLittle(t *testing.T) {
	t.Run("every call", l.everyDeadCall)
	t.Run("a short lease", l.deadConnectionCostsNoLease)
}

// trial is a call over dead connections.
type trial struct {
	*dead
	title string
	call  calling
	took  time.Duration
	err   error
}

func (l Library) everyDeadCall(t *testing.T) {
	t.Parallel()
	eachCall(t)
	server := l.start(t, redistest.AllowAll())
	var trials []*trial
	for name, prepare := range deadCalls {
		for _, n := range []int{1, 10} {
			if n > 1 && !strings.HasPrefix(name, "Mutex.Lock") && name != "Mutex.TryLock" && name != "Lease.Release" {
				continue
			}
			d := l.deadAt(t, server)
			d.name = fmt.Sprint(name, " ", n)
			d.use(n)
			trials = append(trials, &trial{dead: d, title: d.name, call: prepare(d)})
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
	defer cancel()
	var all sync.WaitGroup
	for _, one := range trials {
		assert.True(t, one.forget() > 0, "%s: there is no connection", one.title)
		all.Go(func() {
			began := time.Now()
			one.err = one.call(ctx)
			one.took = time.Since(began)
		})
	}
	all.Wait()
	for _, one := range trials {
		all.Go(one.close)
	}
	all.Wait()
	slices.SortFunc(trials, func(a, b *trial) int { return cmp.Compare(b.took, a.took) })
	for _, one := range trials {
		t.Logf("%-30s %v", one.title, one.took.Round(time.Millisecond))
		assert.True(t, one.err == nil, "%s: %v", one.title, one.err)
		assert.AtMost(t, one.took, 3*limit, "%s took", one.title)
	}
}

// try makes a call when n goroutines have used the connections, and a router has forgotten them.
func (d *dead) try(t *testing.T, n int, prepare func(d *dead) calling) {
	d.use(n)
	call := prepare(d)
	assert.True(t, d.forget() > 0, "there is no connection")
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
	defer cancel()
	began := time.Now()
	assert.NoError(t, call(ctx))
	took := time.Since(began)
	t.Logf("it took %v", took.Round(time.Millisecond))
	assert.AtMost(t, took, 3*limit, "it took")
}

// DeadConnectionsEverywhere is [Library.DeadConnectionsCostLittle] behind Sentinel, in a Cluster and
// over a quorum.
func (l Library) DeadConnectionsEverywhere(t *testing.T) {
	for topology, open := range map[string]func(t *testing.T) func(t *testing.T) *dead{
		"Sentinel": func(t *testing.T) func(t *testing.T) *dead {
			group := redistest.StartSentinel(t, append([]redistest.Option{Free}, l.Needs...)...)
			group.AwaitReady()
			return func(t *testing.T) *dead {
				router := new(redistest.Router)
				d := deadOver(t, l.OpenSentinelBehind(t, router, group), l.OpenSentinel(t, group))
				d.forget = router.Forget
				return d
			}
		},
		"Cluster": func(t *testing.T) func(t *testing.T) *dead {
			cluster := redistest.StartCluster(t, append([]redistest.Option{Free}, l.Needs...)...)
			return func(t *testing.T) *dead {
				router := new(redistest.Router)
				d := deadOver(t, l.OpenClusterBehind(t, router, cluster), l.OpenCluster(t, cluster))
				d.forget = router.Forget
				return d
			}
		},
		"quorum": func(t *testing.T) func(t *testing.T) *dead { return l.deadQuorum },
	} {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			opened := open(t)
			for _, name := range []string{
				"Mutex.Lock", "Mutex.TryLock", "Lease.Release", "Mutex.Lock, pushed", "Client.Check", "Client.Inspect",
			} {
				t.Run(name, func(t *testing.T) { opened(t).try(t, 1, deadCalls[name]) })
			}
		})
	}
}

// deadQuorum is dead over three servers.
func (l Library) deadQuorum(t *testing.T) *dead {
	var behind, past []store.Store
	var proxies []*redistest.Proxy
	for range 3 {
		server := l.start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		proxies = append(proxies, proxy)
		behind = append(behind, l.store(t, proxy.Addr(), Client{Watched: true}))
		past = append(past, l.store(t, server.Addr(), Client{}))
	}
	var over [2]store.Store
	for i, nodes := range [][]store.Store{behind, past} {
		q, err := quorum.New(nodes, quorum.Config{Timeout: limit / 2}) // the default is short beside the race detector
		assert.Must(t, err)
		t.Cleanup(q.Close)
		over[i] = q
	}
	d := deadOver(t, over[0], over[1])
	d.forget = func() (forgotten int) {
		for _, proxy := range proxies {
			forgotten += proxy.Forget()
		}
		return forgotten
	}
	return d
}

// deadConnectionCostsNoLease tests that a lease that is shorter than the limit of a request outlives
// the connection over which it was granted, under a default Config. A machine that stands still for a second may cost
// one such lease, with any connection, but not each of five.
func (l Library) deadConnectionCostsNoLease(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, l.start(t).Addr())
	for try := 1; ; try++ {
		err := l.shortLease(t, proxy)
		if err == nil {
			return
		}
		assert.MustTrue(t, try < 5, "the lease is lost at each try: %v", err)
		t.Log(err)
	}
}

// shortLease holds a lease for twice its TTL, after its connection has died.
func (l Library) shortLease(t *testing.T, proxy *redistest.Proxy) error {
	renewed := make(renewedAfter, 100)
	cfg := holdfast.Config{Prefix: redistest.Prefix(), Observer: renewed}
	c, err := holdfast.New(l.store(t, proxy.Addr(), Client{Watched: true}), cfg)
	assert.Must(t, err)
	defer func() { assert.NoError(t, c.Close(context.Background())) }()
	lease, err := c.Mutex("a", holdfast.TTL(2*time.Second)).Lock(t.Context())
	assert.Must(t, err)
	granted := time.Now()
	assert.True(t, proxy.Forget() > 0, "there is no connection")
	for time.Since(granted) < 4*time.Second && lease.Err() == nil {
		t.Logf("renewed with %v left", redistest.Next(t, "a renewal", renewed).Round(time.Millisecond))
	}
	if err := lease.Err(); err != nil {
		return err
	}
	return lease.Release(t.Context())
}

// renewedAfter receives how long the lease would have lasted without each renewal, or 0 for one that failed.
type renewedAfter chan time.Duration

func (r renewedAfter) Observe(e observe.Event) {
	if e.Kind == observe.EventRenew || e.Kind == observe.EventLost {
		r <- e.Remaining
	}
}

// SlowServerGetsNothingTwice tests that a server that answers later than a connection is doubted gets each
// request once, and loses no connection.
func (l Library) SlowServerGetsNothingTwice(t *testing.T) {
	slowly := func(delay time.Duration) func(*dead, *redistest.Server) {
		return func(d *dead, _ *redistest.Server) { d.proxy.Delay(delay) }
	}
	for name, slow := range map[string]func(*dead, *redistest.Server){
		"400ms": slowly(400 * time.Millisecond),
		"1.5s":  slowly(1500 * time.Millisecond),
		// A server that holds writes back answers PING.
		"writes": func(d *dead, s *redistest.Server) { s.Do(d.t, "CLIENT", "PAUSE", 1500, "WRITE") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := l.start(t)
			d := l.deadAt(t, server)
			d.use(1)
			var asked, answered atomic.Int32 // the client also says in the background who it is
			d.proxy.Hook(func(e redistest.Event) {
				if len(e.Request) < 2 || e.Request[1] != script.Acquire.SHA1 && e.Request[1] != script.Release.SHA1 {
					return
				}
				switch e.Stage {
				case redistest.Arrived:
					asked.Add(1)
				case redistest.Answered:
					answered.Add(1)
				default:
				}
			})
			slow(d, server)
			lease, err := d.c.Mutex("a").TryLock(t.Context())
			assert.Must(t, err)
			assert.Must(t, lease.Release(t.Context()))
			assert.Equal(t, asked.Load(), 2, "requests")
			redistest.Await(t, "both were answered", func() bool { return answered.Load() == 2 })
		})
	}
}

// SilentServerGetsNothingTwice checks that nothing is given up while the server answers nobody: a new connection
// learns nothing either. The answer counts, however late it is.
func (l Library) SilentServerGetsNothingTwice(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, l.start(t).Addr())
	st := l.store(t, proxy.Addr(), Client{Watched: true})
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
	defer cancel()
	ask := func() error { return assert.Err(st.Run(ctx, script.Inspect, []string{"holdfast:{x}"}, nil)) }
	assert.Must(t, ask())
	var asked atomic.Int32
	proxy.Hook(func(e redistest.Event) {
		if e.Stage == redistest.Arrived && len(e.Request) > 1 && e.Request[1] == script.Inspect.SHA1 {
			asked.Add(1)
		}
	})
	proxy.Delay(5 * time.Second) // longer than a question of a new connection may take
	assert.Must(t, ask())
	assert.Equal(t, asked.Load(), 1, "requests")
}
