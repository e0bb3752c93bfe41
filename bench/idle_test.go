package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/assert"
)

const idlers = 100

// A window shorter than the TTL, 30 s by default, sees no poll: a waiter polls when the
// holder's lease may have expired.
var idleWindow = flag.Duration("idle", 10*time.Second, "how long BenchmarkIdle100 watches its waiters")

// BenchmarkIdle100 is the cost of 100 clients at the server while they wait for a lock of
// another client. An op is one window of the flag -idle; -short makes it 2 s. raw is 100
// clients that wait in BLPOP.
//
//	commands/s  everything that clients sent, and every push
//	locking/s   of these, what Holdfast sent: the rest is the client library's
func BenchmarkIdle100(b *testing.B) {
	eachKit(b, func(b *testing.B, r *rig) {
		b.Run("holdfast", func(b *testing.B) { benchIdle(b, r, idleLock) })
		b.Run("raw", func(b *testing.B) { benchIdle(b, r, idleToken) })
	})
}

// benchIdle watches the idle clients once begin has returned.
func benchIdle(b *testing.B, r *rig, begin func(b *testing.B, r *rig) (end func())) {
	window := *idleWindow
	if testing.Short() {
		window = min(window, 2*time.Second)
	}
	end := begin(b, r)
	r.server.ResetStats(b)
	windows := 0
	for b.Loop() {
		crew.Wait(window)
		windows++
	}
	calls := r.server.CommandCalls(b)
	end()
	watched := window.Seconds() * float64(windows)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(sent(calls))/watched, "commands/s")
	b.ReportMetric(float64(calls["evalsha"]+calls["eval"]+calls["publish"])/watched, "locking/s")
}

// idleLock returns once all clients wait for a held lock.
func idleLock(b *testing.B, r *rig) func() {
	ctx, cancel := context.WithCancel(context.Background())
	holder := r.party.client(b, holdfast.Config{})
	lease, err := holder.Mutex("idle").Lock(ctx)
	check(b, err)
	queued := &queue{here: make(chan struct{}, idlers)}
	var group sync.WaitGroup
	for range idlers {
		c := r.join(b).client(b, holdfast.Config{Observer: queued})
		group.Go(func() {
			if _, err := c.Mutex("idle").Lock(ctx); !errors.Is(err, context.Canceled) {
				b.Errorf("Lock returned %v", err)
			}
		})
		<-queued.here
	}
	return func() {
		cancel()
		group.Wait()
		check(b, lease.Release(context.Background()))
	}
}

// idleToken returns once all clients wait for a token that does not exist.
func idleToken(b *testing.B, r *rig) func() {
	var group sync.WaitGroup
	for range idlers {
		p := r.join(b)
		group.Go(func() {
			_, err := p.raw.Pop(context.Background(), "idle")
			assert.NoError(b, err)
		})
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for r.server.Info(b, "blocked_clients") != fmt.Sprint(idlers) {
		<-tick.C
	}
	return func() {
		for i := range idlers {
			check(b, r.party.raw.Push(context.Background(), "idle", fmt.Sprint(i)))
		}
		group.Wait()
	}
}
