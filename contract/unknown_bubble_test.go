// An acquisition of unknown outcome is cancelled, even if it arrives after its cancel (G7).

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
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/script"
)

func TestAnAcquisitionThatArrivesAfterItsCancelIsCancelledToo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		w.net.slow(slowly("acquire", 10*time.Second, 0)) // the caller gives up after 3s
		start := time.Now()
		_, err := c.Mutex("a").TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrUnknownOutcome)
		assert.False(t, errors.Is(err, context.DeadlineExceeded), "no context of the caller's has ended: %v", err)
		assert.Equal(t, time.Since(start), 3*time.Second, "the request was given")
		time.Sleep(7*time.Second + time.Millisecond)
		synctest.Wait()
		assert.MustTrue(t, w.state("a").Fence != 0, "the request has not arrived")
		time.Sleep(time.Second + time.Second/2) // the longest pause between two cancels
		w.wantFree("a")
	})
}

// A proxy passes a request on, and answers in place of the server. Nothing stays held, and the next try may succeed.
func TestAnAnswerOfAProxyIsAnUnknownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		proxys := &holdfast.ServerError{Code: "ERR", Message: "ERR upstream failure", MayHaveRun: true}
		lose := func(action string, times int) { w.LoseReply(only(action, times, proxys)) }
		lose("acquire", -1)
		_, err := c.Mutex("a").TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrUnknownOutcome)
		assert.Contains(t, holdfast.Hint(err), "in front of the server")
		time.Sleep(time.Second)
		w.wantFree("a")

		for _, lock := range []func(context.Context) (*holdfast.Lease, error){
			c.Mutex("a").TryLock, c.Mutex("a").Lock, c.RWMutex("a").RLock,
		} {
			lose("acquire", 1)
			start := time.Now()
			l := must(t, lock)
			assert.AtMost(t, time.Since(start), time.Second, "the wait")
			lose("renew", 1)
			time.Sleep(ttl)
			assert.NoError(t, l.Err())
			lose("release", 1)
			release(t, l)
			time.Sleep(time.Second)
			w.wantFree("a")
		}
	})
}

func TestAnAcquisitionThatAStoppedServerGrantsLaterIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		grantedLater(w, 5*time.Minute, func() {
			assert.Is(t, assert.Err(c.Mutex("a").TryLock(t.Context())), holdfast.ErrUnknownOutcome)
		})
		assert.MustTrue(t, w.state("a").Fence != 0, "the request has not arrived")
		w.wantFree("a")
	})
}

func TestAPositionThatAStoppedServerGivesLaterIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, c := w.client(holdfast.Config{TTL: time.Hour}), w.client()
		held := mustLock(t, a.Mutex("a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		<-w.waiting(c.Mutex("a"), ctx) // subscribes
		cancel()
		grantedLater(w, 5*time.Minute, func() {
			over, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			assert.Is(t, assert.Err(c.Mutex("a").Lock(over)), holdfast.ErrUnknownOutcome)
		})
		s := w.state("a")
		assert.True(t, len(s.Waiters) == 0, "waiters: %+v", s.Waiters)
		release(t, held)
		w.wantFree("a")
	})
}

// The network may carry a request to the server after its cancels, when it carries anything again.
func TestAnAcquisitionThatIsLateAfterAnOutageIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		resume := w.Stall()
		w.net.slow(slowly("acquire", 2*time.Minute+ttl/2, 0))
		assert.Is(t, assert.Err(c.Mutex("a").TryLock(t.Context())), holdfast.ErrUnknownOutcome)
		w.net.slow(nil)
		time.Sleep(2*time.Minute - 3*time.Second)
		resume()
		time.Sleep(ttl / 2)
		synctest.Wait()
		assert.MustTrue(t, w.state("a").Fence != 0, "the request has not arrived")
		time.Sleep(2 * time.Second)
		w.wantFree("a")
	})
}

