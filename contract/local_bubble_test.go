package contract_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestGoroutinesOfOneProcessPassTheLockInOrderWithoutTheServer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 100
		events := &recorder{}
		c := w.client(holdfast.Config{Observer: events})
		first := mustLock(t, c.Mutex("a"))
		var order []int
		last := first.Token()
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				l := mustLock(t, c.Mutex("a"))
				order = append(order, i)
				assert.True(t, l.Token() > last && l.HolderID() == first.HolderID(),
					"turn %d: %s with token %d after %d", i, l.HolderID(), l.Token(), last)
				last = l.Token()
				release(t, l)
			})
			synctest.Wait()
		}
		release(t, first)
		all.Wait()
		for i, got := range order {
			assert.MustEqual(t, got, i, "turns went to %v", order)
		}
		assert.True(t, w.net.count("acquire") == 1 && w.net.count("release") == 1, "sent %v", w.net.sent)
		for _, e := range events.all(holdfast.EventGrant)[1:] {
			assert.True(t, e.Local && e.Wake == holdfast.WakeLocal, "want a local wake, got %+v", e)
		}
		w.wantFree("a")
	})
}

func TestAHoldWithOtherOptionsIsNotHandedOver(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		for _, options := range [][]holdfast.MutexOption{
			{holdfast.TTL(10 * time.Second)},
			{holdfast.NoRenewal()},
		} {
			l := mustLock(t, c.Mutex("a"))
			next := w.waiting(c.Mutex("a", options...), t.Context())
			release(t, l)
			got := <-next
			assert.True(t, got.err == nil && got.HolderID() != l.HolderID() && got.Token() > l.Token(),
				"got %s after %s: %v", got.HolderID(), l.HolderID(), got.err)
			if left := w.state("a").Holders[0].Remaining; left != got.Remaining()+margin(left) {
				t.Errorf("%v are left on the server, %v here", left, got.Remaining())
			}
			back := w.waiting(c.Mutex("a"), t.Context())
			release(t, got.Lease)
			release(t, (<-back).Lease)
		}
		l := mustLock(t, c.Mutex("a"))
		next := w.waiting(c.Mutex("a"), t.Context())
		assert.Must(t, l.Extend(t.Context(), time.Hour))
		release(t, l)
		if got := <-next; got.Remaining() != trusted {
			t.Errorf("a lease of %v is left after one of an hour", got.Remaining())
		} else {
			release(t, got.Lease)
		}
		w.wantFree("a")
	})
}

// margin is how long before the expiry a lease ends.
func margin(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// A goroutine changes its lease and releases it at the same time. The change is not for the next
// goroutine of the process.
func TestAChangeThatMeetsAReleaseIsNotForTheNextGoroutine(t *testing.T) {
	for name, change := range map[string]func(*holdfast.Lease, context.Context) error{
		"extend":  func(l *holdfast.Lease, ctx context.Context) error { return l.Extend(ctx, time.Second) },
		"shorten": func(l *holdfast.Lease, ctx context.Context) error { return l.Shorten(ctx, time.Second) },
	} {
		runBubble(t, name+", the release first", func(t *testing.T, w *world) {
			c := w.client()
			l := mustLock(t, c.Mutex("a"))
			next := w.waiting(c.Mutex("a"), t.Context())
			ctx := &askedContext{Context: t.Context(), asked: func() { release(t, l) }}
			assert.Is(t, change(l, ctx), holdfast.ErrNotHeld)
			got := <-next
			assert.Must(t, got.err)
			assert.Equal(t, got.HolderID(), l.HolderID(), "holder")
			wantTTL(t, w, got.Lease)
		})
		runBubble(t, name+", the release meanwhile", func(t *testing.T, w *world) {
			c := w.client()
			l := mustLock(t, c.Mutex("a"))
			next := w.waiting(c.Mutex("a"), t.Context())
			w.net.slow(func(string) (there, back time.Duration) { return time.Millisecond, time.Millisecond })
			changed := make(chan error, 1)
			go func() { changed <- change(l, t.Context()) }()
			synctest.Wait()
			release(t, l)
			got := <-next
			assert.Must(t, got.err)
			assert.Is(t, <-changed, holdfast.ErrNotHeld)
			wantTTL(t, w, got.Lease)
		})
	}
	runBubble(t, "no reply to an extension", func(t *testing.T, w *world) {
		c := w.client()
		l := mustLock(t, c.Mutex("a"))
		next := w.waiting(c.Mutex("a"), t.Context())
		w.LoseReply(only("renew", 1, errLink))
		assert.Is(t, l.Extend(t.Context(), 10*ttl), holdfast.ErrUnknownOutcome)
		release(t, l)
		got := <-next
		assert.Must(t, got.err)
		assert.AtMost(t, w.state("a").Holders[0].Remaining, ttl, "the server keeps it for")
		wantTTL(t, w, got.Lease)
	})
}

// askedContext is a context that runs a function of the test when somebody asks whether it has ended.
type askedContext struct {
	context.Context
	asked func()
}

func (c *askedContext) Err() error {
	c.asked()
	return nil
}

// wantTTL asserts that a lease has the usual TTL, and is renewed as usual.
func wantTTL(t *testing.T, w *world, l *holdfast.Lease) {
	t.Helper()
	keep(l)
	renewed := w.net.count("renew")
	time.Sleep(2 * ttl)
	assert.More(t, l.Remaining(), ttl/2, "remaining")
	assert.AtMost(t, w.net.count("renew")-renewed, 8, "renewals")
	assert.NoError(t, l.Extend(t.Context(), 2*ttl))
}

func TestALostHoldIsNotHandedOver(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLock(t, c.Mutex("a"))
		next := w.waiting(c.Mutex("a"), t.Context())
		w.Flush()
		wantLost(t, ended(l.Context()), holdfast.LossNotHeld)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
		got := <-next
		assert.MustTrue(t, got.err == nil && got.HolderID() != l.HolderID(), "got %v, %v", got.Lease, got.err)
		release(t, got.Lease)
		w.wantFree("a")
	})
}

