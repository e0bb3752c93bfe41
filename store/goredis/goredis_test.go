package goredis_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/store/internal/adaptertest"
)

// library is go-redis for the tests of every store.
var library = adaptertest.Library{
	Open:         opened,
	OpenSentinel: openedSentinel,
	OpenCluster:  openedCluster,
	OpenSentinelBehind: func(t testing.TB, router *redistest.Router, group *redistest.Sentinel) store.Store {
		rdb := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: redistest.SentinelName, SentinelAddrs: group.Addrs(), Dialer: router.Dial,
		})
		t.Cleanup(func() { rdb.Close() })
		return goredis.New(rdb)
	},
	OpenClusterBehind: func(t testing.TB, router *redistest.Router, cluster *redistest.Cluster) store.Store {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: router.Dial})
		t.Cleanup(func() { rdb.Close() })
		return goredis.New(rdb)
	},
	OpenRefused: func(t *testing.T) store.Store {
		return goredis.New(dialling(t, &redis.Options{Addr: redistest.ClosedAddr(t)}))
	},
	OpenOccupied: occupied,
	Unusable: func() map[string]store.Store {
		return map[string]store.Store{
			"nil":            goredis.New(nil),
			"nil Client":     goredis.New((*redis.Client)(nil)),
			"nil Cluster":    goredis.New((*redis.ClusterClient)(nil)),
			"another client": goredis.New(redis.NewRing(&redis.RingOptions{})),
		}
	},
	Protocols: []string{"RESP3", "RESP2"},
	Refused:   []string{"RESP3"},
	NoAuth:    "Authentication required",
}

func opened(t testing.TB, addr string, c adaptertest.Client) (store.Store, func() int) {
	t.Helper()
	s, rdb := open(t, addr, func(o *redis.Options) {
		o.Username, o.Password = c.User, c.Password
		if c.Protocol == "RESP2" {
			o.Protocol = 2
		}
		if c.Waits {
			o.ReadTimeout = time.Hour
		}
	})
	return s, func() int {
		used := 0
		for _, stats := range []redis.PoolStats{*rdb.PoolStats(), s.Stats()} {
			used += int(stats.TotalConns) - int(stats.IdleConns)
		}
		return used
	}
}

func openedSentinel(t testing.TB, group *redistest.Sentinel) store.Store {
	t.Helper()
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.SentinelName, SentinelAddrs: group.Addrs(), TLSConfig: redistest.TLS(),
	})
	t.Cleanup(func() { rdb.Close() })
	return goredis.New(rdb)
}

func openedCluster(t testing.TB, cluster *redistest.Cluster) store.Store {
	t.Helper()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), TLSConfig: redistest.TLS()})
	t.Cleanup(func() { rdb.Close() })
	return goredis.New(rdb)
}

func TestConformance(t *testing.T)                                   { library.Conformance(t) }
func TestConformanceBehindSentinel(t *testing.T)                     { library.ConformanceBehindSentinel(t) }
func TestASubscriptionFollowsTheAddressToAnotherServer(t *testing.T) { library.FollowsTheAddress(t) }
func TestConformanceInACluster(t *testing.T)                         { library.ConformanceInACluster(t) }
func TestAScanWithoutANode(t *testing.T)                             { library.ScansWithoutANode(t) }
func TestRequests(t *testing.T)                                      { library.Requests(t) }
func TestAPushComesBeforeTheAnswer(t *testing.T)                     { library.PushFirst(t) }
func TestRefusals(t *testing.T)                                      { library.Refusals(t) }
func TestSubscriptions(t *testing.T)                                 { library.Subscriptions(t) }
func TestStopAtAServerThatRefuses(t *testing.T)                      { library.StopsAtAServerThatRefuses(t) }
func TestStopAtANodeThatRefuses(t *testing.T)                        { library.StopsAtANodeThatRefuses(t) }
func TestCloseLeavesNoTimer(t *testing.T)                            { library.CloseLeavesNoTimer(t) }
func TestTriesAtARefusedPortLeaveNothing(t *testing.T)               { library.TriesAtARefusedPortLeaveNothing(t) }
func TestADeadConnectionCostsLittle(t *testing.T)                    { library.DeadConnectionsCostLittle(t) }
func TestASlowServerGetsNothingTwice(t *testing.T)                   { library.SlowServerGetsNothingTwice(t) }
func TestASilentServerGetsNothingTwice(t *testing.T)                 { library.SilentServerGetsNothingTwice(t) }
func TestADeadConnectionCostsLittleEverywhere(t *testing.T)          { library.DeadConnectionsEverywhere(t) }
func TestAStoreOfNoClientRefusesEverything(t *testing.T)             { library.UnusableClients(t) }

