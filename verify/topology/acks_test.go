package topology_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// brief is a limit that passes: nothing is there to wait for.
const brief = 200 * time.Millisecond

// short expects a grant that nobody has acknowledged, and that was given back.
func short(t testing.TB, p *party, name string, err error, want int) {
	t.Helper()
	var missing *holdfast.MismatchError
	assert.MustTrue(t, errors.As(err, &missing), "got %v", err)
	assert.True(t, missing.Want == store.Acks{Replicas: want} && missing.Got == store.Acks{}, "got %v", err)
	s, err := p.Inspect(harness.Within(t), name)
	assert.True(t, err == nil && !s.Held(), "it was not given back: %v, %v", s.Holders, err)
}

func acks(t *testing.T, primary *redistest.Server, replicas int, open func(testing.TB) *party) {
	a, b := open(t), open(t)
	harness.Release(t, a.acked(t, "x", holdfast.WaitReplicas(replicas, time.Second)))
	_, err := a.Mutex("x", holdfast.WaitReplicas(replicas+1, brief)).TryLock(harness.Within(t))
	assert.Is(t, err, holdfast.ErrNotAcked)

	held := a.lock(t, "x")
	pushed := b.waiting(t, "x", holdfast.WaitReplicas(replicas, brief))
	primary.CutReplicas(t)
	harness.Release(t, held)
	short(t, b, "x", (<-pushed).Err, replicas)
	_, err = a.Mutex("x", holdfast.WaitReplicas(replicas, brief)).Lock(harness.Within(t))
	short(t, a, "x", err, replicas)

	primary.HealReplicas(t)
	redistest.Await(t, "the replicas are back", func() bool {
		l, err := a.Mutex("x", holdfast.WaitReplicas(replicas, brief)).TryLock(harness.Within(t))
		if err == nil {
			harness.Release(t, l)
		}
		return err == nil
	})
}

func TestAcknowledgementsAreCountedBehindSentinel(t *testing.T) {
	behindSentinel(t, func(t *testing.T, g *redistest.Sentinel, open func(testing.TB) *party) {
		acks(t, g.Primary(), 2, open)
	})
}

func TestAcknowledgementsAreCountedInACluster(t *testing.T) {
	inCluster(t, func(t *testing.T, c *redistest.Cluster, open func(testing.TB) *party) {
		c.Forbear(t)
		acks(t, c.Home(harness.Key("x")), 1, open)
	})
}

// WAIT behind a repeated request covers what was written before it over
// another connection: the server counts from where its log stood.
func TestWaitCoversEarlierWritesOfOthers(t *testing.T) {
	behindSentinel(t, func(t *testing.T, g *redistest.Sentinel, open func(testing.TB) *party) {
		a, b := open(t), open(t)
		harness.Release(t, b.lock(t, "x"))
		g.Primary().CutReplicas(t)
		harness.Release(t, a.lock(t, "x"))
		acker := b.store.(store.Acker)
		_, got, err := acker.RunAcked(harness.Within(t), script.Inspect, []string{harness.Key("x")}, nil,
			store.Acks{Replicas: 1}, brief)
		assert.True(t, err == nil && got.Replicas == 0,
			"behind a request that wrote nothing: %v, %v; want no replica and no error", got, err)
	})
}

// A server that has WAITAOF says so by doing it; an older one is refused
// before anything is taken.
func TestDurableWaitsForTheDiskOrSaysWhatItNeeds(t *testing.T) {
	behindSentinel(t, func(t *testing.T, g *redistest.Sentinel, open func(testing.TB) *party) {
		p := open(t)
		// A log that is new counts for nothing before it is written once.
		g.Primary().Do(t, "CONFIG", "SET", "appendonly", "yes", "appendfsync", "always")
		redistest.Await(t, "the log is written", func() bool {
			info, _ := g.Primary().Do(t, "INFO", "persistence").(string)
			return strings.Contains(info, "aof_rewrite_in_progress:0") &&
				strings.Contains(info, "aof_rewrite_scheduled:0")
		})
		_, unknown := g.Primary().Do(t, "WAITAOF", 0, 0, 0).(redistest.Error)
		l, err := p.Mutex("x", holdfast.WaitAOF(0, time.Second)).Lock(harness.Within(t))
		var refused *holdfast.ServerError
		switch {
		case !unknown && err != nil:
			t.Errorf("Lock: %v", err)
		case !unknown:
			harness.Release(t, l)
		case !errors.As(err, &refused) || refused.Code != "WAITAOF":
			t.Errorf("got %v", err)
		default:
			assert.Equal[any](t, g.Primary().Do(t, "EXISTS", harness.Key("x")), int64(0), "something was taken")
		}
	})
}
