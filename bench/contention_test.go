package bench

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
)

const fighters = 16

// BenchmarkContended16 is 16 goroutines of one process that contend for one lock, with no
// work under it. An op is a round of both sides.
//
//	holdfast   as it is: the lock is passed on inside the process
//	semaphore  no lock of a server at all: golang.org/x/sync/semaphore with one permit
//	apart      the same with Config.MaxLocalHandOvers: -1, each asks the server
//	raw        a token that RPUSH gives to a client that waits in BLPOP
func BenchmarkContended16(b *testing.B) {
	eachKit(b, func(b *testing.B, r *rig) {
		shared := r.party.client(b, holdfast.Config{})
		apart := r.join(b).client(b, holdfast.Config{MaxLocalHandOvers: -1})
		local := fight(enterLock(shared.Mutex("local")), 200*time.Millisecond)
		server := fight(enterLock(apart.Mutex("apart")), 500*time.Millisecond)
		check(b, r.party.raw.Push(context.Background(), "token", "1"))
		token := fight(enterToken(r.party.raw, "token"), 500*time.Millisecond)
		permit := fight(enterPermit(semaphore.NewWeighted(1)), 200*time.Millisecond)
		b.Run("holdfast", func(b *testing.B) {
			benchFight(b, local, rival{"x-apart-rate", server}, rival{"x-semaphore-rate", permit})
		})
		b.Run("apart", func(b *testing.B) { benchFight(b, server, rival{"x-raw-rate", token}) })
		b.Run("semaphore", func(b *testing.B) { benchFight(b, permit) })
		b.Run("raw", func(b *testing.B) { benchFight(b, token) })
	})
}

// enterPermit acquires the only permit of a semaphore of this process. As under a lease, the
// code under it has a context that ends with it.
func enterPermit(s *semaphore.Weighted) crew.Enter {
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		if err := s.Acquire(ctx, 1); err != nil {
			return 0, nil, err
		}
		_, cancel := context.WithCancel(ctx)
		return 0, func(context.Context) error {
			cancel()
			s.Release(1)
			return nil
		}, nil
	}
}

// rival is the other side of a contest, and the name of the ratio to it.
type rival struct {
	ratio string
	contest
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

// benchFight reports on rounds of one side, and on the ratio of its rate to those of the
// others. The rounds alternate.
func benchFight(b *testing.B, side contest, others ...rival) {
	play := func(c contest) crew.Tally {
		t, err := c()
		check(b, err)
		return t
	}
	play(side) // to be warm
	var total crew.Tally
	ratios := make([][]float64, len(others))
	for b.Loop() {
		t := play(side)
		total.Add(t, true)
		for i, o := range others {
			other := play(o.contest)
			ratios[i] = append(ratios[i], t.Rate()/other.Rate())
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(total.Rate(), "acq/s")
	b.ReportMetric(crew.Jain(total.Counts), "jain")
	b.ReportMetric(milliseconds(total.Worst), "worst-wait-ms")
	for i, o := range others {
		b.ReportMetric(crew.Percentile(ratios[i], 50), o.ratio)
	}
}
