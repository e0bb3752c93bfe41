// Permits come back, and the limit is agreed on (G28).

package contract_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// wantLimit asserts that err says which limits differ.
func wantLimit(t *testing.T, err error, inUse, asked int) {
	t.Helper()
	var limit *holdfast.MismatchError
	if !errors.Is(err, holdfast.ErrLimit) || !errors.As(err, &limit) || limit.Got != inUse || limit.Want != asked {
		t.Errorf("error %v is no conflict of %d in use and %d asked for", err, inUse, asked)
	}
}

func TestPermitsAreNeverMoreThanTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.net.slow(func(string) (there, back time.Duration) { return 100 * time.Microsecond, 100 * time.Microsecond })
		var held, most atomic.Int64
		var all sync.WaitGroup
		clients := []*holdfast.Client{w.client(), w.client(), w.client()}
		for i := range 60 {
			all.Go(func() {
				n := i%4 + 1
				err := clients[i%3].Semaphore("a", 5).Do(t.Context(), n, func(context.Context) error {
					now := held.Add(int64(n))
					for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
					}
					time.Sleep(time.Millisecond)
					held.Add(int64(-n))
					return nil
				})
				assert.NoError(t, err)
			})
		}
		all.Wait()
		assert.Equal(t, most.Load(), 5, "permits held at a time")
		w.wantFree("a")
	})
}

func TestABigRequestIsNotStarvedBySmallOnes(t *testing.T) {
	for name, elsewhere := range map[string]bool{"in one process": false, "of another process": true} {
		runBubble(t, name, func(t *testing.T, w *world) {
			small := w.client()
			big := small
			if elsewhere {
				big = w.client()
			}
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					time.Sleep(time.Duration(i) * 2 * time.Millisecond)
					for ctx.Err() == nil {
						l := must(t, permits(small.Semaphore("a", 4), 1))
						time.Sleep(10 * time.Millisecond)
						release(t, l)
					}
				})
			}
			for range 20 {
				time.Sleep(15 * time.Millisecond)
				start := time.Now()
				l := must(t, permits(big.Semaphore("a", 4), 4))
				assert.AtMost(t, time.Since(start), 50*time.Millisecond, "the big one waited")
				release(t, l)
			}
			cancel()
			all.Wait()
		})
	}
}

func TestAProcessWaitsForPermitsAsOneAndServesItsGoroutinesInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		full := must(t, permits(w.client().Semaphore("a", 2), 2))
		var waiting []<-chan outcome
		for range 5 {
			waiting = append(waiting, taking(t, permits(c.Semaphore("a", 2), 2)))
		}
		assert.Equal(t, len(w.state("a").Waiters), 1, "waiters at the server")
		_, err := c.Semaphore("a", 2).TryAcquire(t.Context(), 1)
		assert.Is(t, err, holdfast.ErrHeld)
		release(t, full)
		for i, ch := range waiting {
			l := done(t, "the first waiter", ch)
			for _, ch := range waiting[i+1:] {
				waits(t, "one behind", ch)
			}
			release(t, l)
		}
		w.wantFree("a")
	})
}

func TestTriesForPermitsDoNotKeepEachOtherOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.net.slow(func(string) (there, back time.Duration) { return time.Millisecond, time.Millisecond })
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				assert.NoError(t, assert.Err(c.Semaphore("a", 10).TryAcquire(t.Context(), 1)))
			})
		}
		all.Wait()
		_, err := c.Semaphore("a", 10).TryAcquire(t.Context(), 1)
		assert.Is(t, err, holdfast.ErrHeld)
	})
}

func TestPermitsOfACrashedHolderComeBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		dead, alive := w.client(), w.client()
		must(t, permits(dead.Semaphore("a", 3), 2))
		l := must(t, permits(alive.Semaphore("a", 3), 1))
		time.Sleep(time.Minute)
		dead.Abandon()
		start := time.Now()
		big := must(t, permits(alive.Semaphore("a", 3), 2))
		waited := time.Since(start)
		assert.True(t, waited <= ttl+time.Second && l.Err() == nil, "waited %v, the other lease: %v", waited, l.Err())
		release(t, l)
		release(t, big)
		w.wantFree("a")
	})
}

func TestARaisedLimitGrantsWaitersAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client().Semaphore("a", 2), w.client().Semaphore("a", 2)
		first := must(t, permits(a, 2))
		next := taking(t, permits(b, 2))
		acquires := w.net.count("acquire")
		assert.Must(t, a.SetLimit(t.Context(), 4))
		second := done(t, "the waiter", next)
		assert.Equal(t, w.net.count("acquire"), acquires, "the waiter had to ask")
		_, err := b.TryAcquire(t.Context(), 1)
		wantLimit(t, err, 4, 2)
		_, err = a.TryAcquire(t.Context(), 1)
		assert.Is(t, err, holdfast.ErrHeld)
		release(t, first)
		release(t, second)
	})
}

func TestALoweredLimitTakesNoPermitAway(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		a := c.Semaphore("a", 4)
		first, second := must(t, permits(a, 2)), must(t, permits(a, 2))
		small := taking(t, permits(w.client().Semaphore("a", 4), 1))
		assert.Must(t, a.SetLimit(t.Context(), 2))
		assert.True(t, first.Err() == nil && second.Err() == nil && len(w.state("a").Holders) == 2,
			"the holders: %v, %v", first.Err(), second.Err())
		release(t, first)
		waits(t, "a waiter while all permits are held", small)
		release(t, second)
		release(t, done(t, "the waiter", small))
		// An idle semaphore has no limit to change; the next request of this process sets
		// it.
		assert.Must(t, a.SetLimit(t.Context(), 3))
		release(t, must(t, permits(a, 3)))
	})
}

func TestAvailableCountsWhatNobodyHolds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client().Semaphore("a", 5), w.client().Semaphore("a", 7)
		available := func(what string, s *holdfast.Semaphore, want int) {
			t.Helper()
			n, err := s.Available(t.Context())
			assert.True(t, err == nil && n == want, "%s: %d, want %d; %v", what, n, want, err)
		}
		available("nobody has used it", b, 7)
		first, second := must(t, permits(a, 2)), must(t, permits(a, 3))
		available("all are held", a, 0)
		release(t, first)
		available("two came back", a, 2)
		available("with another limit than the server's", b, 2)
		assert.Must(t, a.SetLimit(t.Context(), 1))
		available("more are held than there are", a, 0)
		time.Sleep(ttl / 2)
		release(t, second)
		available("all came back", a, 1)

		w.Stall()
		assert.Is(t, assert.Err(a.Available(t.Context())), holdfast.ErrUnknownOutcome)
	})
}

func TestAWaiterForMoreThanThereAreNowIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.client().Semaphore("a", 4), w.client().Semaphore("a", 4), w.client().Semaphore("a", 4)
		l := must(t, permits(a, 4))
		big, small := taking(t, permits(b, 3)), taking(t, permits(c, 1))
		assert.Must(t, a.SetLimit(t.Context(), 2))
		release(t, l)
		release(t, done(t, "the one behind it", small))
		must(t, permits(a, 2))
		got := <-big
		wantLimit(t, got.err, 2, 4)
		s := w.state("a")
		assert.True(t, len(s.Waiters) == 0, "waiters %v", s.Waiters)
	})
}

func TestImpossiblePermitsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		s := c.Semaphore("a", 3)
		for _, n := range []int{0, -1, 4} {
			_, err := s.Acquire(t.Context(), n)
			assert.Is(t, err, holdfast.ErrInvalid)
			_, err = s.TryAcquire(t.Context(), n)
			assert.Is(t, err, holdfast.ErrInvalid)
		}
		for _, limit := range []int{0, -1, 1 << 31} {
			_, err := c.Semaphore("a", limit).Acquire(t.Context(), 1)
			assert.Is(t, err, holdfast.ErrInvalid)
			if limit != 0 { // 0 drains
				assert.Is(t, s.SetLimit(t.Context(), limit), holdfast.ErrInvalid)
			}
		}
		for _, n := range []int{0, -1, 1 << 31, math.MaxInt} { // more than any limit
			_, err := c.Semaphore("a", 3, holdfast.ServerLimit()).Acquire(t.Context(), n)
			assert.Is(t, err, holdfast.ErrInvalid)
		}
		assert.Equal(t, len(w.net.sent), 0, "requests")
		release(t, must(t, permits(s, 3))) // the limit is what it was
	})
}

