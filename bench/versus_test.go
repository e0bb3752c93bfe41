package bench

import (
	"flag"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/crew"
)

// workload is what both sides do in alternate rounds.
type workload struct {
	name  string
	procs int
	job   crew.Job // Clients are the clients of one process
	own   bool     // without contention: raw uses keys; otherwise it uses a token

	// If it is set, only the commands in this part of the shift count, and nothing else.
	window time.Duration
}

// workloads are named after their differences. They use one process unless the name says
// more.
var workloads = []workload{
	{name: "pair", procs: 1, own: true, job: crew.Job{Own: true, Clients: 1, Each: 1, Shift: crew.Shift{
		For: 500 * time.Millisecond, Sample: true,
	}}},
	{name: "own-64", procs: 1, own: true, job: crew.Job{Own: true, Clients: 1, Each: 64, Shift: crew.Shift{
		For: 500 * time.Millisecond, Sample: true,
	}}},
	{name: "fight-1x16", procs: 1, job: crew.Job{Clients: 1, Each: 16, Shift: crew.Shift{For: 2 * time.Second}}},
	{name: "fight-4x4", procs: 4, job: crew.Job{Clients: 1, Each: 4, Shift: crew.Shift{For: 2 * time.Second}}},
	{name: "section-1ms", procs: 4, job: crew.Job{Clients: 1, Each: 4, Shift: crew.Shift{
		For: 2 * time.Second, Hold: time.Millisecond,
	}}},
	{name: "section-10ms", procs: 4, job: crew.Job{Clients: 1, Each: 4, Shift: crew.Shift{
		For: 2 * time.Second, Hold: 10 * time.Millisecond,
	}}},
	{name: "locks-1", procs: 4, job: locks(1)},
	{name: "locks-100", procs: 4, job: locks(100)},
	{name: "locks-10000", procs: 4, job: locks(10_000)},
	{name: "line-10", procs: 2, job: line(5)},
	{name: "line-100", procs: 4, job: line(25)},
	{name: "line-1000", procs: 4, job: line(250)},
	{name: "hand-over-1", procs: 2, job: handOver(1)},
	{name: "hand-over-50", procs: 3, job: handOver(17)},
	{name: "idle-100", procs: 1, window: 2 * time.Second, job: crew.Job{Clients: 101, Each: 1, Shift: crew.Shift{
		For: 5 * time.Second, Hold: 5 * time.Second,
	}}},
}

// locks is 64 goroutines in all; each turn takes one of n locks at random.
func locks(n int) crew.Job {
	return crew.Job{Keys: n, Clients: 1, Each: 16, Shift: crew.Shift{For: time.Second}}
}

// line is a number of clients in one process that all want one lock for 1 ms.
func line(clients int) crew.Job {
	return crew.Job{Clients: clients, Each: 1, Shift: crew.Shift{For: 3 * time.Second, Hold: time.Millisecond}}
}

func handOver(clients int) crew.Job {
	return crew.Job{Clients: clients, Each: 1, Shift: crew.Shift{
		For: 1500 * time.Millisecond, Hold: labour, Pause: rest, Record: true,
	}}
}

// patient is how long after the end of a shift a member may still wait.
const patient = 10 * time.Second

// etcdProgram is what make bench WHAT=peers builds.
var etcdProgram = flag.String("etcd", "", "the program of bench/etcd: measure etcd's lock too")

// BenchmarkVersus compares Holdfast with every rival at the same work, in alternate
// rounds. An op is a round of both; each begins every other round. Each line has the
// figures of the side in its name, and ratios, x-…: Holdfast's figure on the same client
// library, divided by the rival's. In the lines of Holdfast it is divided by raw's. Etcd
// has no Redis client, so it is compared with Holdfast on rueidis.
func BenchmarkVersus(b *testing.B) {
	for _, w := range workloads {
		b.Run(w.name, func(b *testing.B) {
			for _, k := range kits {
				for _, mine := range []side{ours(k), plain(k)} {
					b.Run(mine.name, func(b *testing.B) { versus(b, contenders(b, w, mine, bare(k)), 0) })
				}
			}
			for _, r := range rivals {
				b.Run(r.name, func(b *testing.B) { versus(b, contenders(b, w, ours(kitNamed(r.kit)), r), 1) })
			}
			if *etcdProgram != "" && w.job.Keys <= 1 && w.job.Clients <= 100 {
				b.Run("etcd", func(b *testing.B) {
					versus(b, contenders(b, w, ours(kitNamed("rueidis")), side{name: "etcd"}), 1)
				})
			}
		})
	}
}

func contenders(b *testing.B, w workload, mine, other side) [2]*contender {
	b.Helper()
	return [2]*contender{contend(b, w, mine), contend(b, w, other)}
}

// versus runs two sides in alternate rounds. It reports on one of them, and on the ratio
// of the first side's figures to the second side's.
func versus(b *testing.B, pair [2]*contender, reported int) {
	w := pair[0].work
	for _, c := range pair {
		c.warm(b)
	}
	var rates, p50s, worsts []float64
	for i := 0; b.Loop(); i++ {
		first, second := i%2, (i+1)%2
		pair[first].round(b)
		pair[second].round(b)
		rates = append(rates, pair[0].last.Rate()/pair[1].last.Rate())
		p50s = append(p50s, float64(pair[0].p50())/float64(pair[1].p50()))
		worsts = append(worsts, float64(pair[0].last.Worst)/float64(pair[1].last.Worst))
	}
	b.ReportMetric(0, "ns/op")
	pair[reported].report(b)
	timed := w.job.Shift.Sample || w.job.Shift.Record
	if timed {
		b.ReportMetric(crew.Percentile(p50s, 50), "x-p50")
	}
	if w.job.Shift.Hold < labour {
		b.ReportMetric(crew.Percentile(rates, 50), "x-rate")
	}
	if !timed && w.job.Shift.Hold < labour {
		b.ReportMetric(crew.Percentile(worsts, 50), "x-worst-wait")
	}
}
