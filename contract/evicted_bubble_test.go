package contract_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// wantEvicted asserts that err says who evicted the lease, and why.
func wantEvicted(t *testing.T, err error) {
	t.Helper()
	var lost *holdfast.LostError
	if !errors.Is(err, holdfast.ErrLost) || !errors.As(err, &lost) || lost.Reason != holdfast.LossEvicted ||
		lost.Evicted == nil || lost.Evicted.By != "ann" || lost.Evicted.Reason != "the job {hangs}" ||
		!strings.Contains(err.Error(), "evicted by ann: the job {hangs}") {
		t.Errorf("error %v does not say who evicted it, and why", err)
	}
}

func evict(t *testing.T, c *holdfast.Client, name string, token uint64) {
	t.Helper()
	n, err := c.Evict(t.Context(), name, holdfast.Eviction{By: "ann", Reason: "the job {hangs}", Token: token})
	assert.MustTrue(t, n == 1 && err == nil, "%d holds were evicted, %v", n, err)
}

func TestAnEvictedHolderIsToldByWhomAndWhy(t *testing.T) {
	for name, learn := range map[string]func(t *testing.T, l *holdfast.Lease) error{
		"renewal": func(_ *testing.T, l *holdfast.Lease) error { return ended(l.Context()) },
		"release": func(t *testing.T, l *holdfast.Lease) error { return l.Release(t.Context()) },
		"extension": func(t *testing.T, l *holdfast.Lease) error {
			err := l.Extend(t.Context(), ttl)
			wantEvicted(t, context.Cause(l.Context()))
			return err
		},
		"release for later": func(t *testing.T, l *holdfast.Lease) error {
			return l.ReleaseAfter(t.Context(), time.Second)
		},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			l := mustLock(t, w.client().Mutex("a"))
			evict(t, w.client(), "a", l.Token())
			wantEvicted(t, learn(t, l))
			if name == "renewal" || name == "extension" {
				wantEvicted(t, l.Err())
				wantEvicted(t, l.Release(t.Context()))
			}
		})
	}
}

// The client decided by its clock that the lease was lost, before it could learn of the
// eviction.
func TestAReleaseReportsAnEvictionThatWasNotNoticed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		evict(t, w.client(), "a", 0)
		w.FailRequest(only("renew", -1, errLink))
		wantLost(t, ended(l.Context()), holdfast.LossExpired)
		w.FailRequest(nil)
		err := l.Release(t.Context())
		assert.Is(t, err, holdfast.ErrNotHeld)
		wantEvicted(t, err)
		wantEvicted(t, l.Err())
	})
}

// C16: after an eviction the lock is free for all clients, also in the process that
// evicts and in the process that held it.
func TestAfterAnEvictionTheLockIsFreeForEverybodyAtOnce(t *testing.T) {
	for name, options := range map[string][]holdfast.MutexOption{"mutex": nil, "fixed": {holdfast.NoRenewal()}} {
		for _, try := range []bool{true, false} {
			runBubble(t, name, func(t *testing.T, w *world) {
				c := w.client()
				lock := func() *holdfast.Lease {
					take := c.Mutex("a", options...).Lock
					if try {
						take = c.Mutex("a", options...).TryLock
					}
					start := time.Now()
					l, err := take(t.Context())
					assert.MustTrue(t, err == nil && time.Now().Equal(start), "%v after %v", err, time.Since(start))
					return keep(l)
				}
				first := lock()
				evict(t, c, "a", first.Token())
				wantEvicted(t, first.Err())
				second := lock()
				time.Sleep(5 * time.Second)
				evict(t, w.client(), "a", 0) // by another process
				third := lock()
				wantEvicted(t, second.Err())
				release(t, third)
			})
		}
	}
}

// The goroutines of a process hand a lock over all the time, and no push tells it of an eviction.
// But a grant is handed over for 10 ms only. Then its release tells.
func TestABusyProcessNoticesAnEviction(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.DropPushes(-1)
		c := w.client()
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		lost := make(chan time.Time, 3)
		context.AfterFunc(ctx, func() { lost <- time.Now() })
		var busy sync.WaitGroup
		for range 2 {
			busy.Go(func() {
				for {
					l, err := c.Mutex("a").Lock(ctx)
					if err != nil {
						return
					}
					time.Sleep(time.Millisecond)
					if errors.Is(l.Release(ctx), holdfast.ErrLost) {
						lost <- time.Now()
						return
					}
				}
			})
		}
		time.Sleep(5500*time.Millisecond + 500*time.Microsecond) // no hand-over is at this time
		before := w.net.count("release")
		evict(t, w.client(), "a", 0)
		start := time.Now()
		assert.AtMost(t, (<-lost).Sub(start), 12*time.Millisecond, "time until the eviction was noticed")
		cancel()
		busy.Wait()
		assert.AtMost(t, before, 1000, "releases at the server: the other hand-overs are local")
	})
}

