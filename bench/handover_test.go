package bench

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/crew"
)

// labour is how long a holder works under the lock in the hand-over benchmarks, and rest
// is its pause before it comes back.
const (
	labour = 20 * time.Millisecond
	rest   = 5 * time.Millisecond
	apart  = 3 * time.Millisecond // between the first requests of two members
)

// BenchmarkHandOver is the time from the moment a holder calls Release, after
// 20 ms of work, to the moment Lock returns to the next one in another
// process. Everybody comes back, so there are always as many waiters. An op is
// a round of about 50 hand-overs of each side; raw is a token that RPUSH gives
// to a client that waits in BLPOP.
//
//	waiters-1   2 clients in 2 processes
//	waiters-50  51 clients in 4 processes; hand-overs inside one do not count
func BenchmarkHandOver(b *testing.B) {
	for _, c := range []struct {
		name    string
		clients []int // of each process
		round   time.Duration
	}{
		{"waiters-1", []int{1, 1}, 1250 * time.Millisecond},
		{"waiters-50", []int{13, 13, 13, 12}, 1500 * time.Millisecond},
	} {
		b.Run(c.name, func(b *testing.B) {
			eachKit(b, func(b *testing.B, r *rig) {
				workers := r.fleet(b, len(c.clients))
				side := func(raw bool) contest {
					j := crew.Job{Name: "hand-over", Each: 1, Shift: crew.Shift{
						For: c.round, Hold: labour, Pause: rest, Record: true,
					}}
					jobs := r.jobs(j, raw, c.clients...)
					// The queue keeps the order of arrival, so the processes take turns.
					for i := range jobs {
						jobs[i].Shift.Start = time.Duration(i) * apart
						jobs[i].Shift.Step = time.Duration(len(jobs)) * apart
					}
					return func() (crew.Tally, error) { return workers.Run(jobs) }
				}
				check(b, r.party.raw.Push(context.Background(), "hand-over", "1"))
				b.Run("holdfast", func(b *testing.B) { benchHandOver(b, r, side(false), side(true)) })
				b.Run("raw", func(b *testing.B) { benchHandOver(b, r, side(true), nil) })
			})
		})
	}
}

func benchHandOver(b *testing.B, r *rig, side, beside contest) {
	play := func(c contest) crew.Tally {
		t, err := c()
		check(b, err)
		return t
	}
	play(side) // warm up: connections, subscriptions, scripts
	var took, other []time.Duration
	var commands int64
	grants := 0
	for b.Loop() {
		r.server.ResetStats(b)
		t := play(side)
		commands += sent(r.server.CommandCalls(b))
		grants += len(t.Turns)
		took = append(took, crew.HandOvers(t.Turns, labour)...)
		if beside != nil {
			other = append(other, crew.HandOvers(play(beside).Turns, labour)...)
		}
	}
	b.ReportMetric(0, "ns/op")
	p50, p99 := crew.Percentile(took, 50), crew.Percentile(took, 99)
	b.ReportMetric(milliseconds(p50), "p50-ms")
	b.ReportMetric(milliseconds(p99), "p99-ms")
	b.ReportMetric(float64(len(took)), "hand-overs")
	b.ReportMetric(float64(commands)/float64(grants), "commands/turn")
	if beside != nil {
		b.ReportMetric(float64(p50)/float64(crew.Percentile(other, 50)), "x-raw-p50")
		b.ReportMetric(float64(p99)/float64(crew.Percentile(other, 99)), "x-raw-p99")
	}
}
