package rueidis_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/internal/adaptertest"
	rueidisstore "github.com/holdfast-go/holdfast/store/rueidis"
)

// library is rueidis for the tests of every store.
var library = adaptertest.Library{
	Open:         opened,
	OpenSentinel: openedSentinel,
	OpenCluster:  openedCluster,
	OpenSentinelBehind: func(t testing.TB, router *redistest.Router, group *redistest.Sentinel) store.Store {
		return rueidisstore.New(behind(t, router, rueidis.ClientOption{
			DisableCache: redistest.Secured(),
			InitAddress:  group.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: redistest.SentinelName},
		}))
	},
	OpenClusterBehind: func(t testing.TB, router *redistest.Router, cluster *redistest.Cluster) store.Store {
		return rueidisstore.New(behind(t, router, rueidis.ClientOption{InitAddress: cluster.Addrs()}))
	},
	OpenRefused:  func(t *testing.T) store.Store { return dialled(t, refusedDial(t)) },
	OpenOccupied: occupied,
	Unusable: func() map[string]store.Store {
		return map[string]store.Store{"nil": rueidisstore.New(nil)}
	},
	Needs:              []redistest.Option{caching},
	Protocols:          slices.Sorted(maps.Keys(protocols)),
	Refused:            []string{"RESP3", "RESP2"},
	Commands:           []string{"+client"},
	NoAuth:             "already authenticated",
	ReplacesConnection: true,
}

func opened(t testing.TB, addr string, c adaptertest.Client) (store.Store, func() int) {
	t.Helper()
	s, _ := open(t, addr, func(o *rueidis.ClientOption) {
		o.Username, o.Password = c.User, c.Password
		if change := protocols[c.Protocol]; change != nil {
			change(o)
		}
		if c.Watched {
			*o = rueidisstore.Watch(*o)
		}
	})
	return s, nil
}

func openedSentinel(t testing.TB, group *redistest.Sentinel) store.Store {
	t.Helper()
	return rueidisstore.New(connect(t, rueidis.ClientOption{
		DisableCache: redistest.Secured(), // the cache would need more permissions at the Sentinels
		InitAddress:  group.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: redistest.SentinelName},
	}))
}

// behind connects over a router, and watches the connections.
func behind(t testing.TB, router *redistest.Router, opts rueidis.ClientOption) rueidis.Client {
	t.Helper()
	opts.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return router.Dial(ctx, "tcp", addr)
	}
	return connect(t, rueidisstore.Watch(opts))
}

func openedCluster(t testing.TB, cluster *redistest.Cluster) store.Store {
	t.Helper()
	return rueidisstore.New(connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs()}))
}

func TestConformance(t *testing.T)               { library.Conformance(t) }
func TestConformanceBehindSentinel(t *testing.T) { library.ConformanceBehindSentinel(t) }
func TestConformanceInACluster(t *testing.T)     { library.ConformanceInACluster(t) }
func TestAScanWithoutANode(t *testing.T)         { library.ScansWithoutANode(t) }
func TestRequests(t *testing.T)                  { library.Requests(t) }
func TestAPushComesBeforeTheAnswer(t *testing.T) { library.PushFirst(t) }
func TestRefusals(t *testing.T)                  { library.Refusals(t) }
func TestSubscriptions(t *testing.T)             { library.Subscriptions(t) }

// When it unsubscribes, rueidis takes some refusals for answers to another request, and
// panics.
func TestStopAtAServerThatRefuses(t *testing.T) { library.StopsAtAServerThatRefuses(t) }
func TestStopAtANodeThatRefuses(t *testing.T)   { library.StopsAtANodeThatRefuses(t) }

func TestASubscriptionFollowsTheAddressToAnotherServer(t *testing.T) { library.FollowsTheAddress(t) }

func TestCloseLeavesNoTimer(t *testing.T)                   { library.CloseLeavesNoTimer(t) }
func TestTriesAtARefusedPortLeaveNothing(t *testing.T)      { library.TriesAtARefusedPortLeaveNothing(t) }
func TestADeadConnectionCostsLittle(t *testing.T)           { library.DeadConnectionsCostLittle(t) }
func TestASlowServerGetsNothingTwice(t *testing.T)          { library.SlowServerGetsNothingTwice(t) }
func TestADeadConnectionCostsLittleEverywhere(t *testing.T) { library.DeadConnectionsEverywhere(t) }
func TestAStoreOfNoClientRefusesEverything(t *testing.T)    { library.UnusableClients(t) }

// When the last refusals of an old server arrive, the client's connection may lead to the new
// one. Whatever else is under way there must not fail.
func TestALateRefusalDoesNotEndAPrimarysConnection(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Start(t, adaptertest.Free, caching).Addr())
	s, _ := open(t, proxy.Addr(), nil)
	s.Leave(t.Context())
	assert.Equal(t, proxy.Count(redistest.Arrived, "HELLO"), 2, "connections and questions")
	assert.Equal(t, proxy.Count(redistest.Arrived, "QUIT"), 0, "a primary's connections that are left")
}