// An eviction of another hold, or of none, ends no hold of this process.
func TestAnEvictionEndsOnlyWhatItNames(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l, other := mustLock(t, c.Mutex("a")), mustLock(t, c.Mutex("b"))
		e := holdfast.Eviction{By: "ann", Reason: "test", Token: l.Token() - 1<<10}
		if n, err := c.Evict(t.Context(), "a", e); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		evict(t, c, "b", 0)
		assert.True(t, l.Err() == nil && other.Err() != nil, "%v, %v", l.Err(), other.Err())
		one, err := c.Semaphore("s", 2).Acquire(t.Context(), 1)
		assert.Must(t, err)
		two, err := c.Semaphore("s", 2).Acquire(t.Context(), 1)
		assert.Must(t, err)
		evict(t, c, "s", two.Token())
		assert.NoError(t, one.Err())
		wantEvicted(t, two.Err())
		synctest.Wait()
		release(t, one)
		release(t, l)
	})
}

// If nothing else went wrong, the error of a function is returned unchanged.
func TestTheErrorOfAFunctionIsPassedOnAsItIs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, ctx := w.client(), t.Context()
		f := func(context.Context) error { return io.EOF }
		_, every := c.Periodic("job", time.Hour).Do(ctx, f)
		for name, err := range map[string]error{
			"Mutex":     c.Mutex("a").Do(ctx, f),
			"RWMutex":   c.RWMutex("b").Do(ctx, f),
			"reader":    c.RWMutex("b").RDo(ctx, f),
			"Semaphore": c.Semaphore("c", 2).Do(ctx, 1, f),
			"several":   c.MultiMutex([]string{"a", "d"}).Do(ctx, f),
			"Election": c.Election("e").Do(ctx, "x", func(context.Context, *holdfast.Leadership) error {
				return io.EOF
			}),
			"Periodic": every,
		} {
			if err != io.EOF { //nolint:errorlint // this very error, and nothing around it
				t.Errorf("%s: %v", name, err)
			}
		}
		err := c.Mutex("a").Do(ctx, func(context.Context) error {
			w.Evict(t, "a")
			return io.EOF
		})
		assert.Is(t, err, io.EOF, holdfast.ErrNotHeld)
	})
}

// subscribe gives c a subscription: it waits for a lock of another client.
func subscribe(t *testing.T, c, other *holdfast.Client) {
	t.Helper()
	blocks := mustLock(t, other.Mutex("b"))
	time.AfterFunc(time.Millisecond, func() { release(t, blocks) })
	release(t, mustLock(t, c.Mutex("b")))
}

// Another process evicts the holder. A waiting goroutine of the holder's process does not
// wait for the next renewal.
func TestAnEvictionByAnotherProcessIsNoticedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, other := w.client(), w.client()
		subscribe(t, c, other)

		first := mustLock(t, c.Mutex("a"))
		next := make(chan *holdfast.Lease, 1)
		go func() { next <- mustLock(t, c.Mutex("a")) }()
		synctest.Wait()
		start := time.Now()
		evict(t, other, "a", 0)
		l := <-next
		assert.AtMost(t, time.Since(start), 20*time.Millisecond, "the next of its process waited for")
		wantEvicted(t, context.Cause(first.Context()))
		release(t, l)
	})
}

// A push of an eviction only makes the client ask: a false one costs a renewal, if it names a hold of the client.
func TestAFalsePushOfAnEvictionEndsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, other := w.client(), w.client()
		subscribe(t, c, other)

		l := mustLock(t, c.Mutex("a"))
		_, number, _ := strings.Cut(l.HolderID(), "/")
		for payload, want := range map[string]int{
			"evicted " + l.HolderID(): 1, "evicted x/" + number: 0, "evicted " + c.ID() + "/0": 0,
			"evicted": 0, "evicted" + " ": 0, // with an empty attempt
		} {
			before := w.net.count("renew")
			w.net.Publish("holdfast:push:"+c.ID(), payload)
			synctest.Wait()
			if n := w.net.count("renew") - before; n != want || l.Err() != nil {
				t.Errorf("%q: %d renewals, want %d, and the lease says %v", payload, n, want, l.Err())
			}
		}
		release(t, l)
	})
}