func TestAnAnswerThatComesTooLateIsNotTrusted(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.client(holdfast.Config{TTL: time.Second, RequestTimeout: 500 * time.Millisecond})
		b := w.client()
		short := a.Mutex("a", holdfast.TTL(400*time.Millisecond))
		release(t, mustLock(t, short))
		w.net.slow(slowly("acquire", 0, 450*time.Millisecond))
		l, err := short.Lock(t.Context())
		wantLost(t, err, holdfast.LossExpired)
		assert.True(t, l == nil, "a lease that is over was handed out")
		w.net.slow(nil)
		release(t, mustLock(t, b.Mutex("a")))
		synctest.Wait()
		w.wantFree("a")
	})
}

func TestALeaseIsCountedFromBeforeItsRequest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.net.slow(slowly("acquire", time.Second, time.Second))
		l := mustLock(t, c.Mutex("a"))
		assert.Equal(t, l.Remaining(), trusted-2*time.Second, "what is left after a request of 2s")
		release(t, l)
	})
}

func TestAContextThatEndsDuringTheRequestCancelsIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		w.net.slow(slowly("acquire", time.Second, 0))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := c.Mutex("a").Lock(ctx)
		assert.Is(t, err, context.DeadlineExceeded, holdfast.ErrUnknownOutcome)
		time.Sleep(10 * time.Second)
		w.wantFree("a")
	})
}

func TestAnAnswerOfAnotherProtocolIsAnUnknownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		strange := &babbler{network: w.net}
		c := w.over(strange, holdfast.Config{})
		l := mustLock(t, c.Mutex("a"))
		for _, answer := range []string{"OK", "renewed", "gone x", "withdrawn"} {
			strange.say(answer)
			_, err := c.Mutex("b").Lock(t.Context())
			assert.Is(t, err, holdfast.ErrUnknownOutcome)
			assert.Is(t, l.Extend(t.Context(), ttl), holdfast.ErrUnknownOutcome)
			_, err = c.Inspect(t.Context(), "b")
			assert.Is(t, err, holdfast.ErrUnknownOutcome)
		}
		assert.True(t, l.Err() == nil, "nonsense ended a lease")
		assert.Is(t, l.Release(t.Context()), holdfast.ErrUnknownOutcome)
		strange.say("")
		time.Sleep(2 * ttl)
		w.wantFree("a")
	})
}

// If a failover loses a grant, the granted attempt is in the wait queue again.
func TestAPositionThatAFailoverRestoredIsCancelled(t *testing.T) {
	for how, end := range map[string]func(t *testing.T, l *holdfast.Lease){
		"release": func(t *testing.T, l *holdfast.Lease) { assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld) },
		"renewal": func(_ *testing.T, l *holdfast.Lease) { <-l.Context().Done() },
	} {
		runBubble(t, how, func(t *testing.T, w *world) {
			first := mustLock(t, w.client().Mutex("a"))
			next := w.waiting(w.client().Mutex("a"), t.Context())
			release(t, first)
			l := (<-next).Lease
			synctest.Wait() // it is confirmed
			w.Flush()
			other := mustLock(t, w.client().Mutex("a"))
			answer, err := w.Store.Run(t.Context(), script.Acquire, []string{"holdfast:{a}"},
				[]string{l.HolderID(), "30000", "60000", "x", "60000", "holdfast:push:"})
			assert.MustTrue(t, err == nil && strings.HasPrefix(answer, "queued 1 "),
				"it is not in the line again: %q, %v", answer, err)
			end(t, l)
			synctest.Wait()
			waiters := w.state("a").Waiters
			assert.True(t, len(waiters) == 0, "waiters: %+v", waiters)
			release(t, other)
			w.wantFree("a")
		})
	}
}

