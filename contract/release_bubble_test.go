// A release is robust: it works on a cancelled context, and is repeated while its outcome is unknown (G12). A lost
// reply is no error (G6). The same holds where the end of a context releases, and where a holder shortens its lease.

package contract_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

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

// Calls that come together share requests. Each takes no longer on a silent server than it would alone.
func TestCallsThatShareARequestKeepTheirOwnLimits(t *testing.T) {
	const n = 40
	for _, ttl := range []time.Duration{ttl, 600 * time.Millisecond} {
		bubble(t, func(t *testing.T, w *world) {
			c := w.client(holdfast.Config{RequestTimeout: time.Second})
			limit := min(ttl/3, time.Second)
			mutex := func(i int) *holdfast.Mutex { return c.Mutex(fmt.Sprint(i), holdfast.TTL(ttl)) }
			var leases []*holdfast.Lease
			for i := range n {
				leases = append(leases, mustLock(t, mutex(i)))
			}
			defer w.Stall()()
			for what, call := range map[string]func(i int) error{
				"release": func(i int) error { return leases[i].Release(t.Context()) },
				"try": func(i int) error {
					_, err := mutex(n + i).TryLock(t.Context())
					return err
				},
			} {
				start := time.Now()
				var all sync.WaitGroup
				for i := range n {
					all.Go(func() { assert.Is(t, call(i), holdfast.ErrUnknownOutcome) })
				}
				all.Wait()
				assert.AtMost(t, time.Since(start), limit+100*time.Millisecond, "%s", what)
			}
		})
	}
}

// A release of many locks, or of a leadership, is more than one request.
func TestAReleaseOfSeveralRequestsTakesTheTimeOfOne(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(holdfast.Config{RequestTimeout: time.Second})
		names := make([]string, holdfast.MaxLocks)
		for i := range names {
			names[i] = fmt.Sprint(i)
		}
		several, leader := mustLockAll(t, c.MultiMutex(names)), mustCampaign(t, c.Election("a"), "v")
		bounded := mustCampaign(t, c.Election("b"), "v")
		defer w.Stall()()
		brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		for _, one := range []struct {
			ctx   context.Context
			call  func(context.Context) error
			limit time.Duration
		}{
			{brief, bounded.Release, 100 * time.Millisecond},
			{t.Context(), leader.Release, time.Second},
			{t.Context(), several.Release, 1100 * time.Millisecond}, // they are queued for a moment
		} {
			start := time.Now()
			err := one.call(one.ctx)
			ended := errors.Is(err, context.DeadlineExceeded)
			assert.True(t, errors.Is(err, holdfast.ErrUnknownOutcome) && ended == (one.ctx == brief), "%v", err)
			assert.AtMost(t, time.Since(start), one.limit, "the release took")
		}
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

// A function that runs when a context ends may release a lease of any kind with that context.
func TestTheEndOfAContextReleasesEachKind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		c := w.client()
		mutex := mustLock(t, c.Mutex("m"))
		reader := must(t, c.RWMutex("r").RLock)
		permit := must(t, permits(c.Semaphore("s", 3), 2))
		several, err := c.MultiMutex([]string{"x", "y"}).Lock(t.Context())
		assert.Must(t, err)
		lead, err := c.Election("e").Campaign(t.Context(), "me")
		assert.Must(t, err)
		all := map[string]interface {
			Context() context.Context
			Release(ctx context.Context) error
		}{"m": mutex, "r": reader, "s": permit, "x": several, "e": lead}
		for _, l := range all {
			context.AfterFunc(ctx, func() { assert.NoError(t, l.Release(ctx)) })
		}
		time.Sleep(3 * ttl)
		for name, l := range all {
			assert.True(t, l.Context().Err() == nil && w.state(name).Held(),
				"%s ended before the context: %v", name, context.Cause(l.Context()))
		}
		cancel()
		synctest.Wait()
		for name, l := range all {
			assert.Is(t, context.Cause(l.Context()), holdfast.ErrReleased)
			w.wantFree(name)
		}
	})
}

