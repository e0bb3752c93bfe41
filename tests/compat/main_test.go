package compat

import (
	"context"
	"os"
	"testing"
	"time"

	originalredislock "github.com/bsm/redislock"
	originalredsync "github.com/go-redsync/redsync/v4"
	originalpool "github.com/go-redsync/redsync/v4/redis"
	originalgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	assert.Must(t, err)
}

// rdb makes a client of a server.
func rdb(t testing.TB, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: redistest.TLS(),
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// free reports whether nobody has the key on a server.
func free(t *testing.T, server *redistest.Server) bool {
	return server.Do(t, "EXISTS", "key") == int64(0)
}

// original makes a Redsync of the original.
func original(t testing.TB, addrs ...string) *originalredsync.Redsync {
	var pools []originalpool.Pool
	for _, addr := range addrs {
		pools = append(pools, originalgoredis.NewPool(rdb(t, addr)))
	}
	return originalredsync.New(pools...)
}

func originalTry(t testing.TB, addrs []string) (func() error, error) {
	m := original(t, addrs...).NewMutex("key", originalredsync.WithExpiry(time.Minute),
		originalredsync.WithTimeoutFactor(0.5))
	return func() error { _, err := m.Unlock(); return err }, m.TryLock()
}

func originalObtain(t testing.TB, addrs []string) (func() error, error) {
	l, err := originalredislock.Obtain(context.Background(), rdb(t, addrs[0]), "key", time.Minute, nil)
	return func() error { return l.Release(context.Background()) }, err
}

func redsyncStore(t testing.TB, addrs []string) store.Store {
	var servers []store.Store
	for _, addr := range addrs {
		servers = append(servers, goredis.New(rdb(t, addr)))
	}
	s := redsync.NewStore(servers...)
	t.Cleanup(s.Close)
	return s
}

func redislockStore(t testing.TB, addrs []string) store.Store {
	s := redislock.NewStore(goredis.New(rdb(t, addrs[0])))
	t.Cleanup(s.Close)
	return s
}

// native makes a client of native locks.
func native(t testing.TB, s store.Store, cfg holdfast.Config) *holdfast.Client {
	c, err := holdfast.New(s, cfg)
	must(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// wires are the stores for native locks, each with the original on the same servers.
var wires = map[string]struct {
	servers int
	store   func(t testing.TB, addrs []string) store.Store
	try     func(t testing.TB, addrs []string) (release func() error, err error)
}{
	"redsync":           {1, redsyncStore, originalTry},
	"redsync, of three": {3, redsyncStore, originalTry},
	"redislock":         {1, redislockStore, originalObtain},
}

// world is one wire on its servers, with a client.
type world struct {
	servers  []*redistest.Server
	try      func() (release func() error, err error)
	client   func(cfg holdfast.Config) *holdfast.Client
	clientAt func(addrs []string, cfg holdfast.Config) *holdfast.Client // other ways to the servers
}

func onWires(t *testing.T, test func(t *testing.T, w world)) {
	for name, wire := range wires {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world{servers: redistest.Primaries(t, wire.servers, redistest.AllowAll())}
			addrs := redistest.Addrs(w.servers)
			w.try = func() (func() error, error) { return wire.try(t, addrs) }
			w.clientAt = func(addrs []string, cfg holdfast.Config) *holdfast.Client {
				return native(t, wire.store(t, addrs), cfg)
			}
			w.client = func(cfg holdfast.Config) *holdfast.Client { return w.clientAt(addrs, cfg) }
			test(t, w)
		})
	}
}
