package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

// renewAtOnce is how many leases a client renews in one request.
const renewAtOnce = 128

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
	b.ReportMetric(float64(sent(r.server.CommandCalls(b)))/watched, "commands/s")
	b.ReportMetric(client.Seconds()/watched*100, "client-cpu-%")
	b.ReportMetric(server.Seconds()/watched*100, "server-cpu-%")
	if renewals == 0 { // a window too short to see one
		return
	}
	b.ReportMetric(client.Seconds()/renewals*1e6, "client-µs/renewal")
	b.ReportMetric(server.Seconds()/renewals*1e6, "server-µs/renewal")
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
