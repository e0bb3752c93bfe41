package rules_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// watch is an observer that remembers everything.
type watch struct {
	mu      sync.Mutex
	events  []holdfast.Event
	changed chan struct{}
}

func newWatch() *watch { return &watch{changed: make(chan struct{})} }

func (w *watch) Observe(e holdfast.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	close(w.changed)
	w.changed = make(chan struct{})
}

// of lists the events of one kind and lock; of all locks if name is empty.
func (w *watch) of(kind holdfast.EventKind, name string) []holdfast.Event {
	found, _ := w.find(kind, name)
	return found
}

func (w *watch) find(kind holdfast.EventKind, name string) ([]holdfast.Event, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []holdfast.Event
	for _, e := range w.events {
		if e.Kind == kind && (name == "" || e.Name == name) {
			found = append(found, e)
		}
	}
	return found, w.changed
}

// await waits until n events of one kind have happened to a lock, and answers
// the n-th.
func (w *watch) await(t testing.TB, kind holdfast.EventKind, name string, n int) holdfast.Event {
	t.Helper()
	late := time.NewTimer(redistest.Patience)
	defer late.Stop()
	for {
		found, changed := w.find(kind, name)
		if len(found) >= n {
			return found[n-1]
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("only %d of %d events %v of %q within %v", len(found), n, kind, name, redistest.Patience)
		}
	}
}

// renewed waits for one more renewal that was confirmed.
func (w *watch) renewed(t testing.TB, name string) {
	t.Helper()
	w.renewal(t, name, func(err error) bool { return err == nil })
}

// renewal waits for one more try of a renewal with such an outcome.
func (w *watch) renewal(t testing.TB, name string, such func(error) bool) {
	t.Helper()
	for n := len(w.of(holdfast.EventRenew, name)) + 1; ; n++ {
		if such(w.await(t, holdfast.EventRenew, name, n).Err) {
			return
		}
	}
}

// resource is what a lock protects: it refuses who comes with an older token
// than it has seen.
type resource struct {
	mu      sync.Mutex
	highest uint64
}

func (r *resource) write(token uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.highest {
		return false
	}
	r.highest = token
	return true
}
