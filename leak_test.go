package holdfast_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// listener is an Observer that passes some events on.
type listener chan holdfast.Event

func (l listener) Observe(e holdfast.Event) {
	if e.Kind == holdfast.EventLeak {
		l <- e
	}
}

// journal is a log that two goroutines may use.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// plain hides that memstore brings a clock of its own.
type plain struct{ holdfast.Store }

// forget takes a lock and drops the lease.
func forget(t *testing.T, m *holdfast.Mutex) uint64 {
	t.Helper()
	l, err := m.Lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return l.Token()
}

// This test runs outside of a bubble: the collector's goroutine may not touch
// what belongs to one.
func TestALeaseThatIsForgottenIsReleasedAndReported(t *testing.T) {
	leaks, log := make(listener, 1), new(journal)
	c, err := holdfast.New(plain{memstore.New()}, holdfast.Config{
		Observer: leaks, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	token := forget(t, c.Mutex("a"))
	var leak holdfast.Event
	for leak.Kind == 0 {
		runtime.GC()
		select {
		case leak = <-leaks:
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("never reported")
		}
	}
	if leak.Name != "a" || leak.Token != token {
		t.Errorf("reported as %+v", leak)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l, err := c.Mutex("a").Lock(ctx)
	if err != nil {
		t.Fatalf("the forgotten lease was not released: %v", err)
	}
	if err := l.Release(ctx); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "never released") {
		t.Errorf("logged: %q", log)
	}
}

func TestALeaseInUseIsNoLeak(t *testing.T) {
	leaks := make(listener, 1)
	c, err := holdfast.New(memstore.New(), holdfast.Config{Observer: leaks})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Mutex("a").Do(context.Background(), func(ctx context.Context) error {
		for range 5 {
			runtime.GC()
		}
		return ctx.Err()
	})
	if err != nil {
		t.Error(err)
	}
	if err := c.Close(context.Background()); err != nil || len(leaks) > 0 {
		t.Errorf("%v, %d leaks", err, len(leaks))
	}
}
