package rules_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// Two processes hold a lock each and wait for that of the other. One of them fails and says
// why; the other one gets the lock when the first releases. Both have reported the deadlock.
func TestADeadlockOfTwoProcessesIsBroken(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: 3 * time.Second}
		a, seenByA := w.local(t, cfg)
		b, seenByB := w.local(t, cfg)
		x, y := harness.Lock(t, a.Mutex("x")), harness.Lock(t, b.Mutex("y"))
		older := harness.Acquiring(x.Context(), a.Mutex("y", holdfast.BreakDeadlock()).Lock)
		seenByA.Await(t, holdfast.EventWait, "y", 1)
		younger := harness.Acquiring(y.Context(), b.Mutex("x", holdfast.BreakDeadlock()).Lock)

		failed := redistest.Next(t, "the younger call", younger)
		var dead *holdfast.DeadlockError
		if !errors.As(failed.Err, &dead) || !errors.Is(failed.Err, holdfast.ErrDeadlock) {
			t.Fatalf("the younger call: %v", failed.Err)
		}
		if len(dead.Cycle) != 2 || dead.Name != "x" || dead.Cycle[0].ClientID != b.ID() ||
			dead.Cycle[0].Holds != "y" || dead.Cycle[1].Holds != "x" || dead.Cycle[1].ClientID != a.ID() {
			t.Errorf("the cycle is %+v", dead.Cycle)
		}
		seenByB.Await(t, holdfast.EventDeadlock, "x", 1)
		assert.NoError(t, y.Err())
		harness.Release(t, y)
		harness.Release(t, harness.Granted(t, older))
		harness.Release(t, x)
	})
}

// Without BreakDeadlock both calls wait on. Both report the deadlock, and the state of the locks
// shows it to an operator. An eviction ends it.
func TestADeadlockIsShown(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: 3 * time.Second}
		a, seenByA := w.local(t, cfg)
		b, seenByB := w.local(t, cfg)
		operator, _ := w.local(t, cfg)
		x, y := harness.Lock(t, a.Mutex("x")), harness.Lock(t, b.Mutex("y"))
		one := harness.Acquiring(x.Context(), a.Mutex("y").Lock)
		two := harness.Acquiring(y.Context(), b.Mutex("x").Lock)
		seenByA.Await(t, holdfast.EventDeadlock, "y", 1)
		seenByB.Await(t, holdfast.EventDeadlock, "x", 1)

		found := holdfast.Deadlocks([]holdfast.LockInfo{state(t, operator, "x"), state(t, operator, "y")})
		if len(found) != 1 || len(found[0]) != 2 {
			t.Fatalf("the locks show the deadlocks %v", found)
		}
		who := holdfast.Eviction{By: "a test", Reason: "deadlock"}
		if _, err := operator.Evict(harness.Within(t), "x", who); err != nil {
			t.Fatal(err)
		}
		// The call ends with its lease's context: by the next renewal its client knows.
		if got := redistest.Next(t, "the call under the evicted lease", one); got.Err == nil {
			t.Error("the call under the evicted lease got the lock")
		}
		harness.Release(t, harness.Granted(t, two))
		harness.Release(t, y)
	})
}

// While the deadlock is being looked for, one process has no link to the server for a while, and
// the server loses what both clients have said. The deadlock is found all the same, and only one
// call fails.
func TestADeadlockIsFoundOverABadLink(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: 12 * time.Second}
		a, seenByA := w.local(t, cfg)
		proxy := redistest.NewProxy(t, w.Addr())
		b, seenByB := w.client(t, proxy.Addr(), cfg)
		operator, _ := w.local(t, cfg)
		x, y := harness.Lock(t, a.Mutex("x")), harness.Lock(t, b.Mutex("y"))
		older := harness.Acquiring(x.Context(), a.Mutex("y", holdfast.BreakDeadlock()).Lock)
		seenByA.Await(t, holdfast.EventWait, "y", 1)
		younger := harness.Acquiring(y.Context(), b.Mutex("x", holdfast.BreakDeadlock()).Lock)
		seenByB.Await(t, holdfast.EventWait, "x", 1)
		redistest.Await(t, "both waits are shown", func() bool {
			one, other := state(t, operator, "x"), state(t, operator, "y")
			return len(one.Holders[0].WaitsFor) == 1 && len(other.Holders[0].WaitsFor) == 1
		})
		proxy.BlackHole()
		for _, c := range []*holdfast.Client{a, b} {
			w.Do(t, "DEL", redistest.Prefix()+":client:"+c.ID())
		}
		redistest.Await(t, "one client says again what it waits for", func() bool {
			held := state(t, operator, "x").Holders
			return len(held) == 1 && len(held[0].WaitsFor) == 1
		})
		proxy.Pass()
		proxy.Cut()

		failed := redistest.Next(t, "the younger call", younger)
		if !errors.Is(failed.Err, holdfast.ErrDeadlock) {
			t.Fatalf("the younger call: %v", failed.Err)
		}
		harness.Release(t, y)
		harness.Release(t, harness.Granted(t, older))
		harness.Release(t, x)
	})
}

// The server begins anew, empty, in the middle of a deadlock. All leases are lost, and so there
// is none any more: nobody reports one, and both calls end.
func TestADeadlockEndsWithTheServersMemory(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: 12 * time.Second}
		a, seenByA := w.local(t, cfg)
		b, seenByB := w.local(t, cfg)
		x, y := harness.Lock(t, a.Mutex("x")), harness.Lock(t, b.Mutex("y"))
		one := harness.Acquiring(x.Context(), a.Mutex("y", holdfast.BreakDeadlock()).Lock)
		seenByA.Await(t, holdfast.EventWait, "y", 1)
		two := harness.Acquiring(y.Context(), b.Mutex("x", holdfast.BreakDeadlock()).Lock)
		seenByB.Await(t, holdfast.EventWait, "x", 1)
		w.Restart()
		for name, call := range map[string]<-chan harness.Outcome{"one": one, "two": two} {
			if got := redistest.Next(t, name, call); errors.Is(got.Err, holdfast.ErrDeadlock) {
				t.Errorf("call %s: %v", name, got.Err)
			}
		}
		if n := len(seenByA.Of(holdfast.EventDeadlock, "y")) + len(seenByB.Of(holdfast.EventDeadlock, "x")); n != 0 {
			t.Errorf("%d clients reported a deadlock", n)
		}
	})
}
