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
)

const lookers = 1000

// A window has three looks of each call, with the TTL of 30 s.
var looksWindow = flag.Duration("looks", 30*time.Second, "how long BenchmarkLooks1000 watches its waiters")

// BenchmarkLooks1000 is what it costs the server to watch for deadlocks. 1,000 clients hold a lock
// each, and wait for one more that another client holds.
//
//	apart   they wait outside of the context of their lease: nobody sees what they hold
//	under   they wait under it: each has written a note
//	wanted  and somebody waits for the lock of each: so each looks for a deadlock
//
//	server-µs/s  the time of the server's commands
//	commands/s   everything that clients sent, and every push
//
// An op is one window of the flag -looks; -short makes it 12 s.
func BenchmarkLooks1000(b *testing.B) {
	eachKit(b, func(b *testing.B, r *rig) {
		for _, how := range []string{"apart", "under", "wanted"} {
			b.Run(how, func(b *testing.B) { benchLooks(b, r, how) })
		}
	})
}

func benchLooks(b *testing.B, r *rig, how string) {
	window := *looksWindow
	if testing.Short() {
		window = min(window, 12*time.Second)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	queued := &queue{here: make(chan struct{}, 2*lookers)}
	wait := func(ctx context.Context, c *holdfast.Client, name string) {
		group.Go(func() {
			if _, err := c.Mutex(name).Lock(ctx); !errors.Is(err, context.Canceled) {
				b.Errorf("Lock of %s returned %v", name, err)
			}
		})
		<-queued.here
	}
	holder := r.party.client(b, holdfast.Config{})
	lease, err := holder.Mutex("everybody").Lock(ctx)
	check(b, err)
	others := r.party.client(b, holdfast.Config{Observer: queued})
	var leases []*holdfast.Lease
	for i := range lookers {
		name := fmt.Sprintf("own/%d", i)
		c := r.party.client(b, holdfast.Config{Observer: queued})
		own, err := c.Mutex(name).Lock(ctx)
		check(b, err)
		leases = append(leases, own)
		if how == "wanted" {
			wait(ctx, others, name)
		}
		if how == "apart" {
			wait(ctx, c, "everybody")
			continue
		}
		under, stop := context.WithCancel(own.Context())
		context.AfterFunc(ctx, stop)
		wait(under, c, "everybody")
	}
	crew.Wait(12 * time.Second) // the notes are written, and the first looks are over
	var total bill
	windows := 0
	for b.Loop() {
		got := charge(b, r.server, func() { crew.Wait(window) })
		total.calls, total.usec = total.calls+got.calls, total.usec+got.usec
		windows++
	}
	cancel()
	group.Wait()
	for _, l := range append(leases, lease) {
		check(b, l.Release(context.Background()))
	}
	watched := window.Seconds() * float64(windows)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(total.calls)/watched, "commands/s")
	b.ReportMetric(total.usec/watched, "server-µs/s")
}
