package contract_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
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
		end := l.Deadline()
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

func TestALostLeaseThatTheServerStillKnowsIsFreedByItsRelease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		w.LoseReply(only("renew", -1, errLink)) // requests arrive, and replies do not
		wantLost(t, ended(l.Context()), holdfast.LossExpired)
		assert.MustTrue(t, w.state("a").Held(), "the server should believe that it is held")
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
		synctest.Wait()
		w.wantFree("a")
	})
}

func TestReleaseSurvivesACancelledContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		assert.NoError(t, l.Release(over))
		w.wantFree("a")
	})
}

func TestALostReplyToAReleaseIsNoError(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		w.LoseReply(only("release", 1, errLink))
		release(t, l)
		assert.Equal(t, w.net.count("release"), 2, "requests that released")
		w.wantFree("a")
	})
}

func TestAReleaseThatFailsIsRepeatedInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		w.FailRequest(only("release", -1, errLink))
		err := l.Release(t.Context())
		assert.Is(t, err, holdfast.ErrUnknownOutcome, errLink)
		assert.False(t, errors.Is(err, holdfast.ErrNotHeld), "got %v", err)
		synctest.Wait()
		w.wantFree("a")
	})
}

func TestARefusedReleaseSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		w.FailRequest(only("release", -1, &holdfast.ServerError{Code: "NOPERM", Message: "NOPERM no"}))
		var refused *holdfast.ServerError
		err := l.Release(t.Context())
		if !errors.As(err, &refused) || refused.Code != "NOPERM" || errors.Is(err, holdfast.ErrUnknownOutcome) {
			t.Errorf("got %v", err)
		}
		assert.Equal(t, w.net.count("release"), 1, "a refusal was asked for again")
	})
}

func TestARenewalThatIsNotAnsweredDoesNotDelayARelease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		w.net.slow(slowly("renew", time.Second, time.Hour))
		time.Sleep(ttl / 3)
		synctest.Wait()
		start := time.Now()
		release(t, l)
		assert.Equal(t, time.Since(start), 0, "the release took")
		time.Sleep(2 * time.Second) // the renewal arrives after the release
		w.wantFree("a")
	})
}

func TestExtendMovesTheDeadlineAndEveryLaterRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		assert.Must(t, l.Extend(t.Context(), time.Hour))
		if l.Remaining() < 59*time.Minute || w.state("a").Holders[0].Remaining != time.Hour {
			t.Errorf("%v are left, the server says %v", l.Remaining(), w.state("a").Holders[0].Remaining)
		}
		renewals := w.net.count("renew")
		time.Sleep(3*time.Hour - time.Second) // no renewal is at this time
		if n := w.net.count("renew") - renewals; n > 12 || l.Remaining() < 30*time.Minute {
			t.Errorf("%d renewals in three hours, %v left", n, l.Remaining())
		}
		before := l.Remaining()
		if err := l.Extend(t.Context(), time.Second); err != nil || l.Remaining() != before {
			t.Errorf("extended to less: %v, %v left of %v", err, l.Remaining(), before)
		}
		time.Sleep(2 * time.Hour)
		assert.NoError(t, l.Err())
		release(t, l)
	})
}

func TestALeaseWithoutRenewalEndsWithItsTTL(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		start := time.Now()
		l := mustLock(t, c.Mutex("a", holdfast.NoRenewal(), holdfast.TTL(10*time.Second)))
		wantLost(t, ended(l.Context()), holdfast.LossExpired)
		if held := time.Since(start); held != 10*time.Second-102*time.Millisecond || w.net.count("renew") != 0 {
			t.Errorf("held for %v with %d renewals", held, w.net.count("renew"))
		}
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)

		l = mustLock(t, c.Mutex("a", holdfast.NoRenewal()))
		for range 5 {
			time.Sleep(ttl / 2)
			assert.Must(t, l.Extend(t.Context(), ttl))
		}
		assert.True(t, w.net.count("renew") == 5 && l.Remaining() == trusted,
			"%d renewals, %v left", w.net.count("renew"), l.Remaining())
		release(t, l)
	})
}

func TestReleaseAfterKeepsEverybodyOutForTheDelay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		assert.Must(t, l.ReleaseAfter(over, time.Minute))
		assert.Is(t, ended(l.Context()), holdfast.ErrReleased)
		for _, c := range []*holdfast.Client{a, b} {
			_, err := c.Mutex("a").TryLock(t.Context())
			assert.Is(t, err, holdfast.ErrHeld)
		}
		next := mustLock(t, b.Mutex("a"))
		if waited := time.Since(start); waited < time.Minute || waited > time.Minute+time.Second {
			t.Errorf("the next one came after %v", waited)
		}
		release(t, next)

		l = mustLock(t, a.Mutex("a"))
		assert.NoError(t, l.ReleaseAfter(t.Context(), 0))
		w.wantFree("a")
	})
}
