// One holder at a time (G1), tokens that rise (G3), waiters in order of arrival (G8), a release that wakes exactly one
// (G11), and a process that hands the lock over among its goroutines but starves nobody (G15).

package contract_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/observe"
)

func TestAFreeLockIsGrantedAtOnceAndFreedByRelease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLock(t, c.Mutex("a"))
		s := w.state("a")
		if !s.Held() || s.Holders[0].HolderID != l.HolderID() || s.Holders[0].ClientID != c.ID() ||
			s.Holders[0].Token != l.Token() {
			t.Errorf("lease %s with token %d, the server says %+v", l.HolderID(), l.Token(), s.Holders)
		}
		assert.True(t, l.Name() == "a" && c.Mutex("a").Name() == "a" && l.Err() == nil && l.Remaining() == trusted,
			"a new lease of %q: %v left, %v", l.Name(), l.Remaining(), l.Err())
		release(t, l)
		w.wantFree("a")
		assert.True(t, w.net.count("acquire") == 1 && w.net.count("release") == 1, "sent %v", w.net.sent)
	})
}

func TestTryLockSaysWhoHoldsTheLockAndForHowLong(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		time.Sleep(time.Second)
		for _, c := range []*holdfast.Client{a, b} {
			got, err := c.Mutex("a").TryLock(t.Context())
			var held *holdfast.HeldError
			assert.Is(t, err, holdfast.ErrHeld)
			if got != nil || !errors.As(err, &held) || held.Name != "a" || held.HeldBy != l.HolderID() ||
				held.Remaining > ttl-time.Second || held.Remaining < trusted-time.Second {
				t.Errorf("lease %v, %+v", got, err)
			}
		}
		assert.Equal(t, w.net.count("acquire"), 2, "requests: a try against the own process needs none")
		release(t, l)
		release(t, must(t, b.Mutex("a").TryLock))
	})
}

func TestWaitersOfManyClientsAreServedInOrderOfArrival(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 40
		first := mustLock(t, w.client().Mutex("a"))
		served := make(chan int, n)
		last := first.Token()
		for i := range n {
			c := w.client()
			go func() {
				l := mustLock(t, c.Mutex("a"))
				assert.More(t, l.Token(), last, "token")
				last = l.Token() // guarded by the lock
				served <- i
				time.Sleep(time.Second)
				release(t, l)
			}()
			synctest.Wait()
		}
		release(t, first)
		for i := range n {
			got := <-served
			assert.True(t, got == i, "turn %d went to waiter %d", i, got)
		}
		time.Sleep(2 * time.Second)
		w.wantFree("a")
	})
}

func TestTheWaitLimitEndsWithErrHeld(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		for _, c := range []*holdfast.Client{a, b} {
			start := time.Now()
			_, err := c.Mutex("a", holdfast.MaxWait(5*time.Second)).Lock(t.Context())
			var held *holdfast.HeldError
			assert.Is(t, err, holdfast.ErrHeld)
			if !errors.As(err, &held) || held.Waited != 5*time.Second || time.Since(start) != 5*time.Second ||
				errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after %v: %+v", time.Since(start), err)
			}
			assert.True(t, strings.Contains(err.Error(), "waited 5s"), "it says %q", err)
			start = time.Now()
			_, err = c.Mutex("a", holdfast.MaxWait(0)).Lock(t.Context())
			assert.Is(t, err, holdfast.ErrHeld)
			assert.Equal(t, time.Since(start), 0, "a limit of 0 waited")
		}
		synctest.Wait()
		s := w.state("a")
		assert.True(t, len(s.Waiters) == 0, "who gave up still waits: %v", s.Waiters)
		release(t, l)
		release(t, mustLock(t, b.Mutex("a", holdfast.MaxWait(time.Second))))
	})
}

func TestAContextThatEndsEndsTheWaitAndLeavesNoPosition(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		for _, c := range []*holdfast.Client{a, b} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err := c.Mutex("a", holdfast.MaxWait(time.Hour)).Lock(ctx)
			cancel()
			assert.Is(t, err, context.DeadlineExceeded, holdfast.ErrHeld)
			var held *holdfast.HeldError
			says := strings.Contains(err.Error(), `lock "a" is held`)
			assert.True(t, errors.As(err, &held) && held.Name == "a" && says, "it says %q", err)
			assert.True(t, c == a || held.Remaining > 0 && held.Waited == 5*time.Second, "it has %+v", held)

			// A caller that gives up says nothing of the lock.
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err = c.Mutex("a").Lock(ctx)
			assert.Is(t, err, context.Canceled)
			assert.True(t, !errors.Is(err, holdfast.ErrHeld) && !errors.As(err, &held), "it says %q", err)
		}
		synctest.Wait()
		s := w.state("a")
		assert.True(t, len(s.Waiters) == 0 && s.Held(), "holders %v, waiters %v", s.Holders, s.Waiters)
		release(t, l)
		w.wantFree("a")
	})
}

