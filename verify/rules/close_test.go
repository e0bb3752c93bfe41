package rules_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// inTurn is each, one client after the other: for tests that inspect all
// goroutines of the process.
func inTurn(t *testing.T, test func(t *testing.T, w *world)) {
	for _, a := range harness.Adapters {
		t.Run(a.Name, func(t *testing.T) {
			test(t, &world{redistest.Start(t), a})
		})
	}
}

// nothingRuns checks that no goroutine is inside the library.
func nothingRuns(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, stack := range strings.Split(string(stacks), "\n\n")[1:] {
		for _, part := range []string{
			"holdfast.(*", "/internal/lifecycle.", "/internal/pushes.", "/internal/renewer.", "/internal/localqueue.",
		} {
			assert.False(t, strings.Contains(stack, part), "after Close there is still:\n%s", stack)
		}
	}
}

// busy makes a client that holds some locks and waits for others, inside the
// process and at the server.
func busy(
	t *testing.T, w *world, addr string,
) (c *holdfast.Client, held []*holdfast.Lease, waits []<-chan harness.Outcome) {
	t.Helper()
	c, seen := w.client(t, addr, holdfast.Config{TTL: time.Minute, RequestTimeout: 3 * time.Second})
	for _, name := range []string{"a", "b", "c"} {
		held = append(held, harness.Lock(t, c.Mutex(name)))
	}
	// Requests straight to the store hold the others: c is the only client that runs.
	store := w.open(t, harness.Login{})
	for _, name := range []string{"x", "y"} {
		run(t, store, script.Acquire, []string{wire.Key(redistest.Prefix(), name)},
			"other/1", "60000", "61000", "x", "0", pushes)
	}
	for i, name := range []string{"a", "x", "x", "y"} {
		waits = append(waits, harness.Acquiring(harness.Within(t), c.Mutex(name).Lock))
		seen.Await(t, observe.EventWait, "", i+1)
	}
	return c, held, waits
}

func ended(t *testing.T, held []*holdfast.Lease, waits []<-chan harness.Outcome) {
	t.Helper()
	for _, l := range held {
		if !errors.Is(context.Cause(l.Context()), holdfast.ErrClosed) || !errors.Is(l.Err(), holdfast.ErrClosed) {
			t.Errorf("a lease ended by %v", context.Cause(l.Context()))
		}
		assert.Is(t, l.Release(harness.Within(t)), holdfast.ErrClosed)
	}
	for _, c := range waits {
		o := redistest.Next(t, "Lock", c)
		assert.True(t, errors.Is(o.Err, holdfast.ErrClosed), "a waiter's Lock: %v", o.Err)
	}
}

// Close gives back what is held, sends the waiters away, and returns when
// nothing of the client runs any more.
func TestCloseReleasesAndEndsEverything(t *testing.T) {
	inTurn(t, func(t *testing.T, w *world) {
		watcher, _ := w.local(t, holdfast.Config{})
		state(t, watcher, "a") // connects
		c, held, waits := busy(t, w, w.Addr())
		assert.NoError(t, c.Close(harness.Within(t)))
		// What remains in the stacks is the test's other clients, which are idle.
		ended(t, held, waits)
		for _, name := range []string{"a", "b", "c", "x", "y"} {
			s := state(t, watcher, name)
			assert.False(t, len(s.Waiters) != 0 || len(s.Holders) > 0 && s.Holders[0].ClientID == c.ID(),
				"after Close: %+v", s)
		}
		assert.Is(t, assert.Err(c.Mutex("x").Lock(harness.Within(t))), holdfast.ErrClosed)
		assert.Is(t, assert.Err(c.Inspect(harness.Within(t), "x")), holdfast.ErrClosed)
		assert.NoError(t, c.Close(harness.Within(t)))
		if n := w.listeners(t, c); n != 0 {
			redistest.Await(t, "the subscription is gone", func() bool { return w.listeners(t, c) == 0 })
		}
		nothingRuns(t)
	})
}

// The same into silence: in bounded time, and it says what it could not do.
func TestCloseIsBoundedWhenTheServerIsSilent(t *testing.T) {
	inTurn(t, func(t *testing.T, w *world) {
		proxy := redistest.NewProxy(t, w.Addr())
		c, held, waits := busy(t, w, proxy.Addr())
		proxy.BlackHole()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		closed := make(chan error, 1)
		go func() { closed <- c.Close(ctx) }()
		err := redistest.Next(t, "Close", closed)
		nothingRuns(t)
		assert.True(t, errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "3 of 3"),
			"Close: %v", err)
		ended(t, held, waits)
		proxy.Cut()
		proxy.Pass()
	})
}

// Abandon ends everything here and leaves the locks taken.
func TestAbandonLeavesTheLocks(t *testing.T) {
	inTurn(t, func(t *testing.T, w *world) {
		watcher, _ := w.local(t, holdfast.Config{})
		c, held, waits := busy(t, w, w.Addr())
		c.Abandon()
		ended(t, held, waits) // it does not wait for the calls that return now
		nothingRuns(t)
		for i, name := range []string{"a", "b", "c"} {
			s := state(t, watcher, name)
			assert.True(t, len(s.Holders) == 1 && s.Holders[0].HolderID == held[i].HolderID(),
				"after Abandon: %+v", s)
		}
	})
}
