package holdfast_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// released is a kind of lease that its holder ties to a context.
type released struct {
	name  string
	until func(ctx context.Context) error
	hand  func(ctx context.Context) error
	ends  context.Context
}

// eachKind acquires one lease of each kind.
func eachKind(t *testing.T, c *holdfast.Client) []released {
	t.Helper()
	mutex := mustLock(t, c.Mutex("m"))
	reader, err := c.RWMutex("r").RLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	permit := must(t, permits(c.Semaphore("s", 3), 2))
	several, err := c.MultiMutex([]string{"x", "y"}).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lead, err := c.Election("e").Campaign(t.Context(), "me")
	if err != nil {
		t.Fatal(err)
	}
	return []released{
		{"m", mutex.ReleaseWhenDone, mutex.Release, mutex.Context()},
		{"r", reader.ReleaseWhenDone, reader.Release, reader.Context()},
		{"s", permit.ReleaseWhenDone, permit.Release, permit.Context()},
		{"x", several.ReleaseWhenDone, several.Release, several.Context()},
		{"e", lead.ResignWhenDone, lead.Resign, lead.Context()},
	}
}

func TestTheEndOfAContextReleasesEachKind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		all := eachKind(t, w.client())
		for _, l := range all {
			if err := l.until(ctx); err != nil {
				t.Errorf("%s: %v", l.name, err)
			}
		}
		time.Sleep(3 * ttl)
		for _, l := range all {
			if l.ends.Err() != nil || !w.state(l.name).Held() {
				t.Errorf("%s ended before the context: %v", l.name, context.Cause(l.ends))
			}
		}
		cancel()
		synctest.Wait()
		for _, l := range all {
			wantIs(t, context.Cause(l.ends), holdfast.ErrReleased)
			w.wantFree(l.name)
			wantIs(t, l.hand(t.Context()), holdfast.ErrReleased)
			wantIs(t, l.until(t.Context()), holdfast.ErrNotHeld)
		}
	})
}

func TestAnEndedContextReleasesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		l := mustLock(t, w.client().Mutex("a"))
		if err := l.ReleaseWhenDone(over); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		w.wantFree("a")
	})
}

// endless counts what waits for it to end. Its waits show whether a lease that was released
// still hangs on a context that lives as long as the program.
type endless struct {
	context.Context
	waits, stopped int
}

func (e *endless) AfterFunc(func()) (stop func() bool) {
	e.waits++
	return func() bool { e.stopped++; return true }
}

func (e *endless) Done() <-chan struct{} { return make(chan struct{}) }

func TestAReleaseByHandEndsTheWaitForTheContext(t *testing.T) {
	for name, end := range map[string]func(context.Context, *holdfast.Client, released) error{
		"release": func(ctx context.Context, _ *holdfast.Client, l released) error { return l.hand(ctx) },
		"close":   func(ctx context.Context, c *holdfast.Client, _ released) error { return c.Close(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				c := w.client()
				program := &endless{Context: t.Context()}
				all := eachKind(t, c)
				for _, l := range all {
					if err := l.until(program); err != nil {
						t.Fatal(err)
					}
				}
				for _, l := range all {
					if err := end(t.Context(), c, l); err != nil {
						t.Error(err)
					}
				}
				if program.waits != len(all) || program.stopped != len(all) {
					t.Errorf("%d waits began and %d ended", program.waits, program.stopped)
				}
			})
		})
	}
}

// The first context that ends counts, and the others change nothing after it.
func TestOfSeveralContextsTheFirstEndCounts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first, end := context.WithCancel(t.Context())
		second, endSecond := context.WithCancel(t.Context())
		l := mustLock(t, w.client().Mutex("a"))
		if err := errors.Join(l.ReleaseWhenDone(second), l.ReleaseWhenDone(first)); err != nil {
			t.Error(err)
		}
		end()
		synctest.Wait()
		next := mustLock(t, w.client().Mutex("a"))
		endSecond()
		synctest.Wait()
		if next.Err() != nil || !w.state("a").Held() {
			t.Error("the second context ended the next holder's lease")
		}
		release(t, next)
	})
}

// The server is away when the context ends. The lease has ended for its user at once, the
// log says why the lock may not be free, and the client frees it when the server is back.
func TestAReleaseThatFailsAtTheEndOfAContextIsLoggedAndRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var text strings.Builder
		c := w.client(holdfast.Config{Logger: slog.New(slog.NewTextHandler(&text, nil))})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l := mustLock(t, c.Mutex("a"))
		if err := l.ReleaseWhenDone(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - time.Second)
		resume := w.Stall()
		wantIs(t, ended(l.Context()), holdfast.ErrReleased)
		time.Sleep(8 * time.Second)
		if !strings.Contains(text.String(), "the release at the end of a context failed") ||
			!strings.Contains(text.String(), "lock=a") {
			t.Errorf("the log has %q", text.String())
		}
		resume()
		time.Sleep(3 * time.Second) // the pauses between the tries are shorter
		w.wantFree("a")
	})
}

// The lease is lost first: the server has forgotten nothing, only its answers are lost. The
// end of the context frees what the server still keeps.
func TestTheEndOfAContextFreesALostLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		l := mustLock(t, w.client().Mutex("a"))
		if err := l.ReleaseWhenDone(ctx); err != nil {
			t.Fatal(err)
		}
		w.LoseReply(only("renew", -1, errLink))
		wantLost(t, ended(l.Context()), holdfast.LossExpired)
		if !w.state("a").Held() {
			t.Fatal("the server should believe that it is held")
		}
		cancel()
		synctest.Wait()
		w.wantFree("a")
		wantLost(t, l.Err(), holdfast.LossExpired)
	})
}

// A lease may wait for its own context, or for one of a lease that ends with it.
func TestALeaseMayWaitForAContextOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		outer := mustLock(t, c.Mutex("outer"))
		inner, err := c.Mutex("inner").Lock(outer.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []*holdfast.Lease{inner, outer} {
			if err := l.ReleaseWhenDone(outer.Context()); err != nil {
				t.Fatal(err)
			}
		}
		release(t, outer)
		synctest.Wait()
		wantIs(t, inner.Err(), holdfast.ErrReleased)
		w.wantFree("outer")
		w.wantFree("inner")
	})
}
