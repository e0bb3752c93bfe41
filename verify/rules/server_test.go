package rules_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// Rule 11. The server forgets the scripts while a lock is held and waited for.
func TestScriptFlushIsNotNoticed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, seenA := w.local(t, holdfast.Config{TTL: time.Minute})
		b, seenB := w.local(t, holdfast.Config{TTL: time.Minute})
		l := harness.Lock(t, a.Mutex("x"))
		got := harness.Waiting(t, seenB, b.Mutex("x"))
		for range 2 {
			w.Do(t, "SCRIPT", "FLUSH")
			if err := l.Extend(harness.Within(t), time.Minute); err != nil { // it sends what a renewal sends
				t.Errorf("Extend: %v", err)
			}
		}
		w.Do(t, "SCRIPT", "FLUSH")
		harness.Release(t, l)
		l = harness.Granted(t, got)
		w.Do(t, "SCRIPT", "FLUSH")
		harness.Release(t, l)
		for _, e := range append(seenA.Of(observe.EventRenew, "x"), seenB.Of(observe.EventRenew, "x")...) {
			assert.NoError(t, e.Err)
		}
	})
}

// Rule 11. The server crashes and comes back empty: the holder learns of the
// loss. The waiter, whose position is forgotten too, gets the lock with a higher token.
func TestAServerThatRestartsEmpty(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, _ := w.local(t, holdfast.Config{TTL: 6 * time.Second}) // a third of it is until it learns of the loss
		b, seen := w.local(t, holdfast.Config{TTL: time.Minute})
		l := harness.Lock(t, a.Mutex("x"))
		got := harness.Waiting(t, seen, b.Mutex("x"))
		w.Kill()
		w.Restart()
		next := harness.Granted(t, got)
		redistest.Next(t, "the end of the old lease", l.Context().Done())
		assert.Is(t, l.Err(), holdfast.ErrLost)
		assert.More(t, next.Token(), l.Token(), "token")
		assert.Is(t, l.Release(harness.Within(t)), holdfast.ErrNotHeld)
		harness.Release(t, next)
		// The subscription has come back too: the next hand-over is a push.
		l = harness.Lock(t, a.Mutex("x"))
		redistest.Await(t, "the waiter listens", func() bool { return w.listeners(t, b) == 1 })
		got = harness.Acquiring(harness.Within(t), b.Mutex("x").Lock)
		seen.Await(t, observe.EventWait, "x", 2)
		harness.Release(t, l)
		harness.Release(t, harness.Granted(t, got))
	})
}

// Rule 11. The server holds all commands back for a while: for less than the
// lease it costs nothing, for longer it is a loss that is known in time.
func TestClientPauseIsASilenceLikeAnyOther(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, seen := w.local(t, holdfast.Config{TTL: 3 * time.Second})
		l := harness.Lock(t, a.Mutex("x"))
		seen.Renewed(t, "x")
		w.Do(t, "CLIENT", "PAUSE", 1400, "ALL") // the next renewal falls into it
		seen.Renewed(t, "x")
		assert.NoError(t, l.Err())

		b, seenB := w.local(t, holdfast.Config{TTL: time.Minute})
		got := harness.Waiting(t, seenB, b.Mutex("x"))
		w.Do(t, "CLIENT", "PAUSE", 4000, "WRITE") // longer than the lease
		next := harness.Granted(t, got)
		assert.True(t, l.Context().Err() != nil, "the next was granted before the holder knew")
		harness.Lost(t, l, holdfast.LossExpired)
		l.Release(harness.Within(t))
		harness.Release(t, next)
	})
}

// Rules 1 and 11. The server's process is stopped past the lease: the holder
// knows while the server is still silent. When it goes on the waiter is
// served, and nobody is hurt by what was sent meanwhile.
func TestAStoppedServerIsALossInTime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, seenA := w.local(t, holdfast.Config{TTL: 3 * time.Second})
		b, seenB := w.local(t, holdfast.Config{TTL: time.Minute})
		l := harness.Lock(t, a.Mutex("x"))
		got := harness.Waiting(t, seenB, b.Mutex("x"))
		seenA.Renewed(t, "x")
		w.Pause()
		resume := func() { w.Continue() }
		defer resume()
		harness.Lost(t, l, holdfast.LossExpired)
		select {
		case o := <-got:
			t.Fatalf("Lock returned while the server was stopped: %v", o.Err)
		default:
		}
		w.Continue()
		next := harness.Granted(t, got)
		assert.More(t, next.Token(), l.Token(), "token")
		l.Release(harness.Within(t))
		if s := state(t, b, "x"); next.Err() == nil && (!s.Held() || s.Holders[0].HolderID != next.HolderID()) {
			t.Errorf("the old holder's release hurt the next: %+v", s)
		}
		next.Release(harness.Within(t))
	})
}
