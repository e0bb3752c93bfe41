package rules_test

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

// crossed are two processes that hold a lock each and wait for that of the other.
type crossed struct {
	a, b           *holdfast.Client
	seenByA        *harness.Watch
	seenByB        *harness.Watch
	x, y           *holdfast.Lease        // a holds x, b holds y
	older, younger <-chan harness.Outcome // a waits for y, and then b for x
}

// crossed lets two clients lock x and y, and then wait for the other's. b is at addr.
func (w *world) crossed(t *testing.T, addr string, cfg holdfast.Config, options ...holdfast.MutexOption) *crossed {
	t.Helper()
	var d crossed
	d.a, d.seenByA = w.local(t, cfg)
	d.b, d.seenByB = w.client(t, addr, cfg)
	d.x, d.y = harness.Lock(t, d.a.Mutex("x")), harness.Lock(t, d.b.Mutex("y"))
	d.older = harness.Acquiring(d.x.Context(), d.a.Mutex("y", options...).Lock)
	d.seenByA.Await(t, observe.EventWait, "y", 1)
	d.younger = harness.Acquiring(d.y.Context(), d.b.Mutex("x", options...).Lock)
	return &d
}

// end releases what the two hold, once the younger call has failed.
func (d *crossed) end(t *testing.T) {
	t.Helper()
	harness.Release(t, d.y)
	harness.Release(t, harness.Granted(t, d.older))
	harness.Release(t, d.x)
}

// Two processes hold a lock each and wait for that of the other. One of them fails and says
// why; the other one gets the lock when the first releases. Both have reported the deadlock.
func TestADeadlockOfTwoProcessesIsBroken(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		d := w.crossed(t, w.Addr(), holdfast.Config{TTL: 3 * time.Second}, holdfast.BreakDeadlock())
		failed := redistest.Next(t, "the younger call", d.younger)
		var dead *holdfast.DeadlockError
		assert.MustTrue(t, errors.As(failed.Err, &dead) && errors.Is(failed.Err, holdfast.ErrDeadlock),
			"the younger call: %v", failed.Err)
		if len(dead.Cycle) != 2 || dead.Name != "x" || dead.Cycle[0].ClientID != d.b.ID() ||
			dead.Cycle[0].Holds != "y" || dead.Cycle[1].Holds != "x" || dead.Cycle[1].ClientID != d.a.ID() {
			t.Errorf("the cycle is %+v", dead.Cycle)
		}
		d.seenByB.Await(t, observe.EventDeadlock, "x", 1)
		assert.NoError(t, d.y.Err())
		d.end(t)
	})
}

// While the deadlock is being looked for, one process has no link to the server for a while, and
// the server loses what both clients have said. The deadlock is found all the same, and only one
// call fails.
func TestADeadlockIsFoundOverABadLink(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: 12 * time.Second}
		proxy := redistest.NewProxy(t, w.Addr())
		d := w.crossed(t, proxy.Addr(), cfg, holdfast.BreakDeadlock())
		operator, _ := w.local(t, cfg)
		d.seenByB.Await(t, observe.EventWait, "x", 1)
		redistest.Await(t, "both waits are shown", func() bool {
			one, other := state(t, operator, "x"), state(t, operator, "y")
			return len(one.Holders[0].WaitsFor) == 1 && len(other.Holders[0].WaitsFor) == 1
		})
		proxy.BlackHole()
		for _, c := range []*holdfast.Client{d.a, d.b} {
			w.Do(t, "DEL", redistest.Prefix()+":client:"+c.ID())
		}
		redistest.Await(t, "one client says again what it waits for", func() bool {
			held := state(t, operator, "x").Holders
			return len(held) == 1 && len(held[0].WaitsFor) == 1
		})
		proxy.Pass()
		proxy.Cut()

		failed := redistest.Next(t, "the younger call", d.younger)
		assert.MustTrue(t, errors.Is(failed.Err, holdfast.ErrDeadlock), "the younger call: %v", failed.Err)
		d.end(t)
	})
}

// The server begins anew, empty, in the middle of a deadlock. All leases are lost, and so there
// is none any more: nobody reports one, and both calls end.
func TestADeadlockEndsWithTheServersMemory(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		d := w.crossed(t, w.Addr(), holdfast.Config{TTL: 12 * time.Second}, holdfast.BreakDeadlock())
		d.seenByB.Await(t, observe.EventWait, "x", 1)
		w.Restart()
		for name, call := range map[string]<-chan harness.Outcome{"one": d.older, "two": d.younger} {
			got := redistest.Next(t, name, call)
			assert.True(t, !errors.Is(got.Err, holdfast.ErrDeadlock), "call %s: %v", name, got.Err)
		}
		for _, seen := range []*harness.Watch{d.seenByA, d.seenByB} {
			told := seen.Of(observe.EventDeadlock, "")
			assert.True(t, len(told) == 0, "a client reported a deadlock: %+v", told)
		}
	})
}
