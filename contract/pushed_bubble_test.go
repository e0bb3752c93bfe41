package contract_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

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
