package lineage_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// delThenSetnx keeps the time of the end as the lock's value. A client that finds that time
// past deletes the lock, and makes its own.
func delThenSetnx(c *player) {
	if c.do("SETNX", "x", c.now()+30) == no {
		if number(c.do("GET", "x")) > c.now() {
			return
		}
		c.do("DEL", "x")
		if c.do("SETNX", "x", c.now()+30) == no {
			return
		}
	}
	c.enter("holds")
	c.work()
}

// A holder has died. Both clients see that its lock has expired. The second DEL of the
// old way deletes the first client's new lock. With Holdfast the server ends the dead
// lease, and grants the lock once.
func TestTwoClientsThatBothSeeAnExpiredLockBothAcquireIt(t *testing.T) {
	t.Parallel()
	halves(t, func(t *testing.T, s *redistest.Server) {
		perform(t, s, scene{
			picture: "expired",
			flaw:    "B has deleted A's lock, not D's: A and B both hold.",
			clients: []actor{
				{name: "D", run: delThenSetnx}, {name: "A", run: delThenSetnx}, {name: "B", run: delThenSetnx},
			},
			turns: "D kill D 31s A B A B A A B B",
		}).together("A", "B")
	}, func(t *testing.T, s *redistest.Server) {
		dead, _ := client(t, s.Addr(), holdfast.Config{TTL: 3 * time.Second})
		a, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		b, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		assert.Must(t, assert.Err(dead.Mutex(lockName, holdfast.NoRenewal()).Lock(harness.Within(t))))
		dead.Abandon()
		first := harness.Acquiring(harness.Within(t), a.Mutex(lockName).Lock)
		second := harness.Acquiring(harness.Within(t), b.Mutex(lockName).Lock)
		var l *holdfast.Lease
		select {
		case got := <-first:
			l, first = got.Lease, nil
		case got := <-second:
			l, second = got.Lease, nil
		}
		state, err := a.Inspect(harness.Within(t), lockName)
		assert.True(t, err == nil && len(state.Holders) == 1 && len(first)+len(second) == 0,
			"the holders are %v (%v)", state.Holders, err)
		harness.Release(t, l)
		if first == nil {
			first = second
		}
		harness.Release(t, harness.Granted(t, first))
	})
}
