package bench

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// short is d, or a fraction of it with -short.
func short(d time.Duration) time.Duration {
	if testing.Short() {
		return d / 5
	}
	return d
}

// BenchmarkScaleHeld is the cost of leases of one client that are only renewed, with a
// TTL of 30 s, from a thousand leases to a hundred thousand. An op is a window of 12 s,
// in which each is renewed once or twice.
//
//	B/lease      heap, the lock's name, Mutex and Lease included
//	goroutines   more than before the first lease
//	renewals/s   leases renewed; commands/s what was sent for that
//	client-cpu-% of one core, and µs for each renewed lease; server-… likewise
func BenchmarkScaleHeld(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRig(b, kitNamed("rueidis"))
			seen := &counter{}
			client := r.party.client(b, holdfast.Config{Observer: seen})
			giveBack(b, hold(b, client, many)) // to make the connections
			heap, routines := memory(b)
			leases := hold(b, client, n)
			b.Cleanup(func() { giveBack(b, leases) })
			moreHeap, moreRoutines := memory(b)
			benchHeld(b, r, seen.renewed.Load, short(12*time.Second))
			b.ReportMetric(float64(moreHeap-heap)/float64(n), "B/lease")
			b.ReportMetric(float64(moreRoutines-routines), "goroutines")
			if n := seen.lost.Load(); n > 0 {
				b.Errorf("%d leases were lost", n)
			}
			runtime.KeepAlive(leases)
		})
	}
}

// BenchmarkScaleWaiters is the cost of a turn with this number of waiters for one lock,
// each with its own position in the wait queue (MaxLocalHandOvers: -1). An op is a shift
// of a second, and the time until all have had their turn.
func BenchmarkScaleWaiters(b *testing.B) {
	for _, n := range []int{10, 100, 1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRig(b, kitNamed("rueidis"))
			client := r.party.client(b, holdfast.Config{MaxLocalHandOvers: -1})
			members := make([]crew.Enter, n)
			for i := range members {
				members[i] = again(enterLock(client.Mutex("line")))
			}
			var total bill
			var took time.Duration
			turns := 0
			for b.Loop() {
				start := crew.Mono()
				got := billed(b, r.server, func() {
					t, err := crew.Work(context.Background(), members, crew.Shift{For: short(time.Second)})
					check(b, err)
					turns += t.Sum() + t.Late
				})
				took += crew.Mono() - start
				total.usec, total.calls = total.usec+got.usec, total.calls+got.calls
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(turns)/took.Seconds(), "turns/s")
			b.ReportMetric(total.usec/float64(turns), "turn-µs")
			b.ReportMetric(float64(total.calls)/float64(turns), "turn-requests")
		})
	}
}

// BenchmarkScaleNames is what the server keeps when locks with new names are acquired and
// released all the time: 500 a second. Their records expire 3 s after the release
// (Retention: 2 s, TTL: 1 s). An op is 20 s; the curve is the memory and the keys every 5
// s, and -0s is before the first.
func BenchmarkScaleNames(b *testing.B) {
	const perSecond, points = 500, 4
	r := newRig(b, kitNamed("rueidis"))
	client := r.party.client(b, holdfast.Config{TTL: time.Second, Retention: 2 * time.Second})
	check(b, lockPair(client.Mutex("first"))(context.Background()))
	used := func(at int) {
		b.ReportMetric(float64(number(b, r.server, "used_memory"))/1024, fmt.Sprintf("KiB-%ds", at))
		keys, _ := r.server.Do(b, "DBSIZE").(int64)
		b.ReportMetric(float64(keys), fmt.Sprintf("keys-%ds", at))
	}
	made := 0
	for b.Loop() {
		used(0)
		for p := range points {
			tick := time.NewTicker(time.Second / perSecond)
			for end := crew.Mono() + short(5*time.Second); crew.Mono() < end; made++ {
				check(b, lockPair(client.Mutex(fmt.Sprintf("new/%d", made)))(context.Background()))
				<-tick.C
			}
			tick.Stop()
			used(int(short(5*time.Second).Seconds()) * (p + 1))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(made), "names")
}

// BenchmarkScalePrimaries is 64 goroutines, each with its own lock, on a Cluster of which
// only some primaries have locks. All share the cores of this machine. So it shows the
// time of a pair at the servers, which must not rise with their number. It does not show
// the rate on separate machines.
func BenchmarkScalePrimaries(b *testing.B) {
	cluster := redistest.StartCluster(b)
	for n := 1; n <= 3; n++ {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchPrimaries(b, cluster, n) })
	}
}

func benchPrimaries(b *testing.B, cluster *redistest.Cluster, n int) {
	p := openCluster(cluster.Addrs())
	b.Cleanup(p.close)
	client := p.client(b, holdfast.Config{})
	perServer := make(map[*redistest.Server]int)
	var pairs []pair
	for i := 0; len(pairs) < many; i++ {
		name := fmt.Sprintf("primary/%d", i)
		home := cluster.Home(wire.Key("holdfast", name))
		if _, known := perServer[home]; !known && len(perServer) == n || perServer[home] >= (many+n-1)/n {
			continue
		}
		perServer[home]++
		pairs = append(pairs, lockPair(client.Mutex(name)))
	}
	together(b, pairs, 5)
	before := make(map[*redistest.Server]time.Duration)
	for s := range perServer {
		before[s] = cpuOf(b, s)
	}
	var took time.Duration
	done := 0
	for b.Loop() {
		took += together(b, pairs, manyEach)
		done += many * manyEach
	}
	var used time.Duration
	for s := range perServer {
		used += cpuOf(b, s) - before[s]
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(done)/took.Seconds(), "pairs/s")
	b.ReportMetric(float64(used.Microseconds())/float64(done), "servers-µs/pair")
}
