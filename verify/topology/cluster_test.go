package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/slot"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// pushes is where the pushes to all clients go.
var pushes = redistest.Prefix() + ":push:"

// channel is where a client hears of a lock's grants.
func channel(p *party, name string) string {
	return redistest.Prefix() + ":push:{" + name + "}:" + p.ID()
}

// listeners is how many connections to s listen to the channel.
func listeners(t testing.TB, s *redistest.Server, channel string) int64 {
	t.Helper()
	reply, _ := s.Do(t, "PUBSUB", "SHARDNUMSUB", channel).([]any)
	assert.MustEqual(t, len(reply), 2, "PUBSUB SHARDNUMSUB: %v", reply)
	return reply[1].(int64)
}

// other is a primary that is not s.
func other(t testing.TB, c *redistest.Cluster, s *redistest.Server) *redistest.Server {
	t.Helper()
	for _, node := range c.Nodes {
		if node != s && node.Running() && node.Info(t, "role") == "master" {
			return node
		}
	}
	t.Fatal("there is no other primary")
	return nil
}

func TestASlotThatMovesUnderLoadKeepsItsPromises(t *testing.T) {
	inCluster(t, func(t *testing.T, c *redistest.Cluster, open func(testing.TB) *party) {
		h := harness.NewHistory(t)
		stop := load(t, h, "x", open(t), open(t), open(t), open(t))
		served(t, h, 20)
		moves, still := c.MigrateLoop(slot.Of(harness.Key("x")))
		served(t, h, 300)
		redistest.Await(t, "the slot has moved four times", func() bool { return moves() >= 4 })
		still()
		served(t, h, 20)
		grants, unknown := stop()
		t.Logf("%d grants, the slot moved %d times", grants, moves())
		assert.AtMost(t, unknown, 0, "unknown outcomes")
	})
}

func TestASubscriptionFollowsItsSlot(t *testing.T) {
	inCluster(t, func(t *testing.T, c *redistest.Cluster, open func(testing.TB) *party) {
		a, b := open(t), open(t)
		n := slot.Of(harness.Key("x"))
		from := c.Owner(n)
		to := other(t, c, from)
		for range 2 { // there and back
			held := a.lock(t, "x")
			next := b.waiting(t, "x")
			assert.Equal(t, listeners(t, from, channel(b, "x")), 1, "listeners before the move")
			c.Migrate(n, from, to)
			redistest.Await(t, "the subscription has moved", func() bool {
				return listeners(t, to, channel(b, "x")) == 1
			})
			grants := len(b.Of(observe.EventGrant, "x"))
			harness.Release(t, held)
			l := harness.Granted(t, next)
			assert.More(t, l.Token(), held.Token(), "the token did not rise")
			// The push, or the request after the new subscription: which of
			// the two comes first, nobody can say. A poll would be too late.
			if e := b.Await(t, observe.EventGrant, "x", grants+1); e.Wake != observe.WakePush &&
				e.Wake != observe.WakeResume {
				t.Errorf("the grant came by %v", e.Wake)
			}
			harness.Release(t, l)
			from, to = to, from
		}
	})
}

// ASK, a target that does not know the script, and the record behind it.
func TestAskIsFollowedToANodeThatDoesNotKnowTheScript(t *testing.T) {
	inCluster(t, func(t *testing.T, c *redistest.Cluster, open func(testing.TB) *party) {
		a := open(t)
		harness.Release(t, a.lock(t, "elsewhere"))
		n := slot.Of(harness.Key("x"))
		from := c.Owner(n)
		to := other(t, c, from)
		id := func(s *redistest.Server) any { return s.Do(t, "CLUSTER", "MYID") }
		to.Do(t, "CLUSTER", "SETSLOT", n, "IMPORTING", id(from))
		from.Do(t, "CLUSTER", "SETSLOT", n, "MIGRATING", id(to))
		c.Each(t, "SCRIPT", "FLUSH")

		first := a.lock(t, "x") // the record is nowhere: from says ASK
		got := to.Do(t, "CLUSTER", "COUNTKEYSINSLOT", n)
		assert.True(t, got == int64(1), "the new owner has %v records", got)
		acked := open(t).acked(t, "x2{x}", holdfast.WaitReplicas(1, time.Second))
		harness.Release(t, acked)
		harness.Release(t, first)
		second := a.lock(t, "x")
		assert.More(t, second.Token(), first.Token(), "the token did not rise")
		c.Assign(n, from, to)
		harness.Release(t, second) // MOVED
		third := a.lock(t, "x")
		assert.More(t, third.Token(), second.Token(), "the token did not rise")
		harness.Release(t, third)
	})
}

// However many locks a client waits for, it has one subscription connection
// to each node.
func TestOneSubscriptionConnectionForEachNode(t *testing.T) {
	inCluster(t, func(t *testing.T, c *redistest.Cluster, open func(testing.TB) *party) {
		a, b := open(t), open(t)
		const many = 60
		var held []*holdfast.Lease
		var next []<-chan harness.Outcome
		for i := range many {
			name := fmt.Sprint("lock", i)
			held = append(held, a.lock(t, name))
			next = append(next, b.waiting(t, name))
		}
		total, channels := 0, int64(0)
		for _, s := range c.Nodes[:3] {
			list, _ := s.Do(t, "CLIENT", "LIST", "TYPE", "pubsub").(string)
			assert.Equal(t, strings.Count(list, "\n"), 1, "subscription connections to %s", s.Addr())
			total += strings.Count(list, "\n")
			names, _ := s.Do(t, "PUBSUB", "SHARDCHANNELS").([]any)
			channels += int64(len(names))
		}
		assert.Equal(t, channels, many, "channels over %d connections", total)
		for i, l := range held {
			harness.Release(t, l)
			harness.Release(t, harness.Granted(t, next[i]))
		}
	})
}
