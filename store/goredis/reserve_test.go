package goredis_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/store/internal/adaptertest"
)

// occupy takes all connections of a pool, as BLPOP does.
func occupy(t *testing.T, s *redistest.Server, rdb *redis.Client, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	for range n {
		go func() {
			_ = rdb.BLPop(ctx, 0, "nothing ever comes").Err()
			done <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range n {
			s.Do(t, "RPUSH", "nothing ever comes", "but the end")
		}
		for range n {
			<-done
		}
	})
	redistest.Await(t, "the pool is full", func() bool {
		stats := rdb.PoolStats()
		return stats.TotalConns >= uint32(n) && stats.IdleConns == 0
	})
}

// occupied has a pool of two connections, which BLPOP takes.
func occupied(t *testing.T, s *redistest.Server) (st store.Store, take func()) {
	t.Helper()
	rdb := dialling(t, &redis.Options{Addr: s.Addr(), PoolSize: 2, PoolTimeout: time.Minute})
	return goredis.New(rdb), func() { occupy(t, s, rdb, 2) }
}

// The application's own requests take no lease away, and delay no release.
func TestAFullPoolCostsNoLease(t *testing.T) {
	assert.True(t, !library.FullPoolCostsNoLease(t).(*goredis.Store).Reserved(),
		"connections that nothing uses are kept")
}

// Requests that release a hold or keep a position may go over the store's own connections, and any number of
// them may be under way for long. Renewals go out all the same.
func TestARenewalPassesAllOtherRequests(t *testing.T) {
	s := redistest.Start(t, adaptertest.Free)
	proxy := redistest.NewProxy(t, s.Addr())
	cancelled := make(chan struct{})
	proxy.Hook(func(e redistest.Event) {
		if e.Stage == redistest.Arrived && slices.Contains(e.Request, "cancelled/1") {
			<-cancelled
		}
	})
	rdb := dialling(t, &redis.Options{
		Addr: proxy.Addr(), PoolSize: 2, PoolTimeout: time.Minute, ReadTimeout: time.Hour,
	})
	st := goredis.New(rdb)
	occupy(t, s, rdb, 2)
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() {
		end()
		close(cancelled)
		all.Wait()
	})
	for range 20 {
		all.Go(func() {
			_, _ = st.Run(ctx, script.Cancel, []string{"holdfast:{x}"}, []string{"cancelled/1", "1000", "push:"})
		})
	}
	for range 100 { // while the others come
		ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience/4)
		_, err := st.Run(ctx, script.Renew, []string{"holdfast:{x}"}, []string{"600000", "1000", "renewed/1"})
		cancel()
		assert.Must(t, err)
	}
	assert.AtMost(t, st.Connections(), 2+4+1, "connections: the client's pool has two")
}

// Goroutines that use locks one after the other share one connection, which is not the application's.
func TestRequestsUseFewConnectionsOfTheirOwn(t *testing.T) {
	s := redistest.Start(t, adaptertest.Free)
	rdb := dialling(t, &redis.Options{Addr: s.Addr(), PoolSize: 4})
	store := goredis.New(rdb)
	c, err := holdfast.New(store, holdfast.Config{})
	assert.Must(t, err)
	for range 100 {
		l, err := c.Mutex("a").Lock(t.Context())
		assert.Must(t, err)
		assert.Must(t, l.Release(t.Context()))
	}
	assert.AtMost(t, rdb.PoolStats().Misses, 0, "the client's pool has made connections")
	assert.AtMost(t, store.Connections(), 2, "it has made connections of its own")
	assert.NoError(t, c.Close(t.Context()))
	assert.False(t, store.Reserved(), "connections that nothing uses are kept")
}

// A renewal that nobody waits for any more lingers on its connection. The store is closed
// meanwhile: when the renewal ends, the connection ends.
func TestALingeringRequestKeepsNoConnection(t *testing.T) {
	s := redistest.Start(t, adaptertest.Free)
	rdb := dialling(t, &redis.Options{Addr: s.Addr(), PoolSize: 4})
	st := goredis.New(rdb)
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := st.Run(ctx, script.Renew, []string{"holdfast:{x}"}, []string{"600000", "1000", "a/1"})
	assert.Is(t, err, context.DeadlineExceeded)
	assert.True(t, st.Reserved(), "it went over no connection of the store's own")
	st.CloseIdleConnections()
	s.Continue()
	redistest.Await(t, "the connection is closed", func() bool { return !st.Reserved() })
}

// When the password changes, the server refuses new connections and serves those of the pool. If
// there was no password before, go-redis takes such a connection for one that is logged in.
func TestANewPasswordCostsNoLease(t *testing.T) {
	t.Run("another", func(t *testing.T) {
		newPassword(t, redis.Options{Username: "ann", Password: "old"}, "ACL", "SETUSER", "ann", "<old", ">new")
	})
	t.Run("the first", func(t *testing.T) {
		newPassword(t, redis.Options{}, "CONFIG", "SET", "requirepass", "new")
	})
	t.Run("the first, and no look at the socket, as with TLS", func(t *testing.T) {
		newPassword(t, redis.Options{Dialer: covered}, "CONFIG", "SET", "requirepass", "new")
	})
}

// covered dials connections that do not show their sockets.
func covered(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(redistest.Router).Dial(ctx, network, addr)
	return struct{ net.Conn }{c}, err
}

// refusedBeside makes requests at the same time, until one of them is refused on a connection that it made.
func refusedBeside(t *testing.T, proxy *redistest.Proxy, st *goredis.Store) {
	t.Helper()
	proxy.Delay(50 * time.Millisecond)
	defer proxy.Pass()
	var refused atomic.Int32
	for refused.Load() == 0 {
		var all sync.WaitGroup
		for range st.Connections() + 1 {
			all.Go(func() {
				if _, err := st.Run(t.Context(), script.Inspect, []string{"holdfast:{b}"}, nil); err != nil {
					refused.Add(1)
				}
			})
		}
		all.Wait()
	}
}

func newPassword(t *testing.T, options redis.Options, change ...any) {
	t.Helper()
	s := redistest.Start(t, adaptertest.Free)
	s.Do(t, "ACL", "SETUSER", "ann", "on", ">old", "~*", "&*", "+@all")
	proxy := redistest.NewProxy(t, s.Addr())
	options.Addr, options.PoolSize = proxy.Addr(), 4
	rdb := dialling(t, &options)
	st := goredis.New(rdb)
	c, err := holdfast.New(st, holdfast.Config{})
	assert.Must(t, err)
	l, err := c.Mutex("a").Lock(t.Context())
	assert.Must(t, err)
	s.Do(t, change...)
	refusedBeside(t, proxy, st)
	for range 2 {
		assert.NoError(t, l.Extend(t.Context(), time.Minute)) // by a renewal
	}
	assert.NoError(t, l.Release(t.Context()))
	assert.NoError(t, c.Close(t.Context()))
}
