package redistest_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/slot"
)

func TestClusterFailsOverAndMigrates(t *testing.T) {
	c := redistest.StartCluster(t)
	n := slot.Of("key")
	owner := c.Owner(n)
	owner.Do(t, "SET", "key", "value")

	moves, stop := c.MigrateLoop(n)
	if stop(); moves() < 2 || c.Owner(n) != owner {
		t.Errorf("after %d moves the slot is elsewhere", moves())
	}

	next := c.FailOver(owner)
	c.AwaitReady()
	if c.Owner(n) != next || next.Do(t, "GET", "key") != "value" {
		t.Errorf("after the failover: owner %s, want %s", c.Owner(n).Addr(), next.Addr())
	}
	next.Kill()
	if c.Owner(n) != owner {
		t.Errorf("the replica did not take over")
	}
	next.Restart()
	c.AwaitReady()
}

func TestSentinelFailsOver(t *testing.T) {
	g := redistest.StartSentinel(t)
	first := g.Primary()
	if first != g.Servers[0] {
		t.Fatalf("the primary is %s", first.Addr())
	}
	first.Do(t, "SET", "key", "kept")
	if got := first.Do(t, "WAIT", 2, 10_000); got != int64(2) {
		t.Fatalf("%v replicas are in step", got)
	}
	first.CutReplicas(t)
	first.Do(t, "SET", "key", "lost")
	first.Kill()
	next := g.AwaitFailOver(first)
	if got := next.Do(t, "GET", "key"); got != "kept" {
		t.Errorf("the new primary has %v", got)
	}
}
