package bench

import (
	"context"
	"testing"
	"time"
)

// BenchmarkContended4x4 is 4 processes of 4 goroutines that fight for one
// lock, with nothing to do under it. An op is a round, in which each side has
// its turn; raw is a token that RPUSH gives to whoever waits in BLPOP.
func BenchmarkContended4x4(b *testing.B) {
	eachKit(b, func(b *testing.B, r *rig) {
		crew := r.fleet(b, 4)
		round := func(raw bool) contest {
			j := job{Raw: raw, Name: "fight", Clients: 1, Each: 4, Shift: shift{For: 500 * time.Millisecond}}
			return func() (tally, error) { return crew.run(r.jobs(j, 1, 1, 1, 1)) }
		}
		check(b, r.party.raw.Push(context.Background(), "fight", "1"))
		b.Run("holdfast", func(b *testing.B) { benchFight(b, round(false), round(true), "x-raw-rate") })
		b.Run("raw", func(b *testing.B) { benchFight(b, round(true), nil, "") })
	})
}

// fleet starts worker processes that end with the test.
func (r *rig) fleet(t testing.TB, n int) *fleet {
	t.Helper()
	f, err := launch(n)
	check(t, err)
	t.Cleanup(func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// jobs makes a job of j for each worker, with so many clients.
func (r *rig) jobs(j job, clients ...int) []job {
	j.Kit, j.Addr = r.kit.name, r.server.Addr()
	jobs := make([]job, len(clients))
	for i, n := range clients {
		jobs[i] = j
		jobs[i].Clients = n
	}
	return jobs
}