// The cancels of many attempts share one limit, while the server is unreachable, and also
// while it answers that it does not know them.
func TestManyUnknownOutcomesTogetherAskTenTimesASecond(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		w.FailRequest(func(string, []string) error { return errLink })
		for range 200 {
			_, err := c.Mutex("a").TryLock(t.Context())
			assert.Is(t, err, holdfast.ErrUnknownOutcome)
		}
		time.Sleep(20 * time.Second)
		before := w.net.count("cancel")
		time.Sleep(5 * time.Second)
		assert.AtMost(t, w.net.count("cancel")-before, 5*10+30, "requests in 5 s")
		w.FailRequest(nil)
		time.Sleep(ttl)
		before = w.net.count("cancel")
		time.Sleep(ttl)
		assert.AtMost(t, w.net.count("cancel")-before, 0, "requests after the last lease there could be is over")
		w.wantFree("a")
	})
}

// A call whose context has ended sends nothing, and says nothing of an unknown outcome.
func TestACallUnderAnEndedContextHasAKnownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		l, reader := mustLock(t, c.Mutex("a")), must(t, c.RWMutex("b").RLock)
		lead, err := c.Election("c").Campaign(t.Context(), "value")
		assert.Must(t, err)
		synctest.Wait()
		sent := w.net.total()
		for what, err := range map[string]error{
			"Extend":     l.Extend(over, time.Minute),
			"Shorten":    l.Shorten(over, time.Second),
			"Upgrade":    reader.Upgrade(over),
			"SetLimit":   c.Semaphore("d", 1).SetLimit(over, 2),
			"Proclaim":   lead.Proclaim(over, "another"),
			"Reschedule": c.Periodic("e", time.Hour).Reschedule(over),
			"Leader":     errorOf(c.Election("c").Leader(over)),
			"Inspect":    errorOf(c.Inspect(over, "a")),
			"Evict":      errorOf(c.Evict(over, "a", holdfast.Eviction{By: "x", Reason: "y"})),
		} {
			if !errors.Is(err, context.Canceled) || errors.Is(err, holdfast.ErrUnknownOutcome) {
				t.Errorf("%s: %v", what, err)
			}
		}
		assert.Equal(t, w.net.total(), sent, "requests")
		beside := must(t, c.RWMutex("b").TryRLock)
		assert.Equal(t, w.net.total(), sent, "requests of a reader that joins another") // no conversion is unsettled
		release(t, beside)
		release(t, reader)
		release(t, l)
		assert.NoError(t, lead.Release(t.Context()))
	})
}

func errorOf[T any](_ T, err error) error { return err }

// A call that does not wait asks once more if its connection broke. The first attempt is cancelled
// before, so that the second does not find its own ghost and call the lock held.
func TestATryAsksOnceMoreAfterABrokenConnection(t *testing.T) {
	for name, fault := range map[string]func(w *world){
		"reply lost":   func(w *world) { w.LoseReply(only("acquire", 1, errLink)) },
		"request lost": func(w *world) { w.FailRequest(only("acquire", 1, errLink)) },
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			fault(w)
			l, err := w.client().Mutex("a").TryLock(t.Context())
			sent := w.net.count("acquire")
			assert.MustTrue(t, err == nil && sent == 2, "%v after %d requests", err, sent)
			release(t, l)
			w.wantFree("a")
		})
	}
}

func TestATryThatCannotCancelAsksNoMore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.LoseReply(func(action string, _ []string) error {
			if action == "acquire" || action == "cancel" {
				return errLink
			}
			return nil
		})
		_, err := w.client().Mutex("a").TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrUnknownOutcome)
		assert.Equal(t, w.net.count("acquire"), 1, "acquisitions")
	})
}

// leaves makes a waiter give up while its cancels do not arrive.
func (w *world) leaves(t *testing.T, m *holdfast.Mutex) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	gone := w.waiting(m, ctx)
	w.FailRequest(only("cancel", -1, errLink))
	cancel()
	assert.Is(t, (<-gone).err, context.Canceled)
}

