package rules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// A process that is stopped while it waits still listens, as far as the server can tell. It is
// granted the lock for a moment, once, and not for a lease for each of its waiters.
func TestAFrozenProcessDelaysTheQueueOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const ttl = 20 * time.Second // so a lease for each of them would be longer than the test waits
		a, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		l := harness.Lock(t, a.Mutex("x"))
		frozen := startKind(t, w.Addr(), "crowd", "x", ttl)
		waiting := func(n int) func() bool {
			return func() bool { return len(state(t, a, "x").Waiters) == n }
		}
		redistest.Await(t, "the crowd waits", waiting(crowd))
		b, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		got := harness.Acquiring(harness.Within(t), b.Mutex("x").Lock)
		redistest.Await(t, "all wait", waiting(crowd+1))
		frozen.Stop(t)
		harness.Release(t, l)
		harness.Release(t, harness.Granted(t, got))
		// When it goes on it is served like anybody.
		frozen.Resume()
		redistest.Await(t, "one of the crowd has the lock", func() bool {
			s := state(t, a, "x")
			return len(s.Holders) == 1 && s.Holders[0].ClientID != a.ID() && s.Holders[0].ClientID != b.ID()
		})
	})
}

// A process that was killed while it waited keeps nobody out, though it waited for what
// does not fit yet.
func TestADeadWriterKeepsNoReaderOut(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		first, err := a.RWMutex("x").RLock(harness.Within(t))
		assert.Must(t, err)
		dead := start(t, w.Addr(), "x", time.Minute)
		redistest.Await(t, "the writer waits", func() bool { return len(state(t, a, "x").Waiters) == 1 })
		dead.Kill()
		redistest.Await(t, "the server has seen its end", func() bool {
			channel := redistest.Prefix() + ":push:" + state(t, a, "x").Waiters[0].ClientID
			return w.Do(t, "PUBSUB", "NUMSUB", channel).([]any)[1] == int64(0)
		})
		b, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		second, err := b.RWMutex("x").RLock(harness.Within(t))
		assert.Must(t, err)
		harness.Release(t, second)
		harness.Release(t, first)
	})
}

// Processes that are stopped while they wait delay the queue once together: one of them is granted the lock, and then
// all are asked who is there. Nobody answers, so the next one is granted it.
func TestFrozenProcessesDelayTheQueueOnceTogether(t *testing.T) {
	t.Parallel()
	w := &world{redistest.Start(t), harness.Adapters[0]}
	const ttl = 20 * time.Second
	a, _ := w.local(t, holdfast.Config{TTL: time.Minute})
	l := harness.Lock(t, a.Mutex("x"))
	frozen := make([]*harness.Child, 10)
	for i := range frozen {
		frozen[i] = start(t, w.Addr(), "x", ttl)
	}
	waiting := func(n int) func() bool {
		return func() bool { return len(state(t, a, "x").Waiters) == n }
	}
	redistest.Await(t, "they wait", waiting(len(frozen)))
	b, _ := w.local(t, holdfast.Config{TTL: ttl})
	got := harness.Acquiring(harness.Within(t), b.Mutex("x").Lock)
	redistest.Await(t, "all wait", waiting(len(frozen)+1))
	for _, child := range frozen {
		child.Stop(t)
	}
	harness.Release(t, l)
	began := time.Now()
	harness.Granted(t, got)
	t.Logf("%d processes that are stopped delay the queue for %v", len(frozen), time.Since(began))
	lost := fmt.Sprint(w.Do(t, "HGET", harness.Key("x"), "lost"))
	assert.Equal(t, len(strings.Fields(lost)), 1, "lost grants (%s)", lost)
}
