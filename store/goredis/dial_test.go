package goredis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/internal/adaptertest"
)

// If a connection takes longer to make than one request may take, it is made for the next
// request. Otherwise no connection would ever be made.
func TestAConnectionOutlivesTheRequestThatItIsMadeFor(t *testing.T) {
	server := redistest.Start(t, adaptertest.Free)
	proxy := redistest.NewProxy(t, server.Addr())
	s, rdb := open(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = time.Hour })
	hellos := func(stage redistest.Stage) int64 { return proxy.Count(stage, "HELLO") }
	tooShort := func() {
		proxy.BlackHole()
		defer proxy.Pass()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := s.Run(ctx, adaptertest.Echo, nil, []string{"x"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Run through a black hole: %v", err)
		}
	}
	redistest.Await(t, "a connection stands", func() bool {
		switch stats := rdb.PoolStats(); {
		case stats.TotalConns > stats.IdleConns:
			return false // another goroutine uses one
		case stats.IdleConns > 0 && hellos(redistest.Answered) > 0:
			return true
		}
		tooShort() // again if the machine is too busy to connect in that time
		return false
	})
	before := hellos(redistest.Arrived)
	if got, err := s.Run(t.Context(), adaptertest.Echo, nil, []string{"x"}); got != "x" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if after := hellos(redistest.Arrived); after != before {
		t.Errorf("%d more connections were made", after-before)
	}
}
