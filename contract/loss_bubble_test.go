// A loss is signalled by the trust deadline, though the machine was suspended (G17), and an eviction by a push or the
// next renewal. No lease is trusted for longer than the server said of it (G2).

package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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

func TestTheCauseOfALeasesContextSaysHowItEnded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		type key struct{}
		c, ops := w.client(), w.client()
		asked, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		l, err := c.Mutex("a").Lock(asked)
		assert.Must(t, err)
		ctx := l.Context()
		cancel()
		assert.True(t, ctx.Err() == nil && ctx.Value(key{}) == "value" && ctx == l.Context(),
			"the context that the lock was taken with gives its values, not its end")
		release(t, l)
		assert.Is(t, ended(ctx), holdfast.ErrReleased)
		assert.Is(t, l.Err(), holdfast.ErrReleased)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrReleased)
		assert.Is(t, l.ReleaseAfter(t.Context(), time.Second), holdfast.ErrReleased)
		assert.Is(t, l.Extend(t.Context(), ttl), holdfast.ErrNotHeld)
		assert.Is(t, ended(l.Context()), holdfast.ErrReleased) // also when first asked for afterwards

		l = mustLock(t, c.Mutex("forgotten"))
		w.Flush()
		wantLost(t, ended(l.Context()), holdfast.LossNotHeld)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld, holdfast.ErrLost)

		l = mustLock(t, c.Mutex("evicted"))
		evict(t, ops, "evicted", 0)
		start := time.Now()
		wantLost(t, ended(l.Context()), holdfast.LossEvicted)
		assert.AtMost(t, time.Since(start), ttl/3, "the evicted holder learned of it after")
		wantLost(t, l.Release(t.Context()), holdfast.LossEvicted)

		l = mustLock(t, c.Mutex("closed"))
		ctx = l.Context()
		assert.NoError(t, c.Close(t.Context()))
		assert.Is(t, ended(ctx), holdfast.ErrClosed)
		assert.Is(t, l.Err(), holdfast.ErrClosed)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrClosed)
	})
}

func TestLeaseContextEndsNoLaterThanItsTrustDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, other := w.client(), w.client()
		l := mustLock(t, c.Mutex("a"))
		time.Sleep(17 * time.Second) // one renewal was confirmed
		end := time.Now().Add(l.Remaining())
		resume := w.Stall()
		wantLost(t, ended(l.Context()), holdfast.LossExpired)
		now := time.Now()
		assert.True(t, !now.After(end) && end.Sub(now) <= time.Millisecond, "lost at %v, trusted until %v", now, end)
		assert.Equal(t, l.Remaining(), 0, "what is left of a lost lease")
		wantLost(t, l.Err(), holdfast.LossExpired)
		resume()
		next := mustLock(t, other.Mutex("a"))
		assert.False(t, time.Now().Before(end), "the next one holds the lock before the lease was lost")
		wantLost(t, l.Release(t.Context()), holdfast.LossExpired)
		assert.True(t, next.Err() == nil && len(w.state("a").Holders) == 1,
			"the late release ended somebody else's lease")
		release(t, next)
	})
}

// A loss says why the last renewal failed. A renewal that was confirmed later ends that.
func TestALossSaysWhyTheLastRenewalFailed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		refusal := &holdfast.ServerError{Code: "MISCONF", Message: "MISCONF cannot save"}
		for _, reason := range []error{refusal, nil} {
			l := mustLock(t, c.Mutex("a"))
			w.FailRequest(only("renew", -1, refusal))
			if reason == nil {
				w.FailRequest(only("renew", 1, refusal))
				time.Sleep(ttl) // the second try was confirmed
				assert.NoError(t, l.Err())
				defer w.Stall()()
			}
			var lost *holdfast.LostError
			err := ended(l.Context())
			assert.MustTrue(t, errors.As(err, &lost) && lost.Reason == holdfast.LossExpired, "lost by %v", err)
			if reason != nil {
				assert.Is(t, lost.Err, refusal)
				assert.Contains(t, err.Error(), "MISCONF cannot save")
				assert.False(t, errors.As(err, new(*holdfast.ServerError)), "the loss is a refusal")
				w.FailRequest(nil)
				_ = l.Release(t.Context())
			} else {
				assert.False(t, errors.As(lost.Err, new(*holdfast.ServerError)), "it says %v", lost.Err)
			}
		}
	})
}

// sleepy is a network whose machine sleeps: its clock counts that, its timers do not.
type sleepy struct {
	*network
	slept atomic.Int64
}

func (s *sleepy) Clock() func() time.Duration {
	now := s.network.Clock()
	return func() time.Duration { return now() + time.Duration(s.slept.Load()) }
}