func TestWaitersForPermitsThatGiveUpLetTheNextAsk(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := must(t, permits(w.client().Semaphore("a", 1), 1))
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5-i)*time.Second)
				defer cancel()
				_, err := c.Semaphore("a", 1).Acquire(ctx, 1)
				assert.Is(t, err, context.DeadlineExceeded)
			})
			synctest.Wait()
		}
		last := taking(t, permits(c.Semaphore("a", 1), 1))
		all.Wait()
		release(t, l)
		release(t, done(t, "the last one", last))
		w.wantFree("a")
	})
}

// The permits come back in one request, which may be repeated, and the waiter that fits gets
// them by the same step.
func TestPermitsAreGivenBackInPart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.client().Semaphore("a", 5)
		l := must(t, permits(s, 5))
		token := l.Token()
		next := make(chan error, 1)
		go func() {
			got, err := w.client().Semaphore("a", 5).Acquire(t.Context(), 2)
			keep(got)
			next <- err
		}()
		synctest.Wait()
		start := time.Now()
		assert.Must(t, errors.Join(l.KeepPermits(t.Context(), 3), <-next))
		assert.AtMost(t, time.Since(start), time.Millisecond, "the waiter had to wait for")
		state := w.state("a")
		assert.True(t, len(state.Holders) == 2 && state.Holders[0].Permits == 3 && l.Token() == token,
			"%+v", state.Holders)
		assert.NoError(t, l.KeepPermits(t.Context(), 3))
		if n, err := s.Available(t.Context()); err != nil || n != 0 {
			t.Errorf("%d available, %v", n, err)
		}
		// The lease's own permits count for what its user may still wait for.
		if inner, err := s.TryAcquire(l.Context(), 2); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("%v, %v", inner, err)
		}
		_, err := s.Acquire(l.Context(), 3)
		assert.Is(t, err, holdfast.ErrDeadlock)
		for _, n := range []int{-1, 0, 4, 6} {
			assert.Is(t, l.KeepPermits(t.Context(), n), holdfast.ErrInvalid)
		}
		assert.Is(t, mustLock(t, w.client().Mutex("m")).KeepPermits(t.Context(), 1), holdfast.ErrInvalid)
		time.Sleep(3 * ttl)
		release(t, l)
		assert.Is(t, l.KeepPermits(t.Context(), 1), holdfast.ErrNotHeld)
	})
}

// A semaphore and a mutex of one name are one lock.
func TestPermitsUnderAnotherKindOfTheirLockAreADeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		for kind, acquire := range map[string]func(context.Context) (*holdfast.Lease, error){
			"mutex": c.Mutex("a").Lock, "reader": c.RWMutex("a").RLock, "writer": c.RWMutex("a").Lock,
		} {
			l := must(t, acquire)
			ctx, cancel := context.WithTimeout(l.Context(), time.Minute)
			for _, s := range []*holdfast.Semaphore{c.Semaphore("a", 3), c.Semaphore("a", 3, holdfast.ServerLimit())} {
				_, err := s.Acquire(ctx, 1)
				assert.True(t, errors.Is(err, holdfast.ErrDeadlock), "under the lease of a %s: %v", kind, err)
				err = s.AwaitFree(ctx, 1)
				assert.True(t, errors.Is(err, holdfast.ErrDeadlock), "a wait under the lease of a %s: %v", kind, err)
			}
			cancel()
			release(t, l)
		}
		l := must(t, permits(c.Semaphore("a", 3), 1))
		assert.Is(t, c.RWMutex("a").AwaitReadable(l.Context()), holdfast.ErrDeadlock) // as RLock
		release(t, l)
	})
}

// With ServerLimit the client does not know how many permits there are. BreakDeadlock reads it on the server.
func TestAWaitForPermitsBesideOnesOwnIsFoundWithTheServersLimit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, must(t, permits(c.Semaphore("a", 3), 1)))
		s := c.Semaphore("a", 8, holdfast.ServerLimit(), holdfast.BreakDeadlock(), holdfast.MaxWait(time.Minute))
		l := must(t, permits(s, 2))
		_, err := s.Acquire(l.Context(), 2)
		assert.Is(t, err, holdfast.ErrDeadlock)
		release(t, must(t, permits(s, 1)))
		assert.NoError(t, l.Err())
	})
}

