package rueidis_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	holdfastrueidis "github.com/holdfast-go/holdfast/store/rueidis"
)

// renewals counts those that were confirmed.
type renewals struct{ confirmed atomic.Int32 }

func (r *renewals) Observe(e holdfast.Event) {
	if e.Kind == holdfast.EventRenew && e.Err == nil {
		r.confirmed.Add(1)
	}
}

// An application that blocks on all connections of rueidis's pool takes no lease
// away: requests are pipelined over another one.
func TestAFullPoolCostsNoLease(t *testing.T) {
	s := redistest.Start(t)
	rdb, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr()}, DisableCache: true, BlockingPoolSize: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rdb.Close)
	var seen renewals
	cfg := holdfast.Config{TTL: 2 * time.Second, RequestTimeout: time.Second, Observer: &seen}
	c, err := holdfast.New(holdfastrueidis.New(rdb), cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- rdb.Do(context.Background(), rdb.B().Blpop().Key("nothing").Timeout(0).Build()).Error()
	}()
	l, err := c.Mutex("a").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, "it is renewed for longer than its TTL, or lost", func() bool {
		return seen.confirmed.Load() >= 5 || l.Err() != nil
	})
	if l.Err() != nil {
		t.Errorf("the lease is lost: %v", l.Err())
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("release: %v", err)
	}
	s.Do(t, "RPUSH", "nothing", "but the end")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
