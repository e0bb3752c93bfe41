package quorum_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// Two clients of five servers are in a deadlock. One of the servers stops in the middle. One of
// the calls fails, and the other one gets the lock. Which one it is depends on the servers'
// clocks, and the last one's is ahead.
func TestADeadlockOverAQuorum(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		breaks := holdfast.BreakDeadlock()
		a, seenByA := harness.Client(t, w.store(t, ttl, timeout), holdfast.Config{TTL: ttl})
		b, seenByB := harness.Client(t, w.store(t, ttl, timeout), holdfast.Config{TTL: ttl})
		x, y := take(t, a.Mutex("x")), take(t, b.Mutex("y"))
		one := harness.Acquiring(x.Context(), a.Mutex("y", breaks).Lock)
		seenByA.Await(t, observe.EventWait, "y", 1)
		other := harness.Acquiring(y.Context(), b.Mutex("x", breaks).Lock)
		seenByB.Await(t, observe.EventWait, "x", 1)
		w.servers[3].Pause()
		defer w.servers[3].Continue()

		var got harness.Outcome
		free, remains, rest, name := x, y, other, "y"
		select {
		case got = <-one:
		case got = <-other:
			free, remains, rest, name = y, x, one, "x"
		case <-harness.Within(t).Done():
			t.Fatal("no call has failed")
		}
		var dead *holdfast.DeadlockError
		assert.MustTrue(t, errors.As(got.Err, &dead), "the first call to end: %v", got.Err)
		if len(dead.Cycle) != 2 || dead.Name != name || dead.Cycle[0].Name != name || dead.Cycle[1].Holds != name {
			t.Errorf("the cycle is %+v", dead.Cycle)
		}
		harness.Release(t, free)
		harness.Release(t, harness.Granted(t, rest))
		harness.Release(t, remains)
	})
}