// protocols are the protocols that a client may choose.
var protocols = map[string]func(*rueidis.ClientOption){
	"RESP3":        func(*rueidis.ClientOption) {},
	"RESP3NoCache": func(o *rueidis.ClientOption) { o.DisableCache = true },
	"RESP2":        func(o *rueidis.ClientOption) { o.DisableCache, o.AlwaysRESP2 = true, true },
	"Pool":         func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true },
}

// caching is for clients of rueidis with its defaults.
var caching = redistest.Needs("rueidis without")

// open returns a store on addr. change may change the client's options.
func open(
	t testing.TB, addr string, change func(*rueidis.ClientOption),
) (*rueidisstore.Store, rueidis.Client) {
	t.Helper()
	opts := rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
	if change != nil {
		change(&opts)
	}
	// ForceSingleClient: the store reports a server that refuses the client.
	rdb := connect(t, opts)
	return rueidisstore.New(rdb), rdb
}

func connect(t testing.TB, opts rueidis.ClientOption) rueidis.Client {
	t.Helper()
	opts.TLSConfig, opts.Sentinel.TLSConfig = redistest.TLS(), redistest.TLS()
	rdb, err := rueidis.NewClient(opts)
	assert.MustTrue(t, rdb != nil, "%v", err)
	t.Cleanup(rdb.Close)
	return rdb
}

// Requests share a connection, and one request's deadline breaks it. Another request must not
// fail by that, and least of all as if its own deadline had passed.
func TestAnothersDeadlineIsNotOurs(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Start(t, adaptertest.Free, caching).Addr())
	s, _ := open(t, proxy.Addr(), nil)
	proxy.DropReplies(1, "EVALSHA")
	dropped := func() bool { return proxy.Count(redistest.Dropped, "EVALSHA") > 0 }
	var both sync.WaitGroup
	both.Go(func() {
		for !dropped() { // again if the machine is too busy to send the request in that time
			short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			err := assert.Err(s.Run(short, adaptertest.Echo, nil, []string{"x"}))
			cancel()
			assert.True(t, errors.Is(err, context.DeadlineExceeded) || err == nil && dropped(), "got %v", err)
		}
	})
	both.Go(func() {
		proxy.Await(t, redistest.Dropped, "EVALSHA", 1)
		got, err := s.Run(t.Context(), adaptertest.Echo, nil, []string{"y"})
		assert.True(t, got == "y" && err == nil, "the other got %q, %v", got, err)
	})
	both.Wait()
}

// If no try succeeds, the error tells the end of another request's context from the end of
// the caller's own.
func TestAnothersDeadlineIsNotReportedAsOurs(t *testing.T) {
	s, _ := open(t, redistest.Start(t, adaptertest.Free, caching).Addr(), nil)
	for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
		err := s.Explain(t.Context(), end)
		assert.True(t, err != nil && !errors.Is(err, end), "while our context goes on: %v", err)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Is(t, s.Explain(ended, end), end)
	}
}

func TestSilentSubscriptionIsReplaced(t *testing.T) {
	server := redistest.Start(t, adaptertest.Free, caching)
	proxy := redistest.NewProxy(t, server.Addr())
	s, _ := open(t, proxy.Addr(), func(o *rueidis.ClientOption) {
		o.Dialer.KeepAlive, o.ConnWriteTimeout = 20*time.Millisecond, time.Second
	})
	rec, _ := adaptertest.Listen(t, s, "channel")
	before := proxy.Count(redistest.Arrived, "HELLO")
	proxy.BlackHole()
	proxy.Await(t, redistest.Arrived, "HELLO", before+2) // one for requests, and one for this subscription
	proxy.Cut()
	proxy.Pass()
	redistest.Next(t, "Resumed", rec.Resumed)
	server.Do(t, "PUBLISH", "channel", "hello")
	assert.Equal(t, redistest.Next(t, "a message", rec.Messages), "hello", "the message")
}

// If an application uses the rest of the pool, a subscription still ends, and the others
// continue.
func TestStopWithAFullPool(t *testing.T) {
	server := redistest.Start(t, adaptertest.Free, caching)
	s, _ := open(t, server.Addr(), func(o *rueidis.ClientOption) { o.BlockingPoolSize = 1 })
	other, _ := adaptertest.Listen(t, s, "other")
	_, stop := adaptertest.Listen(t, s, "gone")
	stop()
	redistest.Await(t, "the subscription has ended", func() bool {
		return server.Do(t, "PUBLISH", "gone", "x") == int64(0)
	})
	redistest.Next(t, "Resumed", other.Resumed)
	server.Do(t, "PUBLISH", "other", "hello")
	assert.Equal(t, redistest.Next(t, "a message", other.Messages), "hello", "the message")
}

