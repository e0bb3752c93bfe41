package harness

import (
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	rueidisstore "github.com/holdfast-go/holdfast/store/rueidis"
)

// Login is how a client presents itself; the zero value is the default user.
type Login struct{ User, Password string }

// Adapter makes stores over one of the client libraries, each with connections of its
// own. Each ends with the test.
type Adapter struct {
	Name string
	// Server connects to one server. The library gives up no earlier than after limit;
	// 0 is its default.
	Server   func(t testing.TB, addr string, as Login, limit time.Duration) store.Store
	Cluster  func(t testing.TB, addrs []string, as Login) store.Store
	Sentinel func(t testing.TB, addrs []string, as Login) store.Store
}

// GoRedis connects when it is asked for something.
var GoRedis = Adapter{"goredis", goredisServer, goredisCluster, goredisSentinel}

// Rueidis connects at once, as the library does: there must be a server.
var Rueidis = Adapter{"rueidis", rueidisServer, rueidisCluster, rueidisSentinel}

// Adapters are all adapters.
var Adapters = []Adapter{GoRedis, Rueidis}

func goredisServer(t testing.TB, addr string, as Login, limit time.Duration) store.Store {
	return goredisOf(t, redis.NewClient(&redis.Options{
		Addr: addr, Username: as.User, Password: as.Password, TLSConfig: redistest.TLS(),
		DialTimeout: limit, ReadTimeout: limit, WriteTimeout: limit, PoolTimeout: limit,
	}))
}

func goredisCluster(t testing.TB, addrs []string, as Login) store.Store {
	return goredisOf(t, redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, Username: as.User, Password: as.Password, TLSConfig: redistest.TLS(),
	}))
}

func goredisSentinel(t testing.TB, addrs []string, as Login) store.Store {
	return goredisOf(t, redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.SentinelName, SentinelAddrs: addrs, Username: as.User, Password: as.Password,
		TLSConfig: redistest.TLS(),
	}))
}

func goredisOf(t testing.TB, rdb redis.UniversalClient) store.Store {
	t.Cleanup(func() { _ = rdb.Close() })
	return goredis.New(rdb)
}

func rueidisServer(t testing.TB, addr string, as Login, limit time.Duration) store.Store {
	return rueidisOf(t, rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, Dialer: net.Dialer{Timeout: limit},
		ConnWriteTimeout: limit,
	}, as)
}

func rueidisCluster(t testing.TB, addrs []string, as Login) store.Store {
	return rueidisOf(t, rueidis.ClientOption{InitAddress: addrs}, as)
}

func rueidisSentinel(t testing.TB, addrs []string, as Login) store.Store {
	return rueidisOf(t, rueidis.ClientOption{
		InitAddress: addrs, Sentinel: rueidis.SentinelOption{MasterSet: redistest.SentinelName},
	}, as)
}

func rueidisOf(t testing.TB, opts rueidis.ClientOption, as Login) store.Store {
	t.Helper()
	opts.Username, opts.Password, opts.DisableCache = as.User, as.Password, true
	opts.TLSConfig, opts.Sentinel.TLSConfig = redistest.TLS(), redistest.TLS()
	if opts.ConnWriteTimeout == 0 {
		opts.ConnWriteTimeout = 2 * time.Second
	}
	rdb, err := rueidis.NewClient(opts)
	assert.Must(t, err)
	t.Cleanup(rdb.Close)
	return rueidisstore.New(rdb)
}
