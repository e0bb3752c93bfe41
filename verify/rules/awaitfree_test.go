package rules_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// awaiting waits for a free lock in a goroutine of its own, and returns once the server knows
// of it.
func (w *world) awaiting(t *testing.T, c *holdfast.Client, name string) <-chan error {
	t.Helper()
	done, ctx := make(chan error, 1), harness.Within(t)
	go func() { done <- c.Mutex(name).AwaitFree(ctx) }()
	redistest.Await(t, "somebody watches", func() bool { return w.watched(t, name) })
	return done
}

// watched reports whether the record says that somebody watches the lock.
func (w *world) watched(t *testing.T, name string) bool {
	t.Helper()
	lock, _ := w.Do(t, "HGET", harness.Key(name), "lock").(string)
	return strings.HasSuffix(lock, "!")
}

func wantFree(t *testing.T, done <-chan error) {
	t.Helper()
	assert.NoError(t, redistest.Next(t, "AwaitFree", done))
}

// The leases are longer than the patience of the test: only a push can tell in time. Waiters
// get the lock first, and a watcher never gets it.
func TestAReleaseTellsTheWatchers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: time.Hour}
		a, _ := w.local(t, cfg)
		b, seen := w.local(t, cfg)
		c, _ := w.local(t, cfg)
		l := harness.Lock(t, a.Mutex("x"))
		first, second := w.awaiting(t, c, "x"), w.awaiting(t, c, "x")
		next := harness.Waiting(t, seen, b.Mutex("x"))
		harness.Release(t, l)
		l = harness.Granted(t, next)
		assert.Equal(t, len(first)+len(second), 0, "the lock went from hand to hand, and was found free")
		harness.Release(t, l)
		wantFree(t, first)
		wantFree(t, second)
		s := state(t, c, "x")
		assert.True(t, !s.Held() && len(s.Waiters) == 0 && !w.watched(t, "x"), "left behind: %+v", s)
	})
}

// The watcher's connections are cut, and the release falls into the gap. It asks as soon as
// its subscription stands again.
func TestAWatcherAsksAfterACut(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: time.Hour, RequestTimeout: 500 * time.Millisecond}
		a, _ := w.local(t, cfg)
		proxy := redistest.NewProxy(t, w.Addr())
		c, _ := w.client(t, proxy.Addr(), cfg)
		l := harness.Lock(t, a.Mutex("x"))
		done := w.awaiting(t, c, "x")
		proxy.RefuseNew(true)
		proxy.Cut()
		harness.Release(t, l)
		assert.Equal(t, len(done), 0, "it was told over a link that is cut")
		proxy.RefuseNew(false)
		wantFree(t, done)
	})
}

// The server restarts empty, or goes away for good: the watcher learns that the lock is free,
// or goes on trying until its context ends.
func TestAWatcherOutlastsTheServer(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: time.Hour, RequestTimeout: 500 * time.Millisecond}
		a, _ := w.local(t, cfg)
		c, _ := w.local(t, cfg)
		harness.Lock(t, a.Mutex("x"))
		done := w.awaiting(t, c, "x")
		w.Kill()
		w.Restart()
		wantFree(t, done)

		harness.Lock(t, a.Mutex("y"))
		ctx, cancel := context.WithCancel(harness.Within(t))
		ended := make(chan error, 1)
		go func() { ended <- c.Mutex("y").AwaitFree(ctx) }()
		redistest.Await(t, "somebody watches", func() bool { return w.watched(t, "y") })
		w.Kill()
		cancel()
		assert.Is(t, redistest.Next(t, "AwaitFree", ended), context.Canceled)
	})
}