func (s *sleepy) sleep(d time.Duration) { s.slept.Add(int64(d)) }

// awake makes a client on a machine that may sleep.
func (w *world) awake(cfg holdfast.Config) (*holdfast.Client, *sleepy) {
	w.t.Helper()
	s := &sleepy{network: w.net}
	return w.over(s, cfg), s
}

// closed reports whether the channel is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Timers are late after a suspension, and on a busy machine. A caller that checks the
// lease sees its end all the same, and everything that belongs to the lease has ended.
func TestAfterTheDeadlineTheContextIsDone(t *testing.T) {
	for name, look := range map[string]func(l *holdfast.Lease, ctx context.Context) bool{
		"Err":       func(l *holdfast.Lease, _ context.Context) bool { return l.Err() != nil },
		"Remaining": func(l *holdfast.Lease, _ context.Context) bool { return l.Remaining() == 0 },
		"HoldCount": func(l *holdfast.Lease, _ context.Context) bool { return l.HoldCount() == 0 },
		"ctx.Err":   func(_ *holdfast.Lease, ctx context.Context) bool { return ctx.Err() != nil },
		"ctx.Done":  func(_ *holdfast.Lease, ctx context.Context) bool { return closed(ctx.Done()) },
		"Extend": func(l *holdfast.Lease, _ context.Context) bool {
			return errors.Is(l.Extend(context.Background(), ttl), holdfast.ErrLost)
		},
		"a child made late": func(l *holdfast.Lease, ctx context.Context) bool {
			inner, cancel := context.WithCancel(ctx)
			defer cancel()
			return inner.Err() != nil
		},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			seen := new(recorder)
			c, machine := w.awake(holdfast.Config{Observer: seen})
			l := mustLock(t, c.Mutex("a"))
			ctx := l.Context()
			before, inner := ctx.Done(), make(chan struct{})
			context.AfterFunc(ctx, func() { close(inner) })
			machine.sleep(trusted - time.Nanosecond)
			assert.MustTrue(t, l.Err() == nil && ctx.Err() == nil && !closed(before),
				"the lease ended before its deadline")
			machine.sleep(time.Nanosecond)
			start := time.Now()
			assert.True(t, look(l, ctx), "the end is not seen")
			assert.True(t, closed(before), "the context is not done")
			wantLost(t, context.Cause(ctx), holdfast.LossExpired)
			wantLost(t, l.Err(), holdfast.LossExpired)
			synctest.Wait()
			assert.True(t, closed(inner) && time.Since(start) == 0,
				"what hangs on the context has not ended")
			time.Sleep(time.Second)
			lost := seen.all(observe.EventLost)
			assert.MustTrue(t, len(lost) == 1, "the observer was told of these losses: %v", lost)
			assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
			release(t, mustLock(t, c.Mutex("a"))) // other goroutines may ask the server
		})
	}
}

// The contexts of Do end as those of leases do. The context of several locks ends with
// the first lease that ends.
func TestAfterTheDeadlineTheContextOfDoIsDone(t *testing.T) {
	overdue := func(machine *sleepy) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			before := ctx.Done()
			machine.sleep(trusted - time.Nanosecond)
			if ctx.Err() != nil {
				return errors.New("it ended before its deadline")
			}
			machine.sleep(time.Nanosecond)
			if ctx.Err() == nil || !closed(before) {
				return errors.New("it is not done")
			}
			return context.Cause(ctx)
		}
	}
	bubble(t, func(t *testing.T, w *world) {
		c, machine := w.awake(holdfast.Config{})
		err := c.Mutex("a").Do(t.Context(), overdue(machine))
		wantLost(t, err, holdfast.LossExpired)
		err = c.MultiMutex([]string{"b", "c"}).Do(t.Context(), overdue(machine))
		wantLost(t, err, holdfast.LossExpired)
		l, err := c.MultiMutex([]string{"d", "e"}).Lock(t.Context())
		assert.Must(t, err)
		wantLost(t, overdue(machine)(l.Context()), holdfast.LossExpired)
		wantLost(t, l.Err(), holdfast.LossExpired)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
	})
}

