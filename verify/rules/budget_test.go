package rules_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// requests counts the commands that clients sent since the last ResetStats,
// not those that scripts called and not the test's own. When a pool opens one
// more connection, and that rueidis sends a PING each second over each that it
// has, is the choice of the client's user, and not counted.
func (w *world) requests(t *testing.T) int64 {
	t.Helper()
	calls := w.CommandCalls(t)
	n := calls["evalsha"] + calls["eval"] + calls["subscribe"] + calls["unsubscribe"]
	if w.adapter.Name != "rueidis" {
		n += calls["ping"]
	}
	return n
}

// Rule 10, D1. A held lock costs one request for each third of its lease, and
// nothing else.
func TestAHeldLockIsQuiet(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const ttl = 6 * time.Second
		c, seen := w.local(t, holdfast.Config{TTL: ttl})
		w.warm(t, c)
		l := harness.Lock(t, c.Mutex("x"))
		w.ResetStats(t)
		start := time.Now()
		for range 3 { // a whole lease
			seen.Renewed(t, "x")
		}
		span := time.Since(start) // of a late answer, too: then a renewal is sent again
		if n := w.requests(t); n > int64(span/(ttl/3))+2 {
			t.Errorf("%d requests in %v: %v", n, span, w.CommandCalls(t))
		}
		harness.Release(t, l)
	})
}

// Rule 10. A hundred processes that wait cost next to nothing: over a whole
// lease of the holder, less than one request a second and waiter, renewals
// and signs of life together.
func TestIdleWaitersAreQuiet(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const waiters = 100
		holder, seen := w.local(t, holdfast.Config{TTL: 12 * time.Second})
		w.warm(t, holder)
		store := w.open(t, harness.Login{})
		l := harness.Lock(t, holder.Mutex("x"))
		got := queue(t, waiters, func() (*holdfast.Client, *harness.Watch) {
			return harness.Client(t, store, holdfast.Config{TTL: 12 * time.Second})
		})
		w.ResetStats(t)
		start := time.Now()
		seen.Renewed(t, "x") // 4 s after the one before
		seen.Renewed(t, "x")
		span := time.Since(start)
		if n := w.requests(t); float64(n) > 10*span.Seconds() {
			t.Errorf("%d waiters: %d requests in %v: %v", waiters, n, span, w.CommandCalls(t))
		}
		harness.Release(t, l)
		for _, c := range got {
			harness.Release(t, harness.Granted(t, c))
		}
	})
}