func TestDoHoldsTheLockWhileItsFunctionRuns(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, other := w.client(), w.client()
		mine := errors.New("mine")
		err := c.Mutex("a").Do(t.Context(), func(ctx context.Context) error {
			_, err := other.Mutex("a").TryLock(ctx)
			assert.Is(t, err, holdfast.ErrHeld)
			time.Sleep(10 * ttl)
			return errors.Join(ctx.Err(), mine)
		})
		assert.Is(t, err, mine)
		assert.True(t, !errors.Is(err, context.Canceled) && !errors.Is(err, holdfast.ErrNotHeld), "got %v", err)
		w.wantFree("a")
		func() {
			defer func() {
				p := recover()
				assert.True(t, p == "mine", "recovered %v", p)
			}()
			_ = c.Mutex("a").Do(t.Context(), func(context.Context) error { panic("mine") })
		}()
		w.wantFree("a")
	})
}

func TestTheContextOfDoEndsWithTheCallersAndWithTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		type key struct{}
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
		mine := errors.New("mine")
		err := w.client().Mutex("a").Do(ctx, func(ctx context.Context) error {
			assert.Equal(t, ctx.Value(key{}), "value", "the caller's values are gone")
			cancel(mine)
			return ended(ctx)
		})
		assert.Is(t, err, mine)
		assert.True(t, !errors.Is(err, holdfast.ErrUnknownOutcome), "got %v", err)
		w.wantFree("a")

		var inner context.Context
		err = w.client().Mutex("a").Do(t.Context(), func(ctx context.Context) error {
			inner = ctx
			w.Flush()
			return ended(ctx)
		})
		wantLost(t, err, holdfast.LossNotHeld)
		assert.Is(t, err, holdfast.ErrNotHeld)
		wantLost(t, context.Cause(inner), holdfast.LossNotHeld)

		_ = w.client().Mutex("b").Do(t.Context(), func(ctx context.Context) error { inner = ctx; return nil })
		assert.Is(t, context.Cause(inner), holdfast.ErrReleased)
	})
}

func TestTokensRiseOverEveryKindOfChange(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		var last uint64
		turn := func(c *holdfast.Client, what string) {
			t.Helper()
			l := mustLock(t, c.Mutex("a"))
			assert.True(t, l.Token() > last && l.Token() <= 1<<63-1, "%s: token %d after %d", what, l.Token(), last)
			last = l.Token()
			release(t, l)
		}
		turn(a, "first")
		turn(a, "at the same instant")
		turn(b, "by another client")
		time.Sleep(time.Second)
		turn(a, "later")
		w.Advance(-5 * time.Minute)
		turn(b, "after the server's clock was set back")
		w.Advance(5 * time.Minute)
		time.Sleep(time.Millisecond)
		w.Flush()
		turn(a, "after the server lost its memory")
		l := mustLock(t, a.Mutex("a"))
		evict(t, b, "a", 0)
		last = max(last, l.Token())
		turn(b, "after an eviction")
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
		time.Sleep(time.Hour)
		turn(a, "after the record was forgotten")
	})
}

// A waiter is told that the lock is free sooner than expected. If it gives up, the next
// one is told.
func TestIfAWaiterThatWasToldOfAnEarlierReleaseGivesUpTheNextIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		ctx, cancel := context.WithCancel(t.Context())
		first := w.waiting(w.client().Mutex("a"), ctx)
		second := w.waiting(w.client().Mutex("a"), t.Context())
		start := time.Now()
		assert.Must(t, l.ReleaseAfter(t.Context(), 2*time.Second))
		time.Sleep(time.Second)
		synctest.Wait() // it has received the push
		cancel()
		assert.Is(t, (<-first).err, context.Canceled)
		got := <-second
		if waited := got.at.Sub(start); got.err != nil || waited > 3*time.Second {
			t.Errorf("%v after %v, and it was free after two seconds", got.err, waited)
		}
		release(t, got.Lease)
	})
}

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
		for _, e := range events.all(observe.EventGrant)[1:] {
			assert.True(t, e.Local && e.Wake == observe.WakeLocal, "want a local wake, got %+v", e)
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
			limited, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			next, err := c.Mutex("a").TryLock(limited) // it would wait for a call that has kept the turn
			assert.Must(t, err)
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

// storm is many acquisitions at once, on an unreliable network. Each may give up at the
// moment of its grant.
type storm struct {
	w       *world
	rng     *rand.Rand
	mu      sync.Mutex // guards rng
	holders atomic.Int32
	served  atomic.Int32
	gaveUp  atomic.Int32
	last    uint64 // token; guarded by the lock itself
}

// upTo is a random duration in steps of 100µs, so events often happen at the same
// instant.
func (s *storm) upTo(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.rng.IntN(int(d/(100*time.Microsecond))+1)) * 100 * time.Microsecond
}

