package harness

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
)

// Watch is an observer that remembers all events.
type Watch struct {
	mu      sync.Mutex
	events  []observe.Event
	changed chan struct{}
}

// NewWatch makes an observer that has seen nothing yet.
func NewWatch() *Watch { return &Watch{changed: make(chan struct{})} }

// Observe implements [observe.Observer].
func (w *Watch) Observe(e observe.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	close(w.changed)
	w.changed = make(chan struct{})
}

// Of lists the events of one kind and lock; of all locks if name is empty.
func (w *Watch) Of(kind observe.EventKind, name string) []observe.Event {
	found, _ := w.find(kind, name)
	return found
}

func (w *Watch) find(kind observe.EventKind, name string) ([]observe.Event, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []observe.Event
	for _, e := range w.events {
		if e.Kind == kind && (name == "" || e.Name == name) {
			found = append(found, e)
		}
	}
	return found, w.changed
}

// Await waits until n events of one kind have happened to a lock, and returns the
// last of them.
func (w *Watch) Await(t testing.TB, kind observe.EventKind, name string, n int) observe.Event {
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

// Renewed waits for one more renewal that is confirmed.
func (w *Watch) Renewed(t testing.TB, name string) {
	t.Helper()
	w.Renewal(t, name, func(err error) bool { return err == nil })
}

// Renewal waits for one more try of a renewal with such an outcome.
func (w *Watch) Renewal(t testing.TB, name string, such func(error) bool) {
	t.Helper()
	for n := len(w.Of(observe.EventRenew, name)) + 1; ; n++ {
		if such(w.Await(t, observe.EventRenew, name, n).Err) {
			return
		}
	}
}