// While one of two subscriptions ends, the server still counts the other.
func TestStopDoesNotInterruptTheOthers(t *testing.T) {
	server := redistest.Start(t, adaptertest.Free, caching)
	s, _ := open(t, server.Addr(), nil)
	other := adaptertest.NewRecorder(100_000)
	stopTheOther, err := s.Listen(t.Context(), "other", other.Listener())
	assert.Must(t, err)
	t.Cleanup(stopTheOther)
	_, stop := adaptertest.Listen(t, s, "gone")
	done := make(chan struct{})
	go func() {
		stop()
		close(done)
	}()
	watch := server.Dial(t)
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		n := watch.Do(t, "PUBLISH", "other", "x")
		assert.MustTrue(t, n != int64(0), "nobody hears")
	}
	redistest.Next(t, "Resumed", other.Resumed)
	server.Do(t, "PUBLISH", "other", "hello")
	for redistest.Next(t, "hello", other.Messages) != "hello" {
	}
}

// counting counts the scripts that are written to a connection.
type counting struct {
	net.Conn
	scripts *atomic.Int64
}

func (c counting) Write(b []byte) (int, error) {
	c.scripts.Add(int64(bytes.Count(b, []byte("\r\nEVALSHA\r\n"))))
	return c.Conn.Write(b)
}

// The connection for renewals stands when a lease is granted, though rueidis makes others when requests need them. What
// it has answered says nothing of those.
func TestARenewalNeedsNoNewConnection(t *testing.T) {
	server := redistest.Start(t, adaptertest.Free, caching)
	var made atomic.Int64
	s, _ := open(t, server.Addr(), func(o *rueidis.ClientOption) {
		o.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			made.Add(1)
			return new(redistest.Router).Dial(ctx, "tcp", addr)
		}
	})
	for range 100 {
		got, err := s.Run(t.Context(), script.Renew, []string{"holdfast:{x}"}, []string{"600000", "1000", "a/1"})
		assert.Must(t, err)
		assert.MustEqual(t, got, "renewed -", "answered")
	}
	assert.Equal(t, made.Load(), 1, "connections for renewals")
}

// Requests whose contexts can be cancelled run in the goroutines of their callers.
func TestARequestNeedsNoGoroutine(t *testing.T) {
	server := redistest.Start(t, adaptertest.Free, caching)
	var sent atomic.Int64
	s, _ := open(t, server.Addr(), func(o *rueidis.ClientOption) {
		o.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			c, err := new(redistest.Router).Dial(ctx, "tcp", addr)
			return counting{c, &sent}, err
		}
	})
	var all sync.WaitGroup
	run := func(ctx context.Context) {
		for range 20 {
			all.Go(func() {
				limited := adaptertest.Limit{Context: ctx, At: time.Now().Add(time.Hour)}
				_, err := s.Run(limited, adaptertest.Echo, []string{"k"}, []string{"x"})
				assert.True(t, err == nil || errors.Is(err, context.Canceled), "got %v", err)
			})
		}
	}
	for range 10 {
		run(t.Context())
		all.Wait()
	}
	goroutines, before := runtime.NumGoroutine(), sent.Load()
	server.Pause()
	defer server.Continue()
	ctx, cancel := context.WithCancel(t.Context())
	run(ctx)
	redistest.Await(t, "all are sent", func() bool { return sent.Load() >= before+20 })
	assert.AtMost(t, runtime.NumGoroutine()-goroutines, 30, "goroutines for 20 requests")
	cancel()
	all.Wait()
}

// panicking is a program's own client around rueidis, as for traces.
type panicking struct {
	rueidis.Client
	broken *bool
}

func (p panicking) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if *p.broken {
		panic("mine")
	}
	return p.Client.Do(ctx, cmd)
}

// Its panic is an unknown outcome, in the caller's goroutine and in one of the store.
func TestAClientThatPanicsIsAnUnknownOutcome(t *testing.T) {
	broken := true
	rdb := connect(t, rueidis.ClientOption{InitAddress: []string{redistest.Start(t, adaptertest.Free).Addr()}})
	s := rueidisstore.New(panicking{rdb, &broken})
	for range 20 {
		for _, broken = range []bool{true, false} {
			err := assert.Err(s.Run(t.Context(), adaptertest.Echo, []string{"k"}, []string{"x"}))
			if !broken {
				assert.NoError(t, err)
				continue
			}
			var refused *store.ServerError
			assert.MustTrue(t, err != nil, "no error")
			assert.False(t, errors.Is(err, store.ErrNotSent) || errors.As(err, &refused), "got %v", err)
			assert.Contains(t, err.Error(), "panic in the rueidis client: mine")
		}
	}
}
