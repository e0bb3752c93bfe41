package bench

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
)

const fighters = 16

// BenchmarkContended16 is 16 goroutines of one process that contend for one lock, with no
// work under it. An op is a round of both sides.
//
//	holdfast  as it is: the lock is passed on inside the process
//	apart     the same with Config.MaxLocalHandOvers: -1, each asks the server
//	raw       a token that RPUSH gives to a client that waits in BLPOP
func BenchmarkContended16(b *testing.B) {
	eachKit(b, func(b *testing.B, r *rig) {
		shared := r.party.client(b, holdfast.Config{})
		apart := r.join(b).client(b, holdfast.Config{MaxLocalHandOvers: -1})
		local := fight(enterLock(shared.Mutex("local")), 200*time.Millisecond)
		server := fight(enterLock(apart.Mutex("apart")), 500*time.Millisecond)
		check(b, r.party.raw.Push(context.Background(), "token", "1"))
		token := fight(enterToken(r.party.raw, "token"), 500*time.Millisecond)
		b.Run("holdfast", func(b *testing.B) { benchFight(b, local, server, "x-apart-rate") })
		b.Run("apart", func(b *testing.B) { benchFight(b, server, token, "x-raw-rate") })
		b.Run("raw", func(b *testing.B) { benchFight(b, token, nil, "") })
	})
}

// contest is one round of one side.
type contest func() (crew.Tally, error)

func fight(member crew.Enter, d time.Duration) contest {
	members := make([]crew.Enter, fighters)
	for i := range members {
		members[i] = member
	}
	return func() (crew.Tally, error) { return crew.Work(context.Background(), members, crew.Shift{For: d}) }
}

// benchFight reports on rounds of one side, and on the ratio of its rate to that of the
// other side. The rounds of the two alternate.
func benchFight(b *testing.B, side, beside contest, ratio string) {
	play := func(c contest) crew.Tally {
		t, err := c()
		check(b, err)
		return t
	}
	play(side) // to be warm
	var total crew.Tally
	var ratios []float64
	for b.Loop() {
		t := play(side)
		total.Add(t, true)
		if beside != nil {
			other := play(beside)
			ratios = append(ratios, t.Rate()/other.Rate())
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(total.Rate(), "acq/s")
	b.ReportMetric(crew.Jain(total.Counts), "jain")
	b.ReportMetric(milliseconds(total.Worst), "worst-wait-ms")
	if beside != nil {
		b.ReportMetric(crew.Percentile(ratios, 50), ratio)
	}
}
