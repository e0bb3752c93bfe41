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
	"github.com/holdfast-go/holdfast/script"
)

// slowly delays one action by the given times there and back.
func slowly(action string, there, back time.Duration) func(string) (time.Duration, time.Duration) {
	return func(name string) (time.Duration, time.Duration) {
		if name == action {
			return there, back
		}
		return 0, 0
	}
}

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

// grantedLater lets a server stop for a time. It has received the request that call sends, and
// carries it out when it goes on. It receives nothing else while it is stopped.
func grantedLater(w *world, stopped time.Duration, call func()) {
	resume := w.Stall()
	w.net.slow(slowly("", 0, 0))
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	synctest.Wait()
	w.net.slow(nil)
	<-done
	time.Sleep(stopped)
	resume()
	time.Sleep(2 * time.Second) // the longest pause between two cancels, and a little more
	synctest.Wait()
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
		c, err := holdfast.New(strange, holdfast.Config{})
		assert.Must(t, err)
		defer func() { _ = c.Close(context.Background()) }()
		l := mustLock(t, c.Mutex("a"))
		for _, answer := range []string{"OK", "renewed", "gone x", "withdrawn"} {
			strange.say(answer)
			_, err = c.Mutex("b").Lock(t.Context())
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
