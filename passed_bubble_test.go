package holdfast_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// One in line is told that a lock is free sooner than all were told. If it gives up,
// the next one is.
func TestWhoIsToldThatTheLockIsFreeSoonerPassesItOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		ctx, cancel := context.WithCancel(t.Context())
		first := w.waiting(w.client().Mutex("a"), ctx)
		second := w.waiting(w.client().Mutex("a"), t.Context())
		start := time.Now()
		if err := l.ReleaseAfter(t.Context(), 2*time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait() // it has been told
		cancel()
		wantIs(t, (<-first).err, context.Canceled)
		got := <-second
		if waited := got.at.Sub(start); got.err != nil || waited > 3*time.Second {
			t.Errorf("%v after %v, and it was free after two seconds", got.err, waited)
		}
		release(t, got.Lease)
	})
}

// frozen puts a client in the line that listens, and does nothing else any more.
func (w *world) frozen(name string) {
	w.t.Helper()
	ctx := w.t.Context()
	stop, err := w.Listen(ctx, "holdfast:push:frozen", store.Listener{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(stop)
	answer, err := w.Run(ctx, script.Acquire, []string{"holdfast:{" + name + "}"},
		[]string{"frozen/1", "30000", "600000", "x", "180000", "holdfast:push:"})
	if err != nil {
		w.t.Fatal(answer, err)
	}
}

// So it is with who was told when a grant may be over that nobody confirms.
func TestWhoIsToldWhenAGrantMayBeOverPassesItOn(t *testing.T) {
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
		wantIs(t, (<-last).err, context.Canceled)
		got := <-second
		if waited := got.at.Sub(start); got.err != nil || waited > 4*time.Second {
			t.Errorf("%v after %v, and the grant was over after three seconds", got.err, waited)
		}
		release(t, got.Lease)
	})
}
