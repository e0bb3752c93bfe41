package bench

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// BenchmarkContended4x4 is 4 processes of 4 goroutines that contend for one lock, with no
// work under it. An op is a round of both sides; raw is a token that RPUSH gives to a
// client that waits in BLPOP.
func BenchmarkContended4x4(b *testing.B) {
	eachKit(b, func(b *testing.B, r *rig) {
		workers := r.fleet(b, 4)
		round := func(raw bool) contest {
			j := crew.Job{Name: "fight", Clients: 1, Each: 4, Shift: crew.Shift{For: 500 * time.Millisecond}}
			return func() (crew.Tally, error) { return workers.Run(r.jobs(j, raw, 1, 1, 1, 1)) }
		}
		check(b, r.party.raw.Push(context.Background(), "fight", "1"))
		b.Run("holdfast", func(b *testing.B) { benchFight(b, round(false), rival{"x-raw-rate", round(true)}) })
		b.Run("raw", func(b *testing.B) { benchFight(b, round(true)) })
	})
}

// fleet starts worker processes that end with the test.
func (r *rig) fleet(t testing.TB, n int) *crew.Fleet {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	return launch(t, n, func() *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), envWorker+"=1")
		return cmd
	})
}

func launch(t testing.TB, n int, command func() *exec.Cmd) *crew.Fleet {
	t.Helper()
	f, err := crew.Launch(n, command)
	check(t, err)
	t.Cleanup(func() {
		assert.NoError(t, f.Close())
	})
	return f
}

// jobs makes a job like j for each worker, with this number of clients: for the raw
// token, or for Holdfast's mutex.
func (r *rig) jobs(j crew.Job, raw bool, clients ...int) []crew.Job {
	j.Side, j.Addr = ours(r.kit).name, r.server.Addr()
	if raw {
		j.Side, j.Kind = bare(r.kit).name, kindToken
	}
	jobs := make([]crew.Job, len(clients))
	for i, n := range clients {
		jobs[i] = j
		jobs[i].Clients = n
	}
	return jobs
}
