package contract_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
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

func TestWhatCannotWorkIsRefusedBeforeAnythingIsSent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for name, test := range map[string]struct {
			ctx  context.Context
			m    *holdfast.Mutex
			want error
		}{
			"empty name":     {t.Context(), c.Mutex(""), holdfast.ErrInvalid},
			"long name":      {t.Context(), c.Mutex(strings.Repeat("x", 513)), holdfast.ErrInvalid},
			"short TTL":      {t.Context(), c.Mutex("a", holdfast.TTL(time.Millisecond)), holdfast.ErrInvalid},
			"uneven TTL":     {t.Context(), c.Mutex("a", holdfast.TTL(time.Second+1)), holdfast.ErrInvalid},
			"endless TTL":    {t.Context(), c.Mutex("a", holdfast.TTL(500*24*time.Hour)), holdfast.ErrInvalid},
			"negative limit": {t.Context(), c.Mutex("a", holdfast.MaxWait(-1)), holdfast.ErrInvalid},
			"no context":     {nil, c.Mutex("a"), holdfast.ErrInvalid},
			"context over":   {over, c.Mutex("a"), context.Canceled},
		} {
			_, locked := test.m.Lock(test.ctx)
			_, tried := test.m.TryLock(test.ctx)
			done := test.m.Do(test.ctx, func(context.Context) error { t.Error(name, "ran"); return nil })
			for _, err := range []error{locked, tried, done} {
				assert.Is(t, err, test.want)
			}
		}
		l := mustLock(t, c.Mutex("a"))
		var none context.Context
		assert.Is(t, l.Release(none), holdfast.ErrInvalid)
		assert.Is(t, l.ReleaseAfter(none, time.Second), holdfast.ErrInvalid)
		assert.Is(t, l.ReleaseAfter(t.Context(), 9000*time.Hour), holdfast.ErrInvalid)
		assert.Is(t, l.Extend(none, ttl), holdfast.ErrInvalid)
		assert.Is(t, l.Extend(t.Context(), time.Microsecond), holdfast.ErrInvalid)
		assert.True(t, l.Err() == nil && w.net.count("acquire") == 1 && w.net.count("renew") == 0,
			"lease %v, sent %v", l.Err(), w.net.sent)
		release(t, l)
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

func TestALockUnderTheContextOfItsOwnLeaseIsRefusedAsADeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		refused := func(ctx context.Context) {
			t.Helper()
			_, err := a.Mutex("a").Lock(ctx)
			assert.Is(t, err, holdfast.ErrDeadlock)
			_, err = a.Mutex("a").TryLock(ctx)
			assert.Is(t, err, holdfast.ErrDeadlock)
		}
		refused(l.Context())
		child, cancel := context.WithTimeout(l.Context(), time.Second)
		defer cancel()
		refused(child)

		other, err := a.Mutex("b").Lock(l.Context())
		assert.Must(t, err)
		refused(other.Context()) // it is still under both leases
		_, err = b.Mutex("a").TryLock(l.Context())
		assert.Is(t, err, holdfast.ErrHeld) // a lease of another client does not count
		release(t, other)

		ctx := context.WithoutCancel(l.Context())
		release(t, l)
		again, err := a.Mutex("a").Lock(ctx)
		assert.Must(t, err)
		release(t, again)
		err = a.Mutex("a").Do(t.Context(), func(ctx context.Context) error {
			refused(ctx)
			return a.Mutex("b").Do(ctx, func(ctx context.Context) error { refused(ctx); return nil })
		})
		assert.NoError(t, err)
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
