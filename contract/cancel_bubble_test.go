package contract_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/request"
)

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
