package lineage_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// existsThenSet asks whether the lock is there, and makes it if it is not.
func existsThenSet(c *player) {
	if c.do("EXISTS", "x") == no {
		c.do("SET", "x", c.name, "PX", 30000)
		c.enter("holds")
	}
}

// Both clients ask before one has set. The old way lets both in. With Holdfast the
// question and the entry are one step.
func TestTwoClientsThatBothSeeNoLockBothAcquireIt(t *testing.T) {
	t.Parallel()
	halves(t, func(t *testing.T, s *redistest.Server) {
		perform(t, s, scene{
			picture: "exists",
			flaw:    "A and B both hold the lock.",
			clients: []actor{{name: "A", run: existsThenSet}, {name: "B", run: existsThenSet}},
			turns:   "A B A B",
		}).together("A", "B")
	}, func(t *testing.T, s *redistest.Server) {
		proxy := redistest.NewProxy(t, s.Addr())
		a, _ := client(t, proxy.Addr(), holdfast.Config{TTL: time.Minute})
		b, _ := client(t, s.Addr(), holdfast.Config{TTL: time.Minute})
		asked, pass := holdAnswer(t, proxy, func(request []string) bool { return is(request, script.Acquire) })
		got := harness.Acquiring(harness.Within(t), a.Mutex(lockName).TryLock)
		redistest.Next(t, "A at the server", asked)
		l, err := b.Mutex(lockName).TryLock(harness.Within(t))
		assert.True(t, errors.Is(err, holdfast.ErrHeld), "B beside A: %v, %v", l, err)
		pass()
		harness.Release(t, harness.Granted(t, got))
	})
}
