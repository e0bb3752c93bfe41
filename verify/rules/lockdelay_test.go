package rules_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// lockDelay is so long that no machine is busy for so long: what a test does while it lasts is done in time.
const lockDelay = 10 * time.Minute

// wantDelayed asserts that the lock is held by nobody but a holder that trusts its lease no more.
func wantDelayed(t *testing.T, c *holdfast.Client, name string, token uint64, got <-chan harness.Outcome) {
	t.Helper()
	h := state(t, c, name).Holders
	assert.True(t, len(h) == 1 && h[0].Token>>10 == token>>10 && h[0].Remaining < h[0].LockDelay,
		"%q is held by %+v, not by %d for its lock-delay", name, h, token)
	assert.Equal(t, len(got), 0, "somebody waited, and has got the lock")
}

// overAtServer waits until the holder trusts its lease no more, by the server's clock.
func overAtServer(t *testing.T, c *holdfast.Client, name string) {
	t.Helper()
	redistest.Await(t, "its holder trusts its lease no more", func() bool {
		h := state(t, c, name).Holders[0]
		return h.Remaining < h.LockDelay
	})
}

// end frees a lock that is kept, and lets the waiter have it.
func end(t *testing.T, c *holdfast.Client, name string, got <-chan harness.Outcome) {
	t.Helper()
	_, err := c.Evict(harness.Within(t), name, holdfast.Eviction{By: "test", Reason: "test", AtOnce: true})
	assert.Must(t, err)
	harness.Release(t, harness.Granted(t, got))
}

// The holder's process is stopped until its lease is over, and goes on with what it was about to do. Nobody else has
// the lock then, nor after its release. Nothing checks its token.
func TestAHolderThatIsPausedForLessThanTheLockDelayMeetsNobody(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		stopped := startKind(t, w.Addr(), "", "x", 500*time.Millisecond, envWait+"="+lockDelay.String())
		token := stopped.Token(t, "held")
		b, seen := w.local(t, holdfast.Config{})
		got := harness.Waiting(t, seen, b.Mutex("x"))
		stopped.Stop(t)
		overAtServer(t, b, "x")
		stopped.Order("write")
		stopped.Resume()
		stopped.Token(t, "write")
		wantDelayed(t, b, "x", token, got)
		assert.Contains(t, stopped.Hear(t, "ended"), "lost")
		lock := func() string { return fmt.Sprint(w.Do(t, "HGET", harness.Key("x"), "lock")) }
		before := lock()
		stopped.Order("release")
		stopped.Hear(t, "released")
		redistest.Await(t, "the release has arrived", func() bool { return lock() != before })
		wantKept(t, b, "x", got)
		end(t, b, "x", got)
	})
}

// wantKept asserts that the lock is kept, for no longer than the lock-delay.
func wantKept(t *testing.T, c *holdfast.Client, name string, got <-chan harness.Outcome) {
	t.Helper()
	h := state(t, c, name).Holders
	assert.True(t, len(h) == 1 && h[0].Remaining <= lockDelay && h[0].Remaining > lockDelay/2,
		"%q is held by %+v", name, h)
	assert.Equal(t, len(got), 0, "somebody waited, and has got the lock")
}

// The holder is cut off from the lock. At the last moment of its lease it sends a write to the resource, over a link
// that keeps it until the lease is over. It arrives before anybody else has the lock.
func TestAWriteThatTravelsForLessThanTheLockDelayMeetsNobody(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		locks, link := redistest.NewProxy(t, w.Addr()), redistest.NewProxy(t, w.Addr())
		a, _ := w.client(t, locks.Addr(), holdfast.Config{TTL: 500 * time.Millisecond})
		l := harness.Lock(t, a.Mutex("x", holdfast.LockDelay(lockDelay)))
		b, seen := w.local(t, holdfast.Config{})
		got := harness.Waiting(t, seen, b.Mutex("x"))
		locks.BlackHole()
		resource := redistest.Dial(t, link.Addr())
		link.BlackHole()
		redistest.Await(t, "the lease is nearly over", func() bool { return l.Remaining() < 100*time.Millisecond })
		resource.Send(t, "SET", "resource", "written")
		overAtServer(t, b, "x")
		link.Pass()
		redistest.Await(t, "the write has arrived", func() bool { return w.Do(t, "GET", "resource") == "written" })
		wantDelayed(t, b, "x", l.Token(), got)
		end(t, b, "x", got)
	})
}

// The server's clock is set forward by more than what is left of a lease, and by less than the lock-delay. Without a
// lock-delay, a second client has the lock while the first one trusts its lease.
func TestASteppedClockLetsNobodyInWithinTheLockDelay(t *testing.T) {
	t.Parallel()
	for _, a := range harness.Adapters {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			w := &world{redistest.Start(t, redistest.Clock()), a}
			link := redistest.NewProxy(t, w.Addr())
			c, _ := w.client(t, link.Addr(), holdfast.Config{TTL: 2 * time.Minute})
			other, _ := w.local(t, holdfast.Config{})
			l := harness.Lock(t, c.Mutex("with", holdfast.LockDelay(lockDelay)))
			bare := harness.Lock(t, c.Mutex("without"))
			link.BlackHole()
			w.MoveClock(lockDelay - time.Second)
			_, err := other.Mutex("with").TryLock(harness.Within(t))
			assert.Is(t, err, holdfast.ErrHeld)
			assert.NoError(t, l.Err())
			second, err := other.Mutex("without").TryLock(harness.Within(t))
			assert.MustTrue(t, err == nil && bare.Err() == nil, "the step has no effect: %v, %v", err, bare.Err())
			harness.Release(t, second)
		})
	}
}
