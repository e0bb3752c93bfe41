package redistest_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
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
	assert.Equal(t, c.Owner(n), owner, "the replica did not take over")
	next.Restart()
	c.AwaitReady()
}

// A server that is busy while its slot moves does not list the keys. Migrate must not move the
// slot without them.
func TestASlotOfABusyServerMovesWithItsKeys(t *testing.T) {
	c := redistest.StartCluster(t)
	n := slot.Of("key")
	from := c.Owner(n)
	to := c.Nodes[0]
	for _, s := range c.Nodes {
		if s != from && s.Info(t, "role") == "master" {
			to = s
		}
	}
	from.Do(t, "SET", "key", "value")
	from.Do(t, "CONFIG", "SET", "busy-reply-threshold", 1)
	var busy, moved sync.WaitGroup
	busy.Go(func() { redistest.Dial(t, from.Addr()).Do(t, "EVAL", "while true do end", 0) })
	said := func(word string) bool { return strings.Contains(fmt.Sprint(from.Do(t, "GET", "{key}")), word) }
	redistest.Await(t, "it is busy", func() bool { return said("BUSY") })
	moved.Go(func() { c.Migrate(n, from, to) })
	redistest.Await(t, "the slot is to move", func() bool {
		return strings.Contains(fmt.Sprint(to.Do(t, "CLUSTER", "NODES")), fmt.Sprintf("[%d-<-", n))
	})
	from.Do(t, "SCRIPT", "KILL")
	busy.Wait()
	moved.Wait()
	assert.Equal(t, to.Do(t, "GET", "key"), "value", "it moved without its key")
}

func TestSentinelFailsOver(t *testing.T) {
	sen := redistest.StartSentinel(t)
	first := sen.Primary()
	assert.MustEqual(t, first, sen.Servers[0], "the primary is %s", first.Addr())
	first.Do(t, "SET", "key", "kept")
	assert.MustEqual[any](t, first.Do(t, "WAIT", 2, 10_000), int64(2), "replicas are in step")
	first.CutReplicas(t)
	first.Do(t, "SET", "key", "lost")
	first.Kill()
	next := sen.AwaitFailOver(first)
	assert.Equal(t, next.Do(t, "GET", "key"), "kept", "the new primary has")
}
