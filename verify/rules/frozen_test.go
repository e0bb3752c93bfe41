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

// Processes that are stopped while they wait still listen, as far as the server can tell. One waiter of one of them is
// granted the lock for a moment, and not each of them for a lease.
func TestFrozenProcessesDelayTheQueueOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const ttl = 20 * time.Second // so a lease for each of them would be longer than the test waits
		a, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		l := harness.Lock(t, a.Mutex("x"))
		var frozen [3]*harness.Child
		for i := range frozen {
			frozen[i] = startKind(t, w.Addr(), "crowd", "x", ttl)
		}
		waiting := func(n int) func() bool {
			return func() bool { return len(state(t, a, "x").Waiters) == n }
		}
		redistest.Await(t, "the crowds wait", waiting(len(frozen)*crowd))
		b, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		got := harness.Acquiring(harness.Within(t), b.Mutex("x").Lock)
		redistest.Await(t, "all wait", waiting(len(frozen)*crowd+1))
		for _, process := range frozen {
			process.Stop(t)
		}
		harness.Release(t, l)
		next := harness.Granted(t, got)
		lost := fmt.Sprint(w.Do(t, "HGET", harness.Key("x"), "lost"))
		assert.Equal(t, len(strings.Fields(lost)), 1, "grants to the crowds (%s)", lost)
		harness.Release(t, next)
		// When they go on they are served like anybody.
		for _, process := range frozen {
			process.Resume()
		}
		redistest.Await(t, "one of the crowds has the lock", func() bool {
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
