package rules_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

type key struct{}

// A nested Lock under a lease's own context would wait for itself for ever:
// it is refused, whatever lies between.
func TestSelfDeadlockIsRefused(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c, _ := w.local(t, holdfast.Config{})
		x, y := c.Mutex("x"), c.Mutex("y")
		refused := func(what string, err error) {
			t.Helper()
			assert.True(t, errors.Is(err, holdfast.ErrDeadlock) && holdfast.Hint(err) != "",
				"%s: %v; want ErrDeadlock with a hint", what, err)
		}
		l := harness.Lock(t, x)
		_, err := x.Lock(l.Context())
		refused("Lock under its own lease", err)
		_, err = c.Mutex("x", holdfast.MaxWait(time.Second)).TryLock(l.Context())
		refused("TryLock under its own lease", err)
		inner, err := y.Lock(l.Context())
		assert.Must(t, err)
		ctx, cancel := context.WithCancel(context.WithValue(inner.Context(), key{}, "deeper"))
		defer cancel()
		refused("Do, two leases further in", x.Do(ctx, func(context.Context) error { return nil }))
		harness.Release(t, inner)
		refused("Do in Do", y.Do(harness.Within(t), func(ctx context.Context) error {
			return y.Do(ctx, func(context.Context) error { return nil })
		}))
		harness.Release(t, l)
		// Released, it is no deadlock any more; nor is it one for others.
		if _, err := x.Lock(l.Context()); !errors.Is(err, context.Canceled) || errors.Is(err, holdfast.ErrDeadlock) {
			t.Errorf("Lock under a released lease: %v", err)
		}
		other, _ := w.local(t, holdfast.Config{})
		l = harness.Lock(t, x)
		assert.Is(t, assert.Err(other.Mutex("x").TryLock(l.Context())), holdfast.ErrHeld)
		harness.Release(t, l)
	})
}

// A lease's context has the values of the one that it was taken under, and an
// end of its own, whose cause says how it came.
func TestALeasesContextSaysHowItEnded(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c, _ := w.local(t, holdfast.Config{})
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Hour)
		l, err := c.Mutex("x").Lock(ctx)
		assert.Must(t, err)
		cancel()
		of := l.Context()
		_, limited := of.Deadline()
		assert.True(t, !limited && of.Err() == nil && of.Value(key{}) == "value", "the context is %v", of)
		assert.True(t, l.Remaining() > 0 && time.Until(l.Deadline()) > 0 && l.Err() == nil,
			"held: Remaining %v, Err %v", l.Remaining(), l.Err())
		harness.Release(t, l)
		if cause := context.Cause(l.Context()); !errors.Is(cause, holdfast.ErrReleased) || l.Remaining() != 0 {
			t.Errorf("released: cause %v, Remaining %v", cause, l.Remaining())
		}
		late := harness.Lock(t, c.Mutex("x"))
		harness.Release(t, late)
		if !errors.Is(context.Cause(late.Context()), holdfast.ErrReleased) { // asked for after the end
			t.Errorf("the cause is %v", context.Cause(late.Context()))
		}
		// Do's context ends with its lease, and with the caller's.
		err = c.Mutex("x").Do(t.Context(), func(ctx context.Context) error {
			c.Evict(t.Context(), "x", holdfast.Eviction{By: "test", Reason: "test"})
			w.Do(t, "DEL", harness.Key("x"))
			return nil
		})
		assert.Is(t, err, holdfast.ErrNotHeld)
		func() {
			defer func() {
				assert.True(t, recover() != nil, "the panic is gone")
			}()
			c.Mutex("x").Do(t.Context(), func(context.Context) error { panic("at work") })
		}()
		assert.False(t, state(t, c, "x").Held(), "the lock is held after a panic")
	})
}

// A lease that is forgotten is reported when it is collected, and ends with its TTL.
func TestAForgottenLeaseEndsWithItsTTLAndIsReported(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var log assert.Log
		c, seen := w.local(t, holdfast.Config{
			TTL:    5 * time.Second, // on a busy machine it must not be lost before it is collected
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		other, _ := w.local(t, holdfast.Config{})
		done := forget(t, c)
		got := harness.Acquiring(harness.Within(t), other.Mutex("x").Lock)
		redistest.Await(t, "the lease is collected", func() bool {
			runtime.GC()
			return len(seen.Of(holdfast.EventLeak, "x")) > 0
		})
		next := harness.Granted(t, got)
		redistest.Next(t, "the end of its context", done) // which came before the grant
		harness.Release(t, next)
		if text := log.String(); !strings.Contains(text, "without Release") || !strings.Contains(text, "lock=x") {
			t.Errorf("the log says: %s", text)
		}
		n := len(seen.Of(holdfast.EventLeak, "x"))
		assert.True(t, n == 1 && len(seen.Of(holdfast.EventRelease, "x")) == 0, "%d leaks were reported", n)
		// A lease in use is not taken for forgotten.
		l := harness.Lock(t, c.Mutex("x"))
		runtime.GC()
		harness.Release(t, l)
		runtime.GC()
		assert.Equal(t, len(seen.Of(holdfast.EventLeak, "x")), 1, "leaks reported")
	})
}

// forget takes a lock and leaves nothing behind but the end of its context.
func forget(t *testing.T, c *holdfast.Client) <-chan struct{} {
	t.Helper()
	return harness.Lock(t, c.Mutex("x")).Context().Done()
}

// D17 and the observer's promise: every acquisition shows a grant or a
// failure, and every grant one end.
func TestTheObserverSeesEveryAcquisitionAndItsEnd(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const goroutines, rounds = 6, 40
		cfg := holdfast.Config{TTL: 400 * time.Millisecond, Retention: time.Second}
		var wg sync.WaitGroup
		var clients []*holdfast.Client
		var seen []*harness.Watch
		for i := range 3 {
			c, s := w.local(t, cfg)
			clients, seen = append(clients, c), append(seen, s)
			for g := range goroutines {
				wg.Go(func() { wander(t, c, uint64(100+i*goroutines+g), rounds) })
			}
		}
		wg.Wait()
		held := harness.Lock(t, clients[0].Mutex("until the close"))
		for _, c := range clients {
			c.Close(harness.Within(t))
		}
		held.Release(harness.Within(t))
		for i, s := range seen {
			calls := goroutines * rounds
			if i == 0 {
				calls++
			}
			count := func(kind holdfast.EventKind) int { return len(s.Of(kind, "")) }
			grants, fails := count(holdfast.EventGrant), count(holdfast.EventFail)
			assert.True(t, grants+fails == calls,
				"%d acquisitions show %d grants and %d failures", calls, grants, fails)
			ends := map[uint64]int{}
			for _, kind := range []holdfast.EventKind{holdfast.EventRelease, holdfast.EventLost, holdfast.EventLeak} {
				for _, e := range s.Of(kind, "") {
					ends[e.Token]++
				}
			}
			for _, e := range s.Of(holdfast.EventGrant, "") {
				assert.Equal(t, ends[e.Token], 1, "ends of the grant of token %d", e.Token)
			}
			assert.True(t, len(ends) == grants, "%d grants, %d ends", grants, len(ends))
		}
	})
}