// open returns a store on addr. change may change the client's options.
func open(t testing.TB, addr string, change func(*redis.Options)) (*goredis.Store, *redis.Client) {
	t.Helper()
	opts := &redis.Options{Addr: addr, TLSConfig: redistest.TLS()}
	if change != nil {
		change(opts)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { rdb.Close() })
	return goredis.New(rdb), rdb
}

func TestHooksSeeTheRequests(t *testing.T) {
	server := redistest.Start(t, adaptertest.Free)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), TLSConfig: redistest.TLS()})
	t.Cleanup(func() { rdb.Close() })
	var seen names
	rdb.AddHook(&seen)
	assert.Must(t, assert.Err(goredis.New(rdb).Run(t.Context(), adaptertest.Echo, nil, []string{"x"})))
	assert.Equal(t, strings.Join(seen.list, " "), "evalsha eval", "the hook saw")
}

type names struct{ list []string }

func (n *names) DialHook(next redis.DialHook) redis.DialHook { return next }
func (n *names) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		n.list = append(n.list, cmd.Name())
		return next(ctx, cmd)
	}
}
func (n *names) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestTheClientStaysAsItWas(t *testing.T) {
	_, rdb := open(t, "localhost:1", func(o *redis.Options) { o.MaxRetries = 2 })
	opts := rdb.Options()
	assert.True(t, !opts.ContextTimeoutEnabled && opts.MaxRetries == 2, "the options changed: %+v", opts)
}

func TestSilentSubscriptionIsReplaced(t *testing.T) {
	server := redistest.Start(t, adaptertest.Free)
	proxy := redistest.NewProxy(t, server.Addr())
	s, _ := open(t, proxy.Addr(), nil)
	s.SetSilence(500 * time.Millisecond)
	rec, _ := adaptertest.Listen(t, s, "channel")

	// An idle connection that answers stays.
	proxy.Await(t, redistest.Forwarded, "PING", 2)
	assert.Equal(t, len(rec.Resumed), 0, "an idle connection was replaced")
	// The old connection gets nothing any more, but a new one does.
	before := proxy.Count(redistest.Arrived, "HELLO")
	proxy.BlackHole()
	proxy.Await(t, redistest.Arrived, "HELLO", before+1)
	proxy.Cut()
	proxy.Pass()
	redistest.Next(t, "Resumed", rec.Resumed)
	server.Do(t, "PUBLISH", "channel", "hello")
	assert.Equal(t, redistest.Next(t, "a message", rec.Messages), "hello", "the message")
}

// While nobody waits for a push, nothing is sent.
func TestASubscriptionIsAskedOnlyWhileSomebodyWaits(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Start(t, adaptertest.Free).Addr())
	s, _ := open(t, proxy.Addr(), nil)
	s.SetSilence(20 * time.Millisecond)
	var waiting atomic.Bool
	var looks atomic.Int32
	stop, err := s.Listen(t.Context(), "channel", store.Listener{Awaited: func() bool {
		looks.Add(1)
		return waiting.Load()
	}})
	assert.Must(t, err)
	t.Cleanup(stop)
	redistest.Await(t, "it has looked for long", func() bool { return looks.Load() >= 20 })
	assert.Equal(t, proxy.Count(redistest.Arrived, "PING"), 0, "questions while nobody waits")
	waiting.Store(true)
	proxy.Await(t, redistest.Answered, "PING", 2)
}

// After a replica has answered, the subscription is checked until a primary counts it: although
// the address moves late, and although a new subscription arrives at the old server once more.
func TestASubscriptionIsCheckedUntilAPrimaryCountsIt(t *testing.T) {
	old, next := redistest.Start(t, adaptertest.Free), redistest.Start(t, adaptertest.Free)
	address := redistest.NewProxy(t, old.Addr())
	s, _ := open(t, address.Addr(), nil)
	rec, _ := adaptertest.Listen(t, s, "channel")
	host, port, _ := strings.Cut(next.Addr(), ":")
	old.Do(t, "REPLICAOF", host, port)
	run := func() error { return assert.Err(s.Run(t.Context(), adaptertest.Incr, []string{"x"}, nil)) }
	redistest.Await(t, "a refusal", func() bool { return run() != nil })
	address.Await(t, redistest.Answered, "PUBSUB", 1) // of the old server

	var back sync.Once
	address.Hook(func(e redistest.Event) {
		switch command := strings.ToUpper(e.Request[0]); {
		case e.Stage != redistest.Arrived:
		case command == "PUBSUB":
			back.Do(func() { address.Lead(old.Addr()) })
		case command == "SUBSCRIBE":
			address.Lead(next.Addr())
		}
	})
	address.Lead(next.Addr())
	assert.Must(t, run())
	for counted := int64(0); counted == 0; counted, _ = next.Do(t, "PUBLISH", "channel", "hello").(int64) {
		redistest.Next(t, "Resumed", rec.Resumed)
	}
}
