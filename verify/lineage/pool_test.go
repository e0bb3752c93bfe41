package lineage_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// renewalPool renews all locks of a process, while its one flag is set.
func renewalPool(c *player) {
	keys := []string{"x", "y"}
	for _, key := range keys {
		c.do("SET", key, c.name, "NX", "PX", 30000)
	}
	c.enter("holds")
	for running := true; running; {
		c.sleep(10 * time.Second)
		for _, key := range keys {
			if running = c.do("PEXPIRE", key, 30000) == yes; !running {
				break
			}
		}
	}
}

// lockY is another process that wants y.
func lockY(c *player) {
	for c.do("SET", "y", c.name, "NX", "PX", 30000) != "OK" {
		c.sleep(10 * time.Second)
	}
	c.enter("holds")
	c.work()
}

// renewed checks that Holdfast renews a held lock, over more than a lease, and that another
// client is refused.
func renewed(t *testing.T, l *holdfast.Lease, seen *harness.Watch, other *holdfast.Client) {
	t.Helper()
	seen.Await(t, observe.EventRenew, l.Name(), 4) // one every third of the TTL
	err := l.Err()
	assert.True(t, err == nil, "the lease of %s has ended: %v", l.Name(), err)
	l, err = other.Mutex(l.Name()).TryLock(harness.Within(t))
	assert.True(t, errors.Is(err, holdfast.ErrHeld), "another client: %v, %v", l, err)
}

// staysRenewed is the half of Holdfast: a client holds a lock for longer than its TTL.
func staysRenewed(t *testing.T, s *redistest.Server) {
	t.Helper()
	a, seen := client(t, s.Addr(), holdfast.Config{TTL: 3 * time.Second})
	b, _ := client(t, s.Addr(), holdfast.Config{})
	l := harness.Lock(t, a.Mutex(lockName))
	renewed(t, l, seen, b)
	harness.Release(t, l)
}

// One of two locks is lost. The old pool has one flag for both, and ends the renewal of
// the other too. With Holdfast each lease has its own state.
func TestOneFlagForAllKeysEndsEveryRenewal(t *testing.T) {
	t.Parallel()
	halves(t, func(t *testing.T, s *redistest.Server) {
		perform(t, s, scene{
			picture: "pool-flag",
			flaw:    "A has lost x, and renews y no more: A and B both hold y.",
			keys:    []string{"x", "y"},
			clients: []actor{
				{name: "A", run: renewalPool},
				{name: "operator", run: func(c *player) { c.do("DEL", "x") }},
				{name: "B", run: lockY},
			},
			turns: "A A 10s A A B operator 10s A 10s B 10s B",
		}).together("A", "B")
	}, func(t *testing.T, s *redistest.Server) {
		a, seen := client(t, s.Addr(), holdfast.Config{TTL: 3 * time.Second})
		b, _ := client(t, s.Addr(), holdfast.Config{})
		x, y := harness.Lock(t, a.Mutex("x")), harness.Lock(t, a.Mutex("y"))
		n, err := b.Evict(harness.Within(t), "x", holdfast.Eviction{By: "operator", Reason: "test"})
		assert.MustTrue(t, n == 1 && err == nil, "Evict: %d, %v", n, err)
		seen.Await(t, observe.EventLost, "x", 1)
		renewed(t, y, seen, b)
		late(t, x)
		harness.Release(t, y)
	})
}

// renewAfterTTL sleeps for the whole lease before it renews.
func renewAfterTTL(c *player) {
	if c.do("SET", "x", c.name, "NX", "PX", 30000) == "OK" {
		c.enter("holds")
		for {
			c.sleep(30 * time.Second)
			c.eval("PEXPIRE if mine", expireIfMine, []string{"x"}, c.name, 30000)
		}
	}
}

const expireIfMine = `
	if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
	return redis.call('PEXPIRE', KEYS[1], ARGV[2])`

// fixedLease locks for a time that should be enough.
func fixedLease(c *player) {
	if c.do("SET", "x", c.name, "NX", "PX", 30000) == "OK" {
		c.enter("holds")
		c.sleep(40 * time.Second) // the work
		c.eval("DEL if mine", deleteIfMine, []string{"x"}, c.name)
		c.leave()
	}
}

// The lease began at the server before its answer was there. So a renewal that waits for
// the whole TTL always comes after the end. Holdfast renews every third of the TTL.
func TestARenewalAfterTheWholeTTLComesTooLate(t *testing.T) {
	t.Parallel()
	halves(t, func(t *testing.T, s *redistest.Server) {
		perform(t, s, scene{
			picture: "pool-late",
			flaw:    "A's renewal comes after the lease: A and B both hold.",
			clients: []actor{{name: "A", run: renewAfterTTL}, {name: "B", run: fixedLease}},
			turns:   "A 30s B A",
		}).together("A", "B")
	}, staysRenewed)
}

// renewAlways renews without a pause.
func renewAlways(c *player) {
	if c.do("SET", "x", c.name, "NX", "PX", 30000) == "OK" {
		c.enter("holds")
		for c.eval("PEXPIRE if mine", expireIfMine, []string{"x"}, c.name, 30000) == yes {
			continue
		}
	}
}

// A loop renews without a pause, as fast as the server answers. Holdfast renews three
// times in a lease.
func TestARenewalWithoutAPauseFloodsTheServer(t *testing.T) {
	t.Parallel()
	halves(t, func(t *testing.T, s *redistest.Server) {
		p := perform(t, s, scene{
			picture: "pool-hot",
			flaw:    "No time has passed: the loop has no pause.",
			clients: []actor{{name: "A", run: renewAlways}},
			turns:   "A A*1000",
		})
		n := s.CommandCalls(t)["pexpire"]
		assert.True(t, n == 1000 && p.passed == 0, "%d renewals in %v: the flaw is not seen", n, p.passed)
	}, func(t *testing.T, s *redistest.Server) {
		staysRenewed(t, s)
		assert.AtMost(t, s.CommandCalls(t)["evalsha"], 30, "requests in little more than a lease")
	})
}

// The work takes longer than its lease. The old lock goes to another client, and the first
// one is not told. With Holdfast the lease is renewed while the process lives.
func TestAFixedLeaseIsOverBeforeTheWork(t *testing.T) {
	t.Parallel()
	halves(t, func(t *testing.T, s *redistest.Server) {
		perform(t, s, scene{
			picture: "fixed-lease",
			flaw:    "A works on without the lock, and only its release could tell it.",
			clients: []actor{{name: "A", run: fixedLease}, {name: "B", run: fixedLease}},
			turns:   "A 30s B",
		}).together("A", "B")
	}, staysRenewed)
}