// No reply comes. The client repeats the request in the background, so that the permits do
// not stay taken for as long as the lease is renewed.
func TestPermitsWithoutAReplyComeBackInTheBackground(t *testing.T) {
	for name, fault := range map[string]func(*world) func(func(string, []string) error){
		"the request is lost": func(w *world) func(func(string, []string) error) { return w.FailRequest },
		"the reply is lost":   func(w *world) func(func(string, []string) error) { return w.LoseReply },
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			s := w.client().Semaphore("a", 5)
			l := must(t, permits(s, 5))
			fault(w)(only("lessen", 4, errLink))
			assert.Is(t, l.KeepPermits(t.Context(), 1), holdfast.ErrUnknownOutcome)
			time.Sleep(ttl / 2)
			state := w.state("a")
			assert.True(t, state.Holders[0].Permits == 1, "%+v", state.Holders)
			assert.Is(t, l.KeepPermits(t.Context(), 2), holdfast.ErrInvalid)
			release(t, l)
		})
	}
}

// Old and new programs run beside each other: they take the limit of the server, and SetLimit changes it.
func TestProgramsWithTheServersLimitWorkBesideEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		older := w.client().Semaphore("pool", 2, holdfast.ServerLimit())
		newer := w.client().Semaphore("pool", 3, holdfast.ServerLimit())
		plain := w.client().Semaphore("pool", 3)
		one, err := older.Acquire(t.Context(), 2)
		assert.Must(t, err)
		assert.Is(t, assert.Err(newer.TryAcquire(t.Context(), 1)), holdfast.ErrHeld)
		assert.Is(t, assert.Err(plain.TryAcquire(t.Context(), 1)), holdfast.ErrLimit)
		assert.Is(t, assert.Err(newer.TryAcquire(t.Context(), 3)), holdfast.ErrInvalid)
		assert.Must(t, newer.SetLimit(t.Context(), 3))
		two, err := older.TryAcquire(t.Context(), 1)
		assert.Must(t, err)
		release(t, one)
		release(t, two)

		// A limit that was left, or was set while nobody was there, counts too. So does it a month later.
		time.Sleep(29 * 24 * time.Hour)
		three, err := older.TryAcquire(t.Context(), 3)
		assert.Must(t, err)
		release(t, three)
		time.Sleep(31 * 24 * time.Hour)
		assert.Is(t, assert.Err(older.TryAcquire(t.Context(), 3)), holdfast.ErrInvalid) // forgotten
	})
}

// A drained semaphore gives no permit to anybody, whatever limit a client has. Everybody waits.
func TestADrainedSemaphoreGivesNoPermit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s, taker := w.client().Semaphore("pool", 2), w.client().Semaphore("pool", 5, holdfast.ServerLimit())
		held, err := s.Acquire(t.Context(), 1)
		assert.Must(t, err)
		assert.Must(t, s.SetLimit(t.Context(), 0))
		got := make(chan error, 3)
		for _, wait := range []func() error{
			func() error { return s.Do(t.Context(), 1, func(context.Context) error { return nil }) },
			func() error { return taker.Do(t.Context(), 1, func(context.Context) error { return nil }) },
			func() error { return s.AwaitFree(t.Context(), 1) },
		} {
			go func() { got <- wait() }()
		}
		time.Sleep(time.Minute)
		assert.NoError(t, held.Err())
		release(t, held)
		before := w.net.count("poll") + w.net.count("await_free")
		time.Sleep(time.Minute)
		assert.Equal(t, len(got), 0, "permits while the semaphore is drained")
		assert.Is(t, assert.Err(s.TryAcquire(t.Context(), 1)), holdfast.ErrHeld)
		free, err := s.Available(t.Context())
		assert.True(t, free == 0 && err == nil, "available: %d, %v", free, err)
		info, err := w.client().Inspect(t.Context(), "pool")
		assert.True(t, info.Drained && info.Limit == 0 && info.Waiting == 2 && err == nil, "%+v, %v", info, err)
		polls := w.net.count("poll") + w.net.count("await_free") - before
		assert.AtMost(t, polls, 3*80, "requests of three waiters in a minute")
		assert.Must(t, taker.SetLimit(t.Context(), 2))
		for range 3 {
			assert.NoError(t, <-got)
		}
	})
}