// A lease may be released when the context of another one ends, or its own.
func TestALeaseMayWaitForAContextOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		outer := mustLock(t, c.Mutex("outer"))
		inner, err := c.Mutex("inner").Lock(outer.Context())
		assert.Must(t, err)
		context.AfterFunc(outer.Context(), func() { assert.NoError(t, inner.Release(outer.Context())) })
		context.AfterFunc(outer.Context(), func() {
			assert.Is(t, outer.Release(outer.Context()), holdfast.ErrReleased)
		})
		release(t, outer)
		synctest.Wait()
		assert.Is(t, inner.Err(), holdfast.ErrReleased)
		w.wantFree("outer")
		w.wantFree("inner")
	})
}

const short = 3 * time.Second

// The lease gets shorter for its user before anything is sent, and on the server. The
// renewals keep it alive, and a crash frees the lock that soon.
func TestAShortenedLeaseIsRenewedAndEndsSoonAfterACrash(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, other := w.client(), w.client()
		l := mustLock(t, c.Mutex("a"))
		token := l.Token()
		assert.Must(t, l.Shorten(t.Context(), short))
		assert.Equal(t, w.state("a").Holders[0].Remaining, short, "what is left on the server")
		assert.True(t, l.Remaining() < short && l.Remaining() >= short*9/10 && l.Token() == token,
			"%v are left for its user, token %d", l.Remaining(), l.Token())
		time.Sleep(2 * ttl)
		if l.Err() != nil || w.state("a").Holders[0].Remaining > short {
			t.Errorf("%v, %+v", l.Err(), w.state("a"))
		}
		assert.Is(t, l.Extend(t.Context(), ttl), holdfast.ErrInvalid)
		assert.NoError(t, l.Extend(t.Context(), short))
		c.Abandon()
		start := time.Now()
		release(t, mustLock(t, other.Mutex("a")))
		assert.AtMost(t, time.Since(start), short+50*time.Millisecond, "the lock was free after")
	})
}

// No reply comes. The server may have shortened the lease or not: the user trusts the shorter
// time in both cases, and a copy that runs late harms nobody.
func TestAShorteningWithoutAReplyStandsForItsUser(t *testing.T) {
	for name, fault := range map[string]func(*world) func(func(string, []string) error){
		"the request is lost": func(w *world) func(func(string, []string) error) { return w.FailRequest },
		"the reply is lost":   func(w *world) func(func(string, []string) error) { return w.LoseReply },
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			l := mustLock(t, w.client().Mutex("a"))
			fault(w)(only("lessen", 2, errLink))
			assert.Is(t, l.Shorten(t.Context(), short), holdfast.ErrUnknownOutcome)
			assert.True(t, l.Err() == nil && l.Remaining() < short, "%v, for %v", l.Err(), l.Remaining())
			time.Sleep(ttl)
			assert.NoError(t, l.Err())
			assert.NoError(t, l.Shorten(t.Context(), short))
			release(t, l)
		})
	}
}

// A renewal under way has asked for the old TTL. It arrives first, and the lease is short.
func TestAShorteningWaitsForARenewalUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		w.net.slow(func(action string) (time.Duration, time.Duration) {
			if action == "renew" {
				return 800 * time.Millisecond, 100 * time.Millisecond
			}
			return time.Millisecond, time.Millisecond
		})
		time.Sleep(ttl / 3)
		assert.Must(t, l.Shorten(t.Context(), short))
		assert.MustEqual(t, w.net.count("renew"), 1, "renewals under way")
		assert.AtMost(t, w.state("a").Holders[0].Remaining, short, "what is left on the server")
		limited, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		time.Sleep(short/3 - 200*time.Millisecond) // the next renewal is under way
		assert.Is(t, l.Shorten(limited, short), context.DeadlineExceeded)
		release(t, l)
	})
}

// An extension or a conversion that is under way asks for more than Shorten allows. When it has its
// answer, the lease on the server is shortened again.
func TestAShorteningOutlastsARequestUnderWay(t *testing.T) {
	for what, call := range map[string]func(l *holdfast.Lease) error{
		"convert": func(l *holdfast.Lease) error { return l.Downgrade(context.Background()) },
		"renew": func(l *holdfast.Lease) error {
			if err := l.Extend(context.Background(), time.Minute); !errors.Is(err, holdfast.ErrInvalid) {
				return fmt.Errorf("extended past a shortening: %w", err)
			}
			return nil
		},
	} {
		runBubble(t, what, func(t *testing.T, w *world) {
			l := must(t, w.client().RWMutex("a").Lock)
			w.net.slow(func(action string) (there, back time.Duration) {
				if action == what {
					return 100 * time.Millisecond, 0
				}
				return 0, 0
			})
			called := make(chan error)
			go func() { called <- call(l) }()
			synctest.Wait()
			assert.Must(t, l.Shorten(t.Context(), time.Second))
			assert.NoError(t, <-called)
			assert.AtMost(t, w.state("a").Holders[0].Remaining, time.Second, "the server keeps the lease for")
			release(t, l)
		})
	}
}