// The server may be unreachable for longer than a lease. The position outlives the lease.
func TestAPositionIsCancelledUntilItIsCertainlyGone(t *testing.T) {
	for _, away := range []time.Duration{2 * ttl, 5 * ttl} {
		bubble(t, func(t *testing.T, w *world) {
			l := mustLock(t, w.client().Mutex("a"))
			w.leaves(t, w.client().Mutex("a"))
			time.Sleep(away)
			assert.MustEqual(t, len(w.state("a").Waiters), 1, "waiters in the line after %v", away)
			w.FailRequest(nil)
			time.Sleep(2 * time.Second)
			waiters := w.state("a").Waiters
			assert.True(t, len(waiters) == 0, "a ghost stands in the line: %+v", waiters)
			release(t, l)
			w.wantFree("a")
		})
	}
}

// The cancels end with the position, or ten minutes after its end if the server is silent: until
// then it might give the position later.
func TestACancellationEndsWhenThePositionIsGone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		w.leaves(t, w.client().Mutex("a"))
		time.Sleep(8*ttl + request.Outage)
		n := w.net.count("cancel")
		time.Sleep(8 * ttl)
		assert.Equal(t, w.net.count("cancel")-n, 0, "requests after the place is gone")
		release(t, l)
	})
}

// A grant to an attempt that was given up is released at once. The next waiter waits
// neither for the next cancel nor for the expiry.
func TestAPushForAnAbandonedAttemptIsAnsweredWithACancel(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		w.leaves(t, w.client().Mutex("a"))
		next := w.waiting(w.client().Mutex("a"), t.Context())
		time.Sleep(ttl) // the pause between two cancels is long by now
		w.FailRequest(nil)
		start := time.Now()
		release(t, l)
		got := <-next
		assert.MustTrue(t, got.err == nil && got.at.Equal(start),
			"%v, %v after the release", got.err, got.at.Sub(start))
		release(t, got.Lease)
		w.wantFree("a")
	})
}

// A request may arrive after its last cancel. Then it makes a position that no client
// knows of until it is granted.
func TestAPositionThatNobodyCancelsIsReleasedWithItsGrant(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		warm := w.waiting(b.Mutex("a"), t.Context()) // subscribes
		release(t, l)
		release(t, (<-warm).Lease)
		l = mustLock(t, a.Mutex("a"))
		w.net.slow(slowly("acquire", 2*ttl, 0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.Mutex("a").Lock(ctx)
		assert.Is(t, err, holdfast.ErrUnknownOutcome)
		time.Sleep(2 * ttl)
		w.net.slow(nil)
		n := w.net.count("cancel")
		time.Sleep(time.Second)
		waiters := w.state("a").Waiters
		assert.MustTrue(t, len(waiters) == 1 && w.net.count("cancel") == n, "waiters: %+v", waiters)
		release(t, l)
		synctest.Wait()
		w.wantFree("a")
	})
}

// A store learns from its context how long a request may take: never longer than the
// caller waits. After that time the context has ended.
func TestAStoreIsToldHowLongARequestMayTake(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var given context.Context
		c := w.hook(func(ctx context.Context, action string, _ *string) {
			if action == "acquire" {
				given = ctx
			}
		})
		for waits, want := range map[time.Duration]time.Duration{
			time.Minute: time.Second, 100 * time.Millisecond: 100 * time.Millisecond,
		} {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), waits)
			l, err := c.Mutex("m").TryLock(ctx)
			assert.Must(t, err)
			at, bounded := given.Deadline()
			assert.True(t, bounded && at.Sub(start) == want && given.Err() == nil,
				"a deadline after %v (%v), and %v", at.Sub(start), bounded, given.Err())
			time.Sleep(want)
			synctest.Wait()
			assert.Is(t, given.Err(), context.DeadlineExceeded)
			release(t, l)
			cancel()
		}
	})
}
