package goredis_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/store/internal/adaptertest"
)

// hook runs a function in the goroutine of each request.
type hook func()

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h()
		return next(ctx, cmd)
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// topologies are ways to reach one server: a client follows a primary if it has the name of such a client, and asks
// whoever knows the slots.
var topologies = map[string]func(t *testing.T, addr string, h hook) *goredis.Store{
	"one server": func(t *testing.T, addr string, h hook) *goredis.Store {
		rdb := dialling(t, &redis.Options{Addr: addr})
		rdb.AddHook(h)
		return goredis.New(rdb)
	},
	"Sentinel": func(t *testing.T, addr string, h hook) *goredis.Store {
		dial := redis.NewDialer(&redis.Options{TLSConfig: redistest.TLS()})
		rdb := dialling(t, &redis.Options{
			Addr:   "FailoverClient",
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, "tcp", addr) },
		})
		rdb.AddHook(h)
		return goredis.New(rdb)
	},
	"Cluster": func(t *testing.T, addr string, h hook) *goredis.Store {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			TLSConfig: redistest.TLS(),
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
			},
		})
		t.Cleanup(func() { _ = rdb.Close() })
		rdb.OnNewNode(func(node *redis.Client) { node.AddHook(h) })
		return goredis.New(rdb)
	},
}

// goroutine names the calling goroutine.
func goroutine() string {
	b := make([]byte, 64)
	name, _, _ := strings.Cut(string(b[:runtime.Stack(b, false)]), "[")
	return name
}

// A request whose context can be cancelled runs in the caller's goroutine, whatever the servers are. It ends with its
// context all the same. Behind Sentinel, a goroutine makes a new connection each second.
func TestARequestNeedsNoGoroutine(t *testing.T) {
	server := redistest.Start(t, adaptertest.Free)
	for name, open := range topologies {
		t.Run(name, func(t *testing.T) {
			own, all, caller := 0, 0, goroutine()
			s := open(t, server.Addr(), func() {
				if all++; goroutine() == caller {
					own++
				}
			})
			run := func(parent context.Context) error {
				limited := adaptertest.Limit{Context: parent, At: time.Now().Add(time.Hour)}
				return assert.Err(s.Run(limited, adaptertest.Echo, []string{"k"}, []string{"x"}))
			}
			for range 100 {
				assert.Must(t, run(t.Context()))
			}
			own, all = 0, 0
			for range 100 {
				assert.Must(t, run(t.Context()))
			}
			assert.Equal(t, all, 100, "requests")
			assert.AtLeast(t, own, 50, "of them in the caller's goroutine")

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			server.Pause()
			defer server.Continue()
			failed := make(chan error, 1)
			go func() {
				caller = goroutine()
				failed <- run(ctx)
			}()
			redistest.Await(t, "the request is under way", s.UnderWay)
			cancel()
			assert.Is(t, <-failed, context.Canceled)
		})
	}
}

// If the context ends before anything is written, the request has certainly not run. A request that makes a
// connection, as one does each second behind Sentinel, runs in a goroutine of its own: then the next one is cancelled.
func TestARequestThatIsCancelledEarlyIsNotSent(t *testing.T) {
	server := redistest.Start(t, adaptertest.Free)
	for name, open := range topologies {
		t.Run(name, func(t *testing.T) {
			var s *goredis.Store
			before, ran := func() {}, 100
			s = open(t, server.Addr(), func() { before() })
			for range ran {
				assert.Must(t, assert.Err(s.Run(t.Context(), adaptertest.Incr, []string{name}, nil)))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			caller := goroutine()
			before = func() {
				if goroutine() == caller {
					cancel()
					redistest.Await(t, "the lane knows", s.Left)
				}
			}
			var err error
			for ; err == nil; ran++ {
				_, err = s.Run(ctx, adaptertest.Incr, []string{name}, nil)
			}
			assert.True(t, errors.Is(err, store.ErrNotSent) && errors.Is(err, context.Canceled), "got %v", err)
			before = func() {}
			got, err := s.Run(t.Context(), adaptertest.Incr, []string{name}, nil)
			assert.True(t, got == strconv.Itoa(ran) && err == nil, "got %q, %v", got, err)
		})
	}
}

// A hook that panics is an unknown outcome, in the caller's goroutine and in one of the store, and costs no connection.
func TestAHookThatPanicsIsAnUnknownOutcome(t *testing.T) {
	server := redistest.Start(t, adaptertest.Free)
	for name, open := range topologies {
		t.Run(name, func(t *testing.T) {
			broken := true
			s := open(t, server.Addr(), func() {
				if broken {
					panic("mine")
				}
			})
			run := func() error {
				return assert.Err(s.Run(t.Context(), adaptertest.Echo, []string{"k"}, []string{"x"}))
			}
			for range 3 * runtime.GOMAXPROCS(0) * 10 { // a client has ten connections for each processor
				err := run()
				var refused *store.ServerError
				assert.MustTrue(t, err != nil, "no error")
				assert.False(t, errors.Is(err, store.ErrNotSent) || errors.As(err, &refused), "got %v", err)
				assert.Contains(t, err.Error(), "panic in a hook of go-redis: mine")
			}
			broken = false
			assert.NoError(t, run())
			broken = true
			assert.True(t, run() != nil, "no error")
			broken = false
			assert.NoError(t, run())
		})
	}
}
