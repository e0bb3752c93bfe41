package contract_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
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