// A lease that a caller has seen as lost remains lost and is reported, whatever answer
// arrives later.
func TestALossThatWasSeenIsNotTakenBackByALateAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		seen := new(recorder)
		c, machine := w.awake(holdfast.Config{Observer: seen})
		l := mustLock(t, c.Mutex("a"))
		w.net.slow(func(action string) (there, back time.Duration) { return 0, 400 * time.Millisecond })
		for w.net.count("renew") == 0 {
			time.Sleep(100 * time.Millisecond)
		}
		machine.sleep(l.Remaining()) // the answer counts from the time of the request
		wantLost(t, l.Err(), holdfast.LossExpired)
		w.net.slow(nil)
		time.Sleep(2 * time.Second)
		wantLost(t, l.Err(), holdfast.LossExpired)
		lost := seen.all(observe.EventLost)
		assert.True(t, len(lost) == 1, "the observer was told of these losses: %v", lost)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
	})
}

// LeaseOf tells what the lease tells, in every function that runs under one and after its
// end, and nothing of a context that belongs to no lease.
func TestAContextTellsItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, ctx := w.client(), t.Context()
		_, ok := holdfast.LeaseOf(ctx)
		assert.True(t, !ok, "a context without a lease tells of one")
		if _, ok := holdfast.LeaseOf(nil); ok { //nolint:staticcheck // that is what is tested
			t.Error("no context tells of a lease")
		}
		l, err := c.Mutex("a").Lock(ctx)
		assert.Must(t, err)
		want := holdfast.LeaseInfo{Name: "a", HolderID: l.HolderID(), Token: l.Token(), Remaining: l.Remaining()}
		got, ok := holdfast.LeaseOf(l.Context())
		assert.True(t, ok && got == want, "%+v %v, want %+v", got, ok, want)
		child, cancel := context.WithCancel(l.Context())
		defer cancel()
		assert.Must(t, l.Release(ctx))
		want.Remaining = 0
		got, ok = holdfast.LeaseOf(child)
		assert.True(t, ok && got == want, "after the release: %+v %v, want %+v", got, ok, want)
		result, err := c.Periodic("job", time.Hour).Do(ctx, func(ctx context.Context) error {
			want, _ = holdfast.LeaseOf(ctx)
			return c.Mutex("job").Do(ctx, func(ctx context.Context) error {
				inner, _ := holdfast.LeaseOf(ctx)
				assert.Equal(t, inner.Others, 1, "locks beside the one with the job's name")
				return nil
			})
		})
		if err != nil || want.Name != "job" || want.Token != result.Token || want.HolderID != result.HolderID ||
			want.Remaining <= 0 {
			t.Errorf("%+v, and the job had %+v: %v", result, want, err)
		}
	})
}

// pushed publishes a grant of the lock to its only waiter, like a server that granted it
// ago before now, for lasts.
func (w *world) pushed(name string, ago, lasts time.Duration) {
	w.t.Helper()
	waiters := w.state(name).Waiters
	assert.MustEqual(w.t, len(waiters), 1, "waiters")
	at := time.Now().Add(-ago)
	w.Publish("holdfast:push:"+waiters[0].ClientID, fmt.Sprintf("granted %s %d 0 %d %d",
		waiters[0].HolderID, at.UnixMicro(), at.UnixMilli(), lasts.Milliseconds()))
}

// A false push, by a script that then failed or by anybody else, is trusted for one round
// trip at most.
func TestAFalsePushDoesDamageForOneRoundTrip(t *testing.T) {
	const trip = 20 * time.Millisecond
	for name, lasts := range map[string]time.Duration{"short": 3 * time.Second, "longer than asked for": time.Hour} {
		runBubble(t, name, func(t *testing.T, w *world) {
			mustLock(t, w.client().Mutex("a"))
			next := w.waiting(w.client().Mutex("a"), t.Context())
			time.Sleep(time.Second)
			w.net.slow(func(string) (there, back time.Duration) { return trip / 2, trip / 2 })
			w.pushed("a", 0, lasts)
			got := <-next
			assert.Must(t, got.err)
			assert.AtMost(t, got.Remaining(), trusted, "trusted for")
			wantLost(t, ended(got.Context()), holdfast.LossNotHeld)
			took := time.Since(got.at)
			assert.True(t, took == trip, "believed for %v, a round trip takes %v", took, trip)
			time.Sleep(trip)
			if s := w.state("a"); len(s.Waiters) != 0 {
				t.Errorf("waiters: %+v", s.Waiters) // its position was cancelled
			}
		})
	}
}

// A pushed lease is short until it is confirmed, and no call waits for that. It counts
// from its grant and not from the last answer.
func TestAPushedLeaseIsShortUntilItIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		mustLock(t, w.client().Mutex("a"))
		next := w.waiting(w.client().Mutex("a"), t.Context())
		time.Sleep(30 * time.Second)
		w.net.slow(slowly("renew", time.Hour, 0))
		w.pushed("a", 100*time.Millisecond, 3*time.Second)
		got := <-next
		// The drift of 30 s, a margin of 32 ms, and 100 ms of latency.
		left := got.Remaining()
		assert.True(t, left >= 2500*time.Millisecond && left <= 2600*time.Millisecond, "trusted for %v", left)
		wantLost(t, ended(got.Context()), holdfast.LossExpired)
		assert.Is(t, got.Release(t.Context()), holdfast.ErrNotHeld)
	})
}

