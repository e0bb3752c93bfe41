package topology_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// logs makes a server keep a log, and returns when it has been written once:
// before that it counts for nothing.
func logs(t testing.TB, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		s.Do(t, "CONFIG", "SET", "appendonly", "yes", "appendfsync", "always")
	}
	for _, s := range servers {
		redistest.Await(t, "the log is written", func() bool {
			info, _ := s.Do(t, "INFO", "persistence").(string)
			return strings.Contains(info, "aof_rewrite_in_progress:0") &&
				strings.Contains(info, "aof_rewrite_scheduled:0") && strings.Contains(info, "aof_enabled:1")
		})
	}
}

// onDisk takes the lock with WaitAOF until so many disks of replicas have been
// counted beside the primary's, and never more. Where that is less than was
// wanted, the lock is given back each time, and the error says both.
func onDisk(t *testing.T, p *party, replicas, counted int) {
	t.Helper()
	redistest.Await(t, "so many are counted", func() bool {
		l, err := p.Mutex("x", holdfast.WaitAOF(replicas, 2*time.Second)).TryLock(harness.Within(t))
		if err == nil {
			harness.Release(t, l)
			assert.True(t, counted >= replicas, "durable on %d replicas, of which %d can be", replicas, counted)
			return true
		}
		var missing *holdfast.MismatchError
		want := store.Acks{LocalAOF: 1, ReplicaAOF: replicas}
		assert.MustTrue(t, errors.As(err, &missing) && missing.Want == want, "got %v", err)
		got, _ := missing.Got.(store.Acks)
		assert.MustTrue(t, got.ReplicaAOF <= counted,
			"durable on %d replicas, of which %d can be: %v", replicas, counted, err)
		s, err := p.Inspect(harness.Within(t), "x")
		assert.True(t, err == nil && !s.Held(), "it was not given back: %v, %v", s.Holders, err)
		return got == store.Acks{LocalAOF: 1, ReplicaAOF: counted}
	})
}

// notDurable expects the refusal of servers that cannot wait for disks, before
// anything is taken, and a hint.
func notDurable(t *testing.T, s *redistest.Server, err error) {
	t.Helper()
	var refused *holdfast.ServerError
	if !errors.As(err, &refused) || refused.Code != "WAITAOF" || !strings.Contains(holdfast.Hint(err), "appendonly") {
		t.Errorf("it says %v, and to do %q", err, holdfast.Hint(err))
	}
	redistest.Await(t, "nothing is held", func() bool {
		held, _ := s.Do(t, "HGET", harness.Key("x"), "lock").(string)
		return !strings.Contains(held, " ")
	})
}

// Disks are counted: the primary's own, and those of replicas that have a log
// and are there.
func TestDurableCountsTheDisksThatHaveIt(t *testing.T) {
	behindSentinel(t, func(t *testing.T, g *redistest.Sentinel, open func(testing.TB) *party) {
		p, primary := open(t), g.Primary()
		_, err := p.Mutex("x", holdfast.WaitAOF(0, time.Second)).TryLock(harness.Within(t))
		notDurable(t, primary, err) // it has no log, or no such command
		if !primary.WaitsForDisks(t) {
			return // and what an old server does about WaitAOF has been seen
		}
		logs(t, g.Servers...)
		onDisk(t, p, 0, 0)
		onDisk(t, p, 2, 2)
		onDisk(t, p, 3, 2)
		for _, s := range g.Servers {
			if s != primary {
				s.Do(t, "CONFIG", "SET", "appendonly", "no")
				break
			}
		}
		onDisk(t, p, 1, 1)
		onDisk(t, p, 2, 1)
		harness.Release(t, p.acked(t, "x", holdfast.WaitReplicas(2, time.Second), holdfast.WaitAOF(1, time.Second)))
		primary.CutReplicas(t)
		onDisk(t, p, 1, 0)
		onDisk(t, p, 0, 0)
	})
}

// A renewal and a pushed grant wait for the disk too.
func TestDurableHoldsAreRenewedAndHandedOver(t *testing.T) {
	behindSentinel(t, func(t *testing.T, g *redistest.Sentinel, open func(testing.TB) *party) {
		a, b, primary := open(t), open(t), g.Primary()
		durable := holdfast.WaitAOF(0, 2*time.Second)
		if !primary.WaitsForDisks(t) {
			_, err := a.Mutex("x", durable).TryLock(harness.Within(t))
			notDurable(t, primary, err)
			return
		}
		logs(t, primary)
		held := a.acked(t, "x", durable, holdfast.TTL(6*time.Second))
		a.Await(t, observe.EventRenew, "x", 1)
		pushed := b.waiting(t, "x", durable)
		before := primary.CommandCalls(t)["waitaof"]
		harness.Release(t, held)
		got := <-pushed
		assert.Must(t, got.Err)
		after := primary.CommandCalls(t)["waitaof"]
		assert.True(t, after != before, "the push was believed before it was on disk")
		harness.Release(t, got.Lease)
	})
}

// What was durable is there after the machine has failed: whatever was written to
// the log behind it is cut off.
func TestWhatIsDurableOutlivesTheMachine(t *testing.T) {
	for _, a := range harness.Adapters {
		t.Run(a.Name, func(t *testing.T) {
			s := redistest.Start(t, redistest.Needs("for `WaitReplicas`"),
				redistest.Args("--appendonly", "yes", "--appendfsync", "everysec"))
			p := newParty(t, a.Server(t, s.Addr(), restrict(t, []*redistest.Server{s}), 0))
			l, err := p.Mutex("x", holdfast.WaitAOF(0, 2*time.Second), holdfast.TTL(time.Minute),
				holdfast.NoRenewal()).TryLock(harness.Within(t))
			if !s.WaitsForDisks(t) {
				notDurable(t, s, err)
				return
			}
			assert.Must(t, err)
			size := s.LogSize()
			s.Do(t, "SET", "later", "x")
			s.Kill()
			s.CutLog(size)
			s.Restart()
			redistest.Await(t, "the log is loaded, without what came later", func() bool {
				return s.Do(t, "EXISTS", "later") == int64(0)
			})
			lock, _ := s.Do(t, "HGET", harness.Key("x"), "lock").(string)
			assert.True(t, strings.Contains(lock, " "+l.HolderID()),
				"the record says %q, the lease is of %s", lock, l.HolderID())
		})
	}
}
