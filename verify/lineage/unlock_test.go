package lineage_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// deferUnlock drops the error of its unlock, as a deferred call does.
func deferUnlock(c *player) {
	for c.do("SET", "x", c.name, "NX", "PX", 30000) != "OK" {
		c.sleep(10 * time.Second)
	}
	c.enter("holds")
	c.eval("DEL if mine", deleteIfMine, []string{"x"}, c.name)
	c.leave()
}

// The network breaks while a client unlocks. The old way ignores the error: nobody holds
// the lock, and everybody waits. Holdfast repeats a release until its outcome is known.
func TestASwallowedErrorOfUnlockLeavesTheLock(t *testing.T) {
	t.Parallel()
	halves(t, func(t *testing.T, s *redistest.Server) {
		p := perform(t, s, scene{
			picture: "unlock-error",
			flaw:    "Nobody holds the lock, and B waits for the rest of A's lease.",
			clients: []actor{{name: "A", run: deferUnlock}, {name: "B", run: deferUnlock}},
			turns:   "A cut A A B 10s B 10s B",
		})
		p.together()
		assert.Equal(t, s.Do(t, "GET", lockName), "A", "the owner of the lock: the flaw is not seen")
	}, func(t *testing.T, s *redistest.Server) {
		proxy := redistest.NewProxy(t, s.Addr())
		a, _ := client(t, proxy.Addr(), holdfast.Config{TTL: time.Minute})
		b, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		l := harness.Lock(t, a.Mutex(lockName))
		var once sync.Once
		proxy.Hook(func(e redistest.Event) {
			if e.Stage == redistest.Arrived && is(e.Request, script.Release) {
				once.Do(proxy.Cut)
			}
		})
		harness.Release(t, l)
		assert.AtLeast(t, proxy.Count(redistest.Arrived, "EVALSHA"), 3,
			"requests: the release was not repeated, so nothing is shown")
		l, err := b.Mutex(lockName).TryLock(harness.Within(t))
		assert.Must(t, err)
		harness.Release(t, l)
	})
}

// failingJob starts a watchdog, and returns early: it never comes to its unlock.
func failingJob(c *player) {
	if c.do("SET", "x", c.name, "NX", "PX", 30000) == "OK" {
		c.enter("holds")
		c.work()
		c.leave() // the job has failed: it returns, and does not unlock
		for {     // its watchdog goes on
			c.sleep(10 * time.Second)
			c.eval("PEXPIRE if mine", expireIfMine, []string{"x"}, c.name, 30000)
		}
	}
}

// A job forgets its lock. The old watchdog renews it for as long as the process lives.
// Holdfast notices a lease that the program has dropped: it renews it no more, and reports it.
func TestAWatchdogThatNeverStopsKeepsAForgottenLock(t *testing.T) {
	t.Parallel()
	halves(t, func(t *testing.T, s *redistest.Server) {
		p := perform(t, s, scene{
			picture: "watchdog",
			flaw:    "Nobody works under the lock, and it never ends.",
			clients: []actor{{name: "A", run: failingJob}, {name: "B", run: fixedLease}},
			turns:   "A A 10s A 10s A 10s A 10s A B",
		})
		p.together()
		if owner := s.Do(t, "GET", lockName); owner != "A" || p.passed <= 30*time.Second {
			t.Errorf("after %v the lock is %v's: the flaw is not seen", p.passed, owner)
		}
	}, func(t *testing.T, s *redistest.Server) {
		a, seen := client(t, s.Addr(), holdfast.Config{TTL: time.Second})
		b, _ := client(t, s.Addr(), holdfast.Config{})
		func() { harness.Lock(t, a.Mutex(lockName)) }()
		redistest.Await(t, "the lease is found", func() bool {
			runtime.GC()
			return len(seen.Of(observe.EventLeak, lockName)) == 1
		})
		harness.Release(t, harness.Lock(t, b.Mutex(lockName)))
	})
}