func (s *storm) worker(t *testing.T, c *holdfast.Client) {
	time.Sleep(s.upTo(3 * time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), s.upTo(8*time.Millisecond))
	defer cancel()
	l, err := c.Mutex("a").Lock(ctx)
	if err != nil {
		s.gaveUp.Add(1)
		assert.False(t, !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, holdfast.ErrUnknownOutcome),
			"gave up with %v", err)
		return
	}
	s.served.Add(1)
	assert.Equal(t, s.holders.Add(1), 1, "two hold the lock")
	assert.More(t, l.Token(), s.last, "token")
	s.last = l.Token()
	time.Sleep(s.upTo(time.Millisecond))
	s.holders.Add(-1)
	err = l.Release(ctx)
	assert.False(t, err != nil && !errors.Is(err, holdfast.ErrUnknownOutcome), "released with %v", err)
}

// network delays everything a little, and now and then loses a request, a reply or a
// push.
func (s *storm) network(faults bool) {
	s.w.net.slow(func(string) (there, back time.Duration) {
		return s.upTo(500 * time.Microsecond), s.upTo(500 * time.Microsecond)
	})
	if !faults {
		return
	}
	sometimes := func(string, []string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.rng.IntN(15) == 0 {
			return errLink
		}
		return nil
	}
	s.w.FailRequest(sometimes)
	s.w.LoseReply(sometimes)
	s.w.DropPushes(s.rng.IntN(3))
}

func (s *storm) run(t *testing.T, clients, workers int, faults bool) {
	s.network(faults)
	var all sync.WaitGroup
	for i := range clients {
		passes := []int{0, 2, -1}[i%3]
		c := s.w.client(holdfast.Config{MaxLocalHandOvers: passes, TTL: time.Second})
		for range workers {
			all.Go(func() { s.worker(t, c) })
		}
	}
	all.Wait()
	// A grant that was given up is released at once, or when the request that was under
	// way has arrived. A grant whose push was lost is found by the next poll.
	time.Sleep(5 * time.Second)
	synctest.Wait()
	s.w.FailRequest(nil)
	s.w.LoseReply(nil)
	s.w.wantFree("a")
	l, err := s.w.client().Mutex("a").TryLock(t.Context())
	if err != nil {
		t.Errorf("after all: %v", err)
		return
	}
	release(t, l)
}

// Guarantee: no call hangs, there are never two holders, and every grant that was given
// up is released. The order of cancellation and grant does not matter.
func TestACancellationThatRacesWithAGrantLeaksNothing(t *testing.T) {
	served, gaveUp := int32(0), int32(0)
	for seed := range uint64(200) {
		bubble(t, func(t *testing.T, w *world) {
			s := &storm{w: w, rng: rand.New(rand.NewPCG(seed, 7))}
			s.run(t, 3, 4, seed%2 == 1)
			assert.Equal(t, s.served.Load()+s.gaveUp.Load(), 12, "calls that came back")
			served, gaveUp = served+s.served.Load(), gaveUp+s.gaveUp.Load()
		})
		assert.MustTrue(t, !t.Failed(), "seed %d", seed)
	}
	assert.True(t, served >= 200 && gaveUp >= 200,
		"%d were served and %d gave up: the race was not run", served, gaveUp)
}

// The same without delays, where the goroutines race: thousands of cancellations at the
// instant of the hand-over.
func TestACancellationAtTheInstantOfTheHandOverLeaksNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		clients := []*holdfast.Client{
			w.client(), w.client(holdfast.Config{MaxLocalHandOvers: -1}),
			w.client(holdfast.Config{MaxLocalHandOvers: 1}),
		}
		for i := range 400 {
			l := mustLock(t, clients[i%3].Mutex("a"))
			ctx, cancel := context.WithCancel(t.Context())
			next := make([]<-chan outcome, 3)
			for j := range next {
				next[j] = w.waiting(clients[(i/3+j)%3].Mutex("a"), ctx)
			}
			go cancel()
			go func() { _ = l.Release(t.Context()) }()
			for _, ch := range next {
				if got := <-ch; got.err == nil {
					release(t, got.Lease)
				} else {
					assert.Is(t, got.err, context.Canceled)
				}
			}
			cancel()
			synctest.Wait()
			w.wantFree("a")
			assert.MustTrue(t, !t.Failed(), "round %d", i)
		}
	})
}
