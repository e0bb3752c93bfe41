package topology_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/slot"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// overtime is for how long a waiter may wait beyond the old holder's lease, by
// the server's clock: a busy machine's share, and far less than one more lease.
const overtime = ttl / 3

// lasting is the lease of holders that must outlive the failover. Processors that
// have other work may stretch it from two seconds to more than ten.
const lasting = 3 * ttl

// replaced is a lock in three states when the primary goes: what becomes of
// each afterwards is the same in a Cluster and behind Sentinel.
type replaced struct {
	kept    *holdfast.Lease // the replicas know of it
	died    *holdfast.Lease // they know of it, and its holder goes with the primary
	missed  *holdfast.Lease // they do not
	until   time.Time       // when died's lease ends at the latest
	waiters *party
	holder  *party
	onKept  <-chan harness.Outcome
	onDied  <-chan harness.Outcome
	onLost  <-chan harness.Outcome
}

// The three locks of a failover share a slot, so that one primary has them.
const kept, died, missed = "x", "y", "z"

// before takes the locks, lets somebody wait for each, and cuts the replicas
// off before the last is taken.
func before(t *testing.T, primary *redistest.Server, open func(testing.TB) *party, names [3]string) *replaced {
	t.Helper()
	f := &replaced{holder: open(t), waiters: open(t)}
	doomed := open(t)
	f.kept = f.holder.lock(t, names[0], holdfast.TTL(lasting))
	f.died = doomed.lock(t, names[1])
	f.onKept = f.waiters.waiting(t, names[0])
	f.onDied = f.waiters.waiting(t, names[1])
	// All of it has arrived: the next acknowledgement covers what was before.
	harness.Release(t, f.holder.acked(t, names[2], holdfast.WaitReplicas(1, time.Second)))

	primary.CutReplicas(t)
	f.missed = f.holder.lock(t, names[2], holdfast.TTL(lasting))
	f.onLost = f.waiters.waiting(t, names[2])
	f.until = time.Now().Add(f.died.Remaining())
	doomed.Abandon()
	return f
}

// after checks what became of them.
func (f *replaced) after(t *testing.T) {
	t.Helper()
	// Whose record did not survive learns it; the waiter is served, with a
	// higher token.
	harness.Lost(t, f.missed, holdfast.LossNotHeld)
	l := harness.Granted(t, f.onLost)
	assert.More(t, l.Token(), f.missed.Token(), "token: it did not rise over the failover")
	harness.Release(t, l)
	served := granting(l) // by the new primary

	// Whose record did, holds on.
	name := f.kept.Name()
	f.holder.Renewed(t, name)
	assert.NoError(t, f.kept.Err())
	select {
	case o := <-f.onKept:
		t.Errorf("two holders: %+v", o)
	default:
	}
	harness.Release(t, f.kept)
	l = harness.Granted(t, f.onKept)
	assert.More(t, l.Token(), f.kept.Token(), "the token did not rise")
	harness.Release(t, l)

	// Whose holder is gone is waited for no longer than its lease, if somebody
	// serves by then.
	l = harness.Granted(t, f.onDied)
	late := min(granting(l).Sub(f.until), granting(l).Sub(served))
	assert.True(t, late <= overtime, "granted %v after the end of the old lease", late)
	assert.More(t, l.Token(), f.died.Token(), "the token did not rise")
	harness.Release(t, l)
}

func TestAKilledPrimaryOfAClusterIsReplaced(t *testing.T) {
	inCluster(t, func(t *testing.T, c *redistest.Cluster, open func(testing.TB) *party) {
		c.Forbear(t)
		names := sharing(c, kept, died, missed)
		n := slot.Of(harness.Key(names[0]))
		f := before(t, c.Owner(n), open, names)
		c.Lose(t, n)
		f.after(t)
	})
}

func TestASentinelsFailoverWithTheLinkCut(t *testing.T) {
	behindSentinel(t, func(t *testing.T, g *redistest.Sentinel, open func(testing.TB) *party) {
		f := before(t, g.Primary(), open, [3]string{kept, died, missed})
		g.Lose(t)
		f.after(t)
	})
}

// sharing makes names like these whose locks the same primary has.
func sharing(c *redistest.Cluster, names ...string) (shared [3]string) {
	home := c.Home(harness.Key(names[0]))
	for i, name := range names {
		for c.Home(harness.Key(name)) != home {
			name += "'"
		}
		shared[i] = name
	}
	return shared
}

// A failover by agreement loses no write: exclusion holds through it.
func TestFailoversByAgreementUnderLoadKeepTheirPromises(t *testing.T) {
	inCluster(t, func(t *testing.T, c *redistest.Cluster, open func(testing.TB) *party) {
		h := harness.NewHistory(t)
		stop := load(t, h, "x", open(t), open(t), open(t))
		served(t, h, 20)
		for range 2 {
			c.FailOver(c.Owner(slot.Of(harness.Key("x"))))
			c.AwaitReady()
			served(t, h, 20)
		}
		grants, unknown := stop()
		t.Logf("%d grants, %d unknown outcomes", grants, unknown)
	})
}

