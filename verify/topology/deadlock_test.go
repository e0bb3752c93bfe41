package topology_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// broken makes a deadlock of two clients over two locks. While both wait, between runs. Then the
// younger call fails, and the older one gets the lock.
func broken(t *testing.T, one, other *party, x, y string, between func()) {
	t.Helper()
	breaks := holdfast.BreakDeadlock()
	heldX, heldY := one.lock(t, x), other.lock(t, y)
	waitsOne, waitsOther := len(one.Of(observe.EventWait, y)), len(other.Of(observe.EventWait, x))
	older := harness.Acquiring(heldX.Context(), one.Mutex(y, breaks).Lock)
	one.Await(t, observe.EventWait, y, waitsOne+1)
	younger := harness.Acquiring(heldY.Context(), other.Mutex(x, breaks).Lock)
	other.Await(t, observe.EventWait, x, waitsOther+1)
	between()

	got := redistest.Next(t, "the younger call", younger)
	var dead *holdfast.DeadlockError
	assert.MustTrue(t, errors.As(got.Err, &dead), "the younger call: %v", got.Err)
	if len(dead.Cycle) != 2 || dead.Name != x || dead.Cycle[0].Holds != y || dead.Cycle[1].Holds != x ||
		dead.Cycle[1].ClientID != one.ID() {
		t.Errorf("the cycle is %+v", dead.Cycle)
	}
	harness.Release(t, heldY)
	harness.Release(t, harness.Granted(t, older))
	harness.Release(t, heldX)
}

// apart are two names of locks that different primaries have.
func apart(t *testing.T, c *redistest.Cluster) (x, y string) {
	t.Helper()
	x = "deadlock/0"
	for i := range 100 {
		if y = fmt.Sprintf("deadlock/%d", i+1); c.Home(harness.Key(y)) != c.Home(harness.Key(x)) {
			return x, y
		}
	}
	t.Fatal("all locks are on one primary")
	return "", ""
}

// The locks are in different slots, at different primaries, and so are the records of the
// clients. A failover in the middle changes nothing.
func TestADeadlockInACluster(t *testing.T) {
	inCluster(t, func(t *testing.T, c *redistest.Cluster, open func(testing.TB) *party) {
		x, y := apart(t, c)
		one, other := open(t), open(t)
		broken(t, one, other, x, y, func() {})
		broken(t, open(t), open(t), x, y, func() {
			c.FailOver(c.Home(harness.Key(x)))
			c.AwaitReady()
		})
	})
}

func TestADeadlockBehindSentinel(t *testing.T) {
	behindSentinel(t, func(t *testing.T, g *redistest.Sentinel, open func(testing.TB) *party) {
		one, other := open(t), open(t)
		broken(t, one, other, "x", "y", func() {})
		one, other = open(t), open(t)
		broken(t, one, other, "x", "y", func() {
			// What is taken last is acknowledged, and with it all that was before.
			harness.Release(t, one.acked(t, "mark", holdfast.WaitReplicas(2, time.Second)))
			arrived(t, g.FailOver(), one, other)
		})
	})
}
