package goredis_test

import (
	"context"
	"errors"
	"net"
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

// If a connection takes longer to make than one request may take, it is made for the next
// request. Otherwise no connection would ever be made.
func TestAConnectionOutlivesTheRequestThatItIsMadeFor(t *testing.T) {
	server := redistest.Start(t, adaptertest.Free)
	proxy := redistest.NewProxy(t, server.Addr())
	s, _ := open(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = time.Hour })
	hellos := func(stage redistest.Stage) int64 { return proxy.Count(stage, "HELLO") }
	tooShort := func() {
		proxy.BlackHole()
		defer proxy.Pass()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := s.Run(ctx, adaptertest.Echo, nil, []string{"x"})
		assert.MustTrue(t, errors.Is(err, context.DeadlineExceeded), "Run through a black hole: %v", err)
	}
	redistest.Await(t, "a connection stands", func() bool {
		switch stats := s.Stats(); {
		case stats.TotalConns > stats.IdleConns:
			return false // another goroutine uses one
		case stats.IdleConns > 0 && hellos(redistest.Answered) > 0:
			return true
		}
		tooShort() // again if the machine is too busy to connect in that time
		return false
	})
	before := hellos(redistest.Arrived)
	got, err := s.Run(t.Context(), adaptertest.Echo, nil, []string{"x"})
	assert.True(t, got == "x" && err == nil, "got %q, %v", got, err)
	after := hellos(redistest.Arrived)
	assert.True(t, after == before, "%d more connections were made", after-before)
}

// The Sentinels refuse, or know no primary. The connection that the store has serves on, for longer than a connection
// lives behind Sentinel. Without one, nothing was sent.
func TestAPrimaryServesOnWithoutSentinels(t *testing.T) {
	server := redistest.Start(t, adaptertest.Free)
	for name, away := range map[string]error{"refuse": errors.New("no Sentinel is there"), "forgot": redis.Nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var gone atomic.Bool
			var asked atomic.Int32
			dial := redis.NewDialer(&redis.Options{TLSConfig: redistest.TLS()})
			rdb := dialling(t, &redis.Options{
				Addr: "FailoverClient",
				Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
					if gone.Load() {
						asked.Add(1)
						return nil, away
					}
					return dial(ctx, "tcp", server.Addr())
				},
			})
			s := goredis.New(rdb)
			run := func() error { return assert.Err(s.Run(t.Context(), adaptertest.Incr, []string{name}, nil)) }
			assert.Must(t, run())
			gone.Store(true)
			redistest.Await(t, "the store has asked twice", func() bool {
				assert.NoError(t, run())
				return asked.Load() >= 2
			})
			s.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := assert.Err(s.Run(ctx, adaptertest.Incr, []string{name}, nil))
			assert.Is(t, err, store.ErrNotSent)
		})
	}
}