func TestALeaseIsNotShortenedWhereOthersTrustIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLock(t, c.Mutex("a", holdfast.Owner("order/42")))
		before := l.Remaining()
		assert.Is(t, l.Shorten(t.Context(), short), holdfast.ErrInvalid)
		assert.True(t, l.Remaining() == before && w.net.count("lessen") == 0,
			"it changed: %v, %d requests", l.Remaining(), w.net.count("lessen"))
		release(t, l)
		gone := mustLock(t, c.Mutex("b"))
		release(t, gone)
		assert.Is(t, gone.Shorten(t.Context(), short), holdfast.ErrNotHeld)
		lost := mustLock(t, c.Mutex("b"))
		w.Flush()
		assert.Is(t, lost.Shorten(t.Context(), short), holdfast.ErrNotHeld, holdfast.ErrLost)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		whole := mustLock(t, c.Mutex("c"))
		before = whole.Remaining()
		assert.Is(t, whole.Shorten(over, short), context.Canceled)
		assert.Equal(t, whole.Remaining(), before, "a call that sent nothing has shortened the lease")
	})
}

// The next goroutine of the process has a lease of its own: it may extend it.
func TestAShortenedHoldIsHandedOverToNobody(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLock(t, c.Mutex("a"))
		next := w.waiting(c.Mutex("a"), t.Context())
		assert.Must(t, l.Shorten(t.Context(), ttl))
		release(t, l)
		got := <-next
		assert.Must(t, got.err)
		assert.NoError(t, keep(got.Lease).Extend(t.Context(), 2*ttl))
		release(t, got.Lease)

		rw := c.RWMutex("r")
		reader := must(t, rw.RLock)
		assert.Must(t, keep(reader).Shorten(t.Context(), short))
		second := must(t, rw.RLock)
		assert.True(t, keep(second).HolderID() != reader.HolderID() && second.Remaining() > short,
			"a reader joined a shortened hold: %v", second.Remaining())
		release(t, second)
		err := reader.Upgrade(t.Context())
		assert.True(t, err == nil && reader.Remaining() <= short, "upgraded: %v, for %v", err, reader.Remaining())
		err = reader.Downgrade(t.Context())
		assert.True(t, err == nil && reader.Remaining() <= short, "downgraded: %v, for %v", err, reader.Remaining())
		release(t, reader)
		w.wantFree("r")
	})
}

func TestSeveralLocksAreShortenedTogether(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, err := w.client().MultiMutex([]string{"a", "b"}).Lock(t.Context())
		assert.Must(t, err)
		err = l.Shorten(t.Context(), short)
		assert.True(t, err == nil && l.Remaining() < short, "%v, for %v", err, l.Remaining())
		for _, name := range l.Names() {
			left := w.state(name).Holders[0].Remaining
			assert.True(t, left == short, "%s: %v on the server", name, left)
		}
		assert.NoError(t, l.Release(t.Context()))
		assert.Is(t, l.Shorten(t.Context(), short), holdfast.ErrNotHeld)
	})
}

// A lease is gone, and the server is too slow to say why. The call returns when its context ends.
func TestACallOnALeaseThatIsGoneEndsWithItsContext(t *testing.T) {
	for name, call := range map[string]func(*holdfast.Lease, context.Context) error{
		"shorten":   func(l *holdfast.Lease, ctx context.Context) error { return l.Shorten(ctx, ttl/2) },
		"downgrade": (*holdfast.Lease).Downgrade,
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			l := must(t, w.client().RWMutex("a").Lock)
			w.Flush()
			w.net.slow(func(action string) (there, back time.Duration) {
				if action == "inspect" {
					there = time.Second
				}
				return there, 0
			})
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			start := time.Now()
			assert.Is(t, call(l, ctx), holdfast.ErrNotHeld)
			assert.Equal(t, time.Since(start), time.Millisecond, "returned after")
		})
	}
}
