package rueidis_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	holdfastrueidis "github.com/holdfast-go/holdfast/store/rueidis"
)

// occupied has a pool of one connection, which BLPOP takes at once.
func occupied(t *testing.T, s *redistest.Server) (st store.Store, take func()) {
	t.Helper()
	rdb := connect(t, rueidis.ClientOption{
		InitAddress: []string{s.Addr()}, DisableCache: true, BlockingPoolSize: 1,
	})
	done := make(chan error, 1)
	go func() {
		done <- rdb.Do(context.Background(), rdb.B().Blpop().Key("nothing").Timeout(0).Build()).Error()
	}()
	t.Cleanup(func() {
		s.Do(t, "RPUSH", "nothing", "but the end")
		assert.NoError(t, <-done)
	})
	redistest.Await(t, "the pool is full", func() bool {
		clients, _ := s.Do(t, "CLIENT", "LIST").(string)
		return strings.Contains(clients, "cmd=blpop")
	})
	return holdfastrueidis.New(rdb), func() {}
}

// An application that blocks on all connections of rueidis's pool takes no lease away:
// requests are pipelined over another one.
func TestAFullPoolCostsNoLease(t *testing.T) { library.FullPoolCostsNoLease(t) }
