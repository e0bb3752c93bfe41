package redisson_test

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// java is the holder of a Java program.
const java = "b6a0f0c4-7d2f-4f1e-9a55-0c1d2e3f4a5b:77"

// start starts a server.
func start(t testing.TB) *redistest.Server {
	t.Helper()
	return redistest.Start(t, redistest.AllowAll())
}

// serve starts a server, and returns it with a client on Redisson's wire.
func serve(t testing.TB, cfg redisson.Config) (*redistest.Server, *holdfast.Client) {
	t.Helper()
	s := start(t)
	return s, connect(t, s.Addr(), cfg)
}

// connect returns a client of the server at addr on Redisson's wire.
func connect(t testing.TB, addr string, cfg redisson.Config, more ...func(*holdfast.Config)) *holdfast.Client {
	t.Helper()
	return clientOf(t, open(t, &redis.Options{Addr: addr, MaxRetries: -1}), cfg, more...)
}

// open returns a store with connections of its own.
func open(t testing.TB, options *redis.Options) *goredis.Store {
	t.Helper()
	options.TLSConfig = redistest.TLS()
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return goredis.New(rdb)
}

// openCluster does so for a Cluster.
func openCluster(t testing.TB, cluster *redistest.Cluster) *goredis.Store {
	t.Helper()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), TLSConfig: redistest.TLS()})
	t.Cleanup(func() { _ = rdb.Close() })
	return goredis.New(rdb)
}

func clientOf(t testing.TB, s store.Store, cfg redisson.Config, more ...func(*holdfast.Config)) *holdfast.Client {
	t.Helper()
	c := holdfast.Config{}
	for _, change := range more {
		change(&c)
	}
	client, err := holdfast.New(redisson.New(s, cfg), c)
	assert.Must(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// known waits until the client has made itself known, which it does once, beside its first
// acquisition. After that it sends one EVALSHA for each action.
func known(t testing.TB, s *redistest.Server, c *holdfast.Client) {
	t.Helper()
	redistest.Await(t, "the client is known", func() bool {
		return s.Do(t, "EXISTS", "holdfast:client:"+c.ID()) == int64(1)
	})
}

// plant makes Java hold the RLock at key for ttl, in milliseconds.
func plant(t testing.TB, s *redistest.Server, key, ttl string) {
	t.Helper()
	s.Do(t, "HSET", key, java, "1")
	s.Do(t, "PEXPIRE", key, ttl)
}

// wakes checks that wait waits while Java holds the RLock at key, and that the message of Java's release
// ends the wait, long before the lease would end.
func wakes(t testing.TB, s *redistest.Server, key string, wait func(context.Context) error) {
	t.Helper()
	channel := "redisson_lock__channel:{" + key + "}"
	plant(t, s, key, "3600000")
	ended := make(chan error, 1)
	go func() { ended <- wait(context.Background()) }()
	redistest.Await(t, "the waiter hears", func() bool { return subscribers(t, s, channel) == 1 })
	s.Do(t, "DEL", key)
	s.Do(t, "PUBLISH", channel, "0")
	assert.NoError(t, redistest.Next(t, "the end of the wait", ended))
}

// doer is a server, or a Cluster with a key.
type doer interface {
	Do(t testing.TB, args ...any) any
}

// hash reads a hash as sorted field=value pairs.
func hash(t testing.TB, s doer, key string) []string {
	t.Helper()
	return pairs(s.Do(t, "HGETALL", key).([]any))
}

func pairs(flat []any) []string {
	list := []string{}
	for pair := range slices.Chunk(flat, 2) {
		list = append(list, fmt.Sprintf("%s=%s", pair[0], pair[1]))
	}
	sort.Strings(list)
	return list
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	assert.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "%s", what)
}

// keysOf returns all keys but those of Holdfast's clients.
func keysOf(t testing.TB, s doer) []string {
	t.Helper()
	var list []string
	for _, key := range s.Do(t, "KEYS", "*").([]any) {
		if !strings.HasPrefix(key.(string), "holdfast:client:") {
			list = append(list, key.(string))
		}
	}
	sort.Strings(list)
	return list
}

// everyKeyExpires checks that no key is left for ever, but for those that Redisson itself has
// without a TTL.
func everyKeyExpires(t testing.TB, s doer, but ...string) {
	t.Helper()
	for _, key := range s.Do(t, "KEYS", "*").([]any) {
		assert.False(t, s.Do(t, "PTTL", key) == int64(-1) && !slices.Contains(but, key.(string)),
			"the key %s has no TTL", key)
	}
}

// within checks that a remaining time is that of a lease that has just begun.
func within(t testing.TB, what string, got any, ttl time.Duration) {
	t.Helper()
	ms, _ := got.(int64)
	assert.True(t, ms > 0 && ms <= ttl.Milliseconds(), "%s: %v ms left of %v", what, got, ttl)
}

// listen subscribes to a channel of the server. The result receives its messages.
func listen(t testing.TB, s *redistest.Server, channel string) *redistest.Conn {
	t.Helper()
	conn := s.Dial(t)
	conn.Do(t, "SUBSCRIBE", channel)
	return conn
}

// message is the payload of the next message.
func message(t testing.TB, conn *redistest.Conn) any {
	t.Helper()
	parts, _ := conn.Receive(t).([]any)
	assert.MustTrue(t, len(parts) >= 3, "not a message: %v", parts)
	return parts[len(parts)-1]
}

func lock(t testing.TB, m *holdfast.Mutex) *holdfast.Lease {
	t.Helper()
	l, err := m.Lock(t.Context())
	assert.Must(t, err)
	return l
}

// locking acquires a lock in a goroutine of its own.
func locking(t testing.TB, acquire func(context.Context) (*holdfast.Lease, error)) <-chan *holdfast.Lease {
	got := make(chan *holdfast.Lease, 1)
	go func() {
		l, err := acquire(context.Background())
		assert.NoError(t, err)
		got <- l
	}()
	return got
}

func release(t testing.TB, l interface{ Release(context.Context) error }) {
	t.Helper()
	assert.Must(t, l.Release(t.Context()))
}

// awaitRenewal waits until more is left of the lease than a moment before.
func awaitRenewal(t testing.TB, l *holdfast.Lease) {
	t.Helper()
	left := l.Remaining()
	redistest.Await(t, "a renewal", func() bool {
		before := left
		left = l.Remaining()
		return left > before
	})
}

// subscribers is how many clients listen to a channel.
func subscribers(t testing.TB, s doer, channel string) int64 {
	t.Helper()
	return s.Do(t, "PUBSUB", "NUMSUB", channel).([]any)[1].(int64)
}

// held checks that a lock is held by others.
func held(t testing.TB, err error) {
	t.Helper()
	assert.Is(t, err, holdfast.ErrHeld)
}
