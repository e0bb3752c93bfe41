package rules_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// queued waits until there are n waiters.
func queued(t testing.TB, c *holdfast.Client, n int) {
	t.Helper()
	redistest.Await(t, "there are so many waiters", func() bool { return len(state(t, c, "x").Waiters) == n })
}

// The readers of a process are one holder, a writer waits for those that are
// in and not for later ones, and those are let in together after it.
func TestReadersOfAProcessAreOneHolderOnTheServer(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const processes, each = 3, 100
		var clients []*holdfast.Client
		var readers []*holdfast.Lease
		for range processes {
			c, _ := w.local(t, holdfast.Config{})
			clients = append(clients, c)
			first := harness.Acquire(t, c.RWMutex("x").RLock)
			readers = append(readers, first)
			for range each {
				readers = append(readers, harness.Acquire(t, c.RWMutex("x").RLock))
			}
		}
		n := len(state(t, clients[0], "x").Holders)
		assert.True(t, n == processes, "%d holders of %d processes", n, processes)
		writer := harness.Acquiring(harness.Within(t), clients[0].RWMutex("x").Lock)
		queued(t, clients[0], 1)
		// The other process learns of it with its next request.
		redistest.Await(t, "a later reader is kept out", func() bool {
			l, err := clients[1].RWMutex("x").TryRLock(harness.Within(t))
			if err == nil {
				harness.Release(t, l)
			}
			return errors.Is(err, holdfast.ErrHeld)
		})
		later := harness.Acquiring(harness.Within(t), clients[1].RWMutex("x").RLock)
		queued(t, clients[0], 2)
		for _, l := range readers {
			harness.Release(t, l)
		}
		wl := harness.Granted(t, writer)
		assert.True(t, wl.Token() > readers[len(readers)-1].Token(),
			"the writer's token is no higher than a reader's before it")
		harness.Release(t, wl)
		harness.Release(t, harness.Granted(t, later))
	})
}