func TestALossAfterALocalHandOverEndsTheLeaseThatHasTheHold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLock(t, c.Mutex("a"))
		next := w.waiting(c.Mutex("a"), t.Context())
		release(t, l)
		got := <-next
		w.Flush()
		wantLost(t, ended(got.Context()), holdfast.LossNotHeld)
		assert.Is(t, l.Err(), holdfast.ErrReleased)
		assert.Is(t, got.Release(t.Context()), holdfast.ErrNotHeld)
	})
}

// lateContext is a context whose end is noticed too late. When the waiter has seen the
// end and asks for the reason, the context first runs a function of the test.
type lateContext struct {
	context.Context
	done    chan struct{}
	once    sync.Once
	between func()
}

func (c *lateContext) Done() <-chan struct{} { return c.done }

func (c *lateContext) Err() error {
	select {
	case <-c.done:
		c.once.Do(c.between)
		return context.Canceled
	default:
		return nil
	}
}

// A waiter that has given up, but has not left the local queue yet, gets the lock: as a
// hold, or as the turn alone.
func TestAWaiterThatGivesUpAsItGetsTheLockKeepsNothing(t *testing.T) {
	for _, handedOver := range []bool{true, false} {
		bubble(t, func(t *testing.T, w *world) {
			var options []holdfast.MutexOption
			if !handedOver {
				options = append(options, holdfast.NoRenewal())
			}
			c := w.client()
			l := mustLock(t, c.Mutex("a", options...))
			ctx := &lateContext{Context: t.Context(), done: make(chan struct{}), between: func() { release(t, l) }}
			late := w.waiting(c.Mutex("a"), ctx)
			close(ctx.done)
			assert.Is(t, (<-late).err, context.Canceled)
			synctest.Wait() // it gives the hold back in the background
			w.wantFree("a")
			next := must(t, c.Mutex("a").TryLock)
			release(t, next)
			w.wantFree("a")
		})
	}
}

// The same with a silent server: the call returns at once, and the lock is free when the server answers again.
func TestAWaiterThatGivesUpAsItGetsTheLockDoesNotWaitForTheServer(t *testing.T) {
	for _, kind := range []string{"mutex", "other options", "several"} {
		runBubble(t, kind, func(t *testing.T, w *world) {
			c := w.client()
			l := mustLock(t, c.Mutex("a"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var resume func()
			silent := func() {
				resume = w.Stall()
				cancel()
			}
			call := func(ctx context.Context) (*holdfast.Lease, error) { return c.Mutex("a").Lock(ctx) }
			switch kind {
			case "mutex":
				between := func() { resume = w.Stall(); release(t, l) }
				late := &lateContext{Context: ctx, done: make(chan struct{}), between: between}
				time.AfterFunc(time.Millisecond, func() { close(late.done) })
				ctx = late
			case "other options":
				call = func(ctx context.Context) (*holdfast.Lease, error) {
					return c.Mutex("a", holdfast.TTL(2*ttl)).Lock(ctx)
				}
				time.AfterFunc(time.Millisecond, func() { resume = w.Stall(); release(t, l); cancel() })
			case "several":
				other := mustLock(t, w.client().Mutex("b"))
				release(t, l)
				call = func(ctx context.Context) (*holdfast.Lease, error) {
					_, err := c.MultiMutex([]string{"a", "b"}).Lock(ctx)
					return nil, err
				}
				time.AfterFunc(time.Millisecond, silent)
				defer func() { release(t, other) }()
			}
			start := time.Now()
			_, err := call(ctx)
			assert.Is(t, err, context.Canceled)
			assert.Equal(t, time.Since(start), time.Millisecond, "returned after")
			resume()
			time.Sleep(time.Second)
			w.wantFree("a")
			release(t, must(t, c.Mutex("a").TryLock))
		})
	}
}

// A goroutine that asks its lease at the trust deadline may notice the loss before the renewer. It releases
// the lease at once, and the next goroutine gets the lock.
func TestALossThatTheHolderNoticesFirstPassesTheTurnOn(t *testing.T) {
	for range 50 {
		bubble(t, func(t *testing.T, w *world) {
			c := w.client()
			l := mustLock(t, c.Mutex("a", holdfast.NoRenewal()))
			time.Sleep(l.Remaining())
			wantLost(t, l.Err(), holdfast.LossExpired)
			assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
			time.Sleep(ttl)
			release(t, must(t, c.Mutex("a").TryLock))
		})
		if t.Failed() {
			return
		}
	}
}

func TestAFailedAttemptPassesTheTurnOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(holdfast.Config{MaxLocalHandOvers: 1})
		other := mustLock(t, w.client().Mutex("a"))
		ctx, cancel := context.WithCancel(t.Context())
		first := w.waiting(c.Mutex("a"), ctx)
		second := w.waiting(c.Mutex("a"), t.Context())
		cancel()
		assert.Is(t, (<-first).err, context.Canceled)
		synctest.Wait()
		assert.Equal(t, len(w.state("a").Waiters), 1, "waiters stand for the process")
		release(t, other)
		got := <-second
		assert.MustTrue(t, got.err == nil && !errors.Is(got.Err(), holdfast.ErrReleased), "%v", got.err)
		release(t, got.Lease)
		w.wantFree("a")
	})
}
