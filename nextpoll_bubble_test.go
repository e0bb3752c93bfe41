package holdfast_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

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

// frozen queues a client that subscribes and does nothing else.
func (w *world) frozen(name string) {
	w.t.Helper()
	ctx := w.t.Context()
	stop, err := w.Listen(ctx, "holdfast:push:frozen", store.Listener{})
	assert.Must(w.t, err)
	w.t.Cleanup(stop)
	answer, err := w.Run(ctx, script.Acquire, []string{"holdfast:{" + name + "}"},
		[]string{"frozen/1", "30000", "600000", "x", "180000", "holdfast:push:"})
	assert.MustTrue(w.t, err == nil, "%v %v", answer, err)
}

// The same holds for a waiter that was told when an unconfirmed grant may expire.
func TestIfAWaiterThatWasToldOfAnUnconfirmedGrantGivesUpTheNextIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		w.frozen("a")
		second := w.waiting(w.client().Mutex("a"), t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		last := w.waiting(w.client().Mutex("a"), ctx)
		start := time.Now()
		release(t, l)
		time.Sleep(time.Second)
		synctest.Wait()
		cancel()
		assert.Is(t, (<-last).err, context.Canceled)
		got := <-second
		if waited := got.at.Sub(start); got.err != nil || waited > 4*time.Second {
			t.Errorf("%v after %v, and the grant was over after three seconds", got.err, waited)
		}
		release(t, got.Lease)
	})
}
