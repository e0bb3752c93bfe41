package rules_test

import (
	"context"
	"errors"
	"testing"
	"time"

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

// The share of a reader whose process is killed ends with its lease, and with
// nobody else's.
func TestAKilledReaderEndsAlone(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const ttl = 1500 * time.Millisecond
		dead := start(t, w.Addr(), "read:x", ttl)
		token := dead.Token(t, "held")
		c, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		l := harness.Acquire(t, c.RWMutex("x").RLock)
		dead.Kill()
		redistest.Await(t, "the dead reader's share is over", func() bool { return len(state(t, c, "x").Holders) == 1 })
		assert.NoError(t, l.Err())
		if err := l.Upgrade(harness.Within(t)); err != nil || l.Token() <= token {
			t.Errorf("the only reader left upgrades: %v, token %d after %d", err, l.Token(), token)
		}
		harness.Release(t, l)
	})
}

// Permits are within the limit, a limit is agreed on, and changed on purpose
// while it is in use.
func TestALimitIsAgreedOnAndChangedOnPurpose(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, _ := w.local(t, holdfast.Config{})
		b, _ := w.local(t, holdfast.Config{})
		sem, other := a.Semaphore("x", 2), b.Semaphore("x", 2)
		permits := func(s *holdfast.Semaphore, n int) func(context.Context) (*holdfast.Lease, error) {
			return func(ctx context.Context) (*holdfast.Lease, error) { return s.Acquire(ctx, n) }
		}
		first := harness.Acquire(t, permits(sem, 2))
		var limit *holdfast.MismatchError
		_, err := b.Semaphore("x", 9).Acquire(harness.Within(t), 1)
		assert.True(t, errors.As(err, &limit) && limit.Got == 2 && limit.Want == 9,
			"want a MismatchError: 2 in use, 9 asked; got %v", err)
		next := harness.Acquiring(harness.Within(t), permits(other, 2))
		queued(t, a, 1)
		assert.Must(t, sem.SetLimit(harness.Within(t), 4))
		second := harness.Granted(t, next)
		third := harness.Acquiring(harness.Within(t), permits(sem, 1))
		queued(t, a, 1)
		assert.Must(t, sem.SetLimit(harness.Within(t), 2))
		harness.Release(t, first)
		if s := state(t, a, "x"); len(s.Waiters) != 1 || s.Limit != 2 {
			t.Errorf("with all permits of %d held %d wait", s.Limit, len(s.Waiters))
		}
		harness.Release(t, second)
		harness.Release(t, harness.Granted(t, third))
	})
}