// While there is no primary, a request fails when its time limit is over, with an unknown
// outcome. A request with more time is served by the successor.
func TestRequestsWaitForTheSuccessor(t *testing.T) {
	inCluster(t, func(t *testing.T, c *redistest.Cluster, open func(testing.TB) *party) {
		p := open(t)
		harness.Release(t, p.lock(t, "x"))
		c.Owner(slot.Of(harness.Key("x"))).Kill()
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		assert.Is(t, assert.Err(p.Mutex("x").Lock(short)), context.DeadlineExceeded)
		var l *holdfast.Lease
		redistest.Await(t, "the successor serves", func() bool {
			var err error
			l, err = p.Mutex("x").Lock(harness.Within(t))
			if err != nil && !errors.Is(err, holdfast.ErrUnknownOutcome) && !errors.Is(err, holdfast.ErrUnreachable) &&
				!refusedForNow(err) {
				t.Errorf("meanwhile: %v", err)
			}
			return err == nil
		})
		harness.Release(t, l)
	}, quick)
}

// refusedForNow reports a refusal that says that nobody serves the slot yet.
func refusedForNow(err error) bool {
	var refused *holdfast.ServerError
	return errors.As(err, &refused) && refused.Code == "CLUSTERDOWN"
}

// After a failover by agreement the old primary lives on as a replica: pushes
// come from the new one, so that is where a waiter must listen.
func followsThePrimary(t *testing.T, a, b *party, failOver func() *redistest.Server, numsub ...any) {
	held := a.acked(t, "x", holdfast.WaitReplicas(1, time.Second))
	next := b.waiting(t, "x")
	primary := failOver()
	redistest.Await(t, "the waiter listens at the new primary", func() bool {
		reply, _ := primary.Do(t, append([]any{"PUBSUB"}, numsub...)...).([]any)
		return len(reply) == 2 && reply[1] == int64(1)
	})
	harness.Release(t, held)
	l := harness.Granted(t, next)
	e := b.Await(t, observe.EventGrant, "x", 1)
	assert.False(t, e.Wake != observe.WakePush && e.Wake != observe.WakeResume, "the grant came by %v", e.Wake)
	assert.More(t, l.Token(), held.Token(), "the token did not rise")
	harness.Release(t, l)
}

// arrived waits until a client's requests go to this primary. A Sentinel's
// failover on request leaves the old one a primary for some seconds, and a
// client that does not know the new one acquires and releases locks there.
func arrived(t *testing.T, primary *redistest.Server, clients ...*party) {
	t.Helper()
	for _, p := range clients {
		name := "probe of " + p.ID()
		redistest.Await(t, "the client has arrived at the new primary", func() bool {
			if l, err := p.Mutex(name).TryLock(harness.Within(t)); err == nil {
				_ = l.Release(harness.Within(t)) // the primaries may change in between
			}
			return primary.Do(t, "EXISTS", harness.Key("probe%20of%20"+p.ID())) == int64(1)
		})
	}
}

func TestAWaiterListensAtTheNewPrimaryBehindSentinel(t *testing.T) {
	behindSentinel(t, func(t *testing.T, g *redistest.Sentinel, open func(testing.TB) *party) {
		a, b := open(t), open(t)
		failOver := func() *redistest.Server {
			primary := g.FailOver()
			arrived(t, primary, a)
			return primary
		}
		followsThePrimary(t, a, b, failOver, "NUMSUB", pushes+b.ID())
	})
}

func TestAWaiterListensAtTheNewPrimaryOfACluster(t *testing.T) {
	inCluster(t, func(t *testing.T, c *redistest.Cluster, open func(testing.TB) *party) {
		a, b := open(t), open(t)
		followsThePrimary(t, a, b, func() *redistest.Server { return c.FailOver(c.Home(harness.Key("x"))) },
			"SHARDNUMSUB", channel(b, "x"))
	})
}

// A client that listens at a replica hears what its primary publishes, but is not counted
// there, and so it is skipped. It must not take the grant of the next waiter for its own.
func TestWhoListensAtAReplicaIsNotGrantedWhatAnotherGets(t *testing.T) {
	primary := redistest.Start(t)
	replica := redistest.Start(t, redistest.ReplicaOf(primary))
	run := func(action *script.Script, args ...any) string {
		t.Helper()
		reply, ok := primary.Do(t, append([]any{"EVAL", action.Text, 1, harness.Key("x")}, args...)...).(string)
		assert.MustTrue(t, ok, "%s: %v", action.Name, reply)
		return reply
	}
	listen := func(s *redistest.Server, client string) *redistest.Conn {
		c := s.Dial(t)
		c.Do(t, "SUBSCRIBE", pushes+client)
		return c
	}
	const ttl, life = 60_000, 600_000
	token := strings.Fields(run(script.Acquire, "a/1", ttl, life, "x", 0, pushes))[1]
	run(script.Acquire, "b/1", ttl, life, "x", ttl, pushes)
	run(script.Acquire, "c/1", ttl, life, "x", ttl, pushes)
	left, counted := listen(replica, "b"), listen(primary, "c")
	assert.MustEqual(t, run(script.Release, "a/1", token, life, pushes), "released", "release")
	if push, _ := counted.Receive(t).([]any); len(push) != 3 || !strings.HasPrefix(push[2].(string), "granted c/1 ") {
		t.Errorf("the subscriber that the server counts received %v", push)
	}
	primary.Do(t, "PUBLISH", redistest.Prefix()+":push:b", "mark")
	push, _ := left.Receive(t).([]any)
	assert.True(t, len(push) == 3 && push[2] == "mark", "the subscriber at the replica received %v", push)
}
