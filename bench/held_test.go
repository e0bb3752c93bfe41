package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	heldLeases = 10_000
	// heldTTL is short, so that a window sees several renewals of each lease: one in each
	// third of it.
	heldTTL     = 3 * time.Second
	heldWindow  = 5 * time.Second
	renewAtOnce = 128 // keys that raw renews in one pipeline
)

// BenchmarkHeld10000 is the cost of 10,000 leases of one client that are only renewed,
// with a TTL of 3 s. An op is a window of 5 s (1.5 s with -short). raw is a loop that
// renews 10,000 keys as often, with pipelines of 128 PEXPIRE, and checks nothing.
//
//	B/lease      heap, the lock's name, Mutex and Lease included
//	goroutines   more than before the first lease
//	renewals/s   leases renewed; commands/s what was sent for that (raw: pipelines)
//	client-cpu-% of one core, and µs for each renewed lease; server-… likewise
func BenchmarkHeld10000(b *testing.B) {
	window := heldWindow
	if testing.Short() {
		window = heldTTL / 2
	}
	eachKit(b, func(b *testing.B, r *rig) {
		b.Run("holdfast", func(b *testing.B) {
			seen := &counter{}
			client := r.party.client(b, holdfast.Config{TTL: heldTTL, Observer: seen})
			giveBack(b, hold(b, client, many)) // to make the connections
			heap, routines := memory(b)
			leases := hold(b, client, heldLeases)
			b.Cleanup(func() { giveBack(b, leases) })
			moreHeap, moreRoutines := memory(b)
			benchHeld(b, r, seen.renewed.Load, window)
			b.ReportMetric(float64(moreHeap-heap)/heldLeases, "B/lease")
			b.ReportMetric(float64(moreRoutines-routines), "goroutines")
			if n := seen.lost.Load(); n > 0 {
				b.Errorf("%d leases were lost", n)
			}
			runtime.KeepAlive(leases)
		})
		b.Run("raw", func(b *testing.B) { benchHeld(b, r, keepKeys(b, r.party.raw), window) })
	})
}

// hold acquires n locks.
func hold(b *testing.B, c *holdfast.Client, n int) []*holdfast.Lease {
	leases := make([]*holdfast.Lease, n)
	inParallel(n, func(i int) {
		mu := c.Mutex(fmt.Sprintf("held/%d", i))
		err := holdfast.ErrUnknownOutcome // requests may time out on a busy machine
		for errors.Is(err, holdfast.ErrUnknownOutcome) {
			leases[i], err = mu.Lock(context.Background())
		}
		assert.NoError(b, err)
	})
	if b.Failed() {
		b.FailNow()
	}
	return leases
}

func giveBack(b *testing.B, leases []*holdfast.Lease) {
	inParallel(len(leases), func(i int) {
		assert.NoError(b, leases[i].Release(context.Background()))
	})
}

// inParallel runs f for each lease, on many goroutines.
func inParallel(n int, f func(i int)) {
	var group sync.WaitGroup
	for first := range many {
		group.Go(func() {
			for i := first; i < n; i += many {
				f(i)
			}
		})
	}
	group.Wait()
}

// memory is the live heap, and the number of goroutines.
func memory(b *testing.B) (heap int64, routines int) {
	b.Helper()
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the finalizers of the first run have freed
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), runtime.NumGoroutine()
}

// benchHeld watches renewals; renewed returns their number so far.
func benchHeld(b *testing.B, r *rig, renewed func() int64, window time.Duration) {
	windows := 0
	r.server.ResetStats(b)
	before, client, server := renewed(), clientCPU(b), cpuOf(b, r.server)
	for b.Loop() {
		crew.Wait(window)
		windows++
	}
	client, server = clientCPU(b)-client, cpuOf(b, r.server)-server
	renewals := float64(renewed() - before)
	watched := window.Seconds() * float64(windows)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(renewals/watched, "renewals/s")
	b.ReportMetric(float64(requests(r.server.CommandCalls(b)))/watched, "commands/s")
	b.ReportMetric(client.Seconds()/watched*100, "client-cpu-%")
	b.ReportMetric(server.Seconds()/watched*100, "server-cpu-%")
	if renewals == 0 { // a window too short to see one
		return
	}
	b.ReportMetric(client.Seconds()/renewals*1e6, "client-µs/renewal")
	b.ReportMetric(server.Seconds()/renewals*1e6, "server-µs/renewal")
}

// requests returns the number of requests. A PEXPIRE that no script called is part of a
// pipeline.
func requests(calls map[string]int64) int64 {
	if calls["evalsha"] == 0 {
		return sent(calls) + (calls["pexpire"]+renewAtOnce-1)/renewAtOnce
	}
	return sent(calls)
}

// keepKeys renews the same number of keys until the benchmark ends.
func keepKeys(b *testing.B, r raw) (renewed func() int64) {
	ctx := context.Background()
	var keys []string
	for i := range heldLeases {
		keys = append(keys, fmt.Sprintf("raw-held/%d", i))
		_, err := r.Set(ctx, keys[i], "mine", heldTTL)
		check(b, err)
	}
	seen := &counter{}
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(heldTTL / 3)
		defer tick.Stop()
		for {
			for batch := range slices.Chunk(keys, renewAtOnce) {
				assert.NoError(b, r.Renew(ctx, batch, heldTTL))
				seen.renewed.Add(int64(len(batch)))
			}
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	b.Cleanup(func() { close(done); group.Wait() })
	return seen.renewed.Load
}

// clientCPU is the CPU time of this process so far.
func clientCPU(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	check(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuOf is the CPU time of a server so far.
func cpuOf(b *testing.B, server *redistest.Server) time.Duration {
	b.Helper()
	var total time.Duration
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		s, err := strconv.ParseFloat(server.Info(b, field), 64)
		check(b, err)
		total += time.Duration(s * float64(time.Second))
	}
	return total
}