// A confirmation may take as long as a request may. The client sends a second one meanwhile, and the answer to the
// first one counts.
func TestASlowConfirmationIsNoLoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: time.Minute}
		l := mustLock(t, w.client(cfg).Mutex("a"))
		w.net.slow(slowly("renew", 2500*time.Millisecond, 0))
		for range 4 {
			next := w.waiting(w.client(cfg).Mutex("a"), t.Context())
			release(t, l)
			l = (<-next).Lease
			time.Sleep(5 * time.Second)
			assert.True(t, l.Remaining() > 30*time.Second, "a pushed lease is trusted for %v", l.Remaining())
		}
		release(t, l)
	})
}

func TestAPushWithTooLittleTimeLeftIsChecked(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		next := w.waiting(w.client().Mutex("a"), t.Context())
		time.Sleep(10 * time.Second)
		w.DropPushes(1)
		release(t, l)
		time.Sleep(2200 * time.Millisecond)
		w.Publish("holdfast:push:"+w.state("a").Holders[0].ClientID, fmt.Sprintf("granted %s %d 0 %d %d",
			w.state("a").Holders[0].HolderID, w.state("a").Fence>>10, time.Now().UnixMilli()-2200, 3000))
		got := <-next
		assert.MustTrue(t, got.err == nil && got.Remaining() == trusted,
			"%v, trusted for %v", got.err, got.Remaining())
		release(t, got.Lease)
		w.wantFree("a")
	})
}

// C13: a lease without renewal begins with a confirmation.
func TestALeaseWithoutRenewalHasItsWholeTTLWhenLockReturns(t *testing.T) {
	const trip = 20 * time.Millisecond
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		next := w.waiting(w.client().Mutex("a", holdfast.NoRenewal()), t.Context())
		time.Sleep(19 * time.Second) // two thirds of the TTL
		w.net.slow(func(string) (there, back time.Duration) { return trip / 2, trip / 2 })
		release(t, l)
		got := <-next
		assert.True(t, got.err == nil && got.Remaining() == trusted-trip,
			"%v, trusted for %v", got.err, got.Remaining())
		time.Sleep(got.Remaining() - time.Millisecond)
		assert.True(t, got.Err() == nil && w.state("a").Held(), "the lease ended early")
		release(t, got.Lease)
	})
}

// If the confirmation of a lease without renewal gets no answer, it is sent again. If it
// is refused, nothing is held, and the position is cancelled.
func TestAFailedConfirmationOfALeaseWithoutRenewal(t *testing.T) {
	for name, c := range map[string]struct {
		fault   func(w *world)
		refused bool
	}{
		"reply lost":   {func(w *world) { w.LoseReply(only("poll", 1, errLink)) }, false},
		"request lost": {func(w *world) { w.FailRequest(only("poll", 3, errLink)) }, false},
		"away": {func(w *world) {
			w.FailRequest(only("poll", 2, &holdfast.ServerError{Code: "READONLY", Message: "READONLY a replica"}))
		}, false},
		"refused": {func(w *world) { w.FailRequest(only("poll", 1, errNoPerm)) }, true},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			l := mustLock(t, w.client().Mutex("a"))
			next := w.waiting(w.client().Mutex("a", holdfast.NoRenewal()), t.Context())
			time.Sleep(5 * time.Second)
			c.fault(w)
			release(t, l)
			got := <-next
			if c.refused {
				refused := new(holdfast.ServerError)
				assert.True(t, errors.As(got.err, &refused) && refused.Code == "NOPERM", "%v", got.err)
				synctest.Wait()
				w.wantFree("a")
				return
			}
			assert.MustTrue(t, got.err == nil && got.Remaining() == trusted,
				"%v, trusted for %v", got.err, got.Remaining())
			release(t, got.Lease)
			w.wantFree("a")
		})
	}
}

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
			takeAway(t, w.client(), "a", l.Token())
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
				takeAway(t, c, "a", first.Token())
				wantEvicted(t, first.Err())
				second := lock()
				time.Sleep(5 * time.Second)
				takeAway(t, w.client(), "a", 0) // by another process
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
		takeAway(t, w.client(), "a", 0)
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
			takeAway(t, w.over(w.Store, holdfast.Config{}), "a", 0)
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
		takeAway(t, other, "a", 0)
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
