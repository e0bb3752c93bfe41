// A panic of the program's code leaves no lock behind (G2): what only looks on interrupts nothing, and what runs under
// a lock releases it.

package contract_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/observe"
)

// onlooker panics at whatever it is told.
type onlooker struct {
	mu    sync.Mutex
	kinds map[observe.EventKind]bool
	told  atomic.Int32 // requests, or lines of the log
}

func (o *onlooker) Observe(e observe.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kinds[e.Kind] = true
	panic("mine")
}

func (o *onlooker) ObserveRequest(observe.Request) {
	o.told.Add(1)
	panic("mine")
}

// Enabled and the others are those of a log handler.
func (o *onlooker) Enabled(context.Context, slog.Level) bool        { return true }
func (o *onlooker) WithAttrs([]slog.Attr) slog.Handler              { return o }
func (o *onlooker) WithGroup(string) slog.Handler                   { return o }
func (o *onlooker) Handle(context.Context, slog.Record) (err error) { o.told.Add(1); panic("mine") }

// onlookers sets each field of a Config whose code a client calls.
var onlookers = map[string]func(cfg *holdfast.Config, o *onlooker){
	"Observer": func(cfg *holdfast.Config, o *onlooker) { cfg.Observer = o },
	"Logger":   func(cfg *holdfast.Config, o *onlooker) { cfg.Logger = slog.New(o) },
}

// quietly runs f while standard error goes to a file, and returns what was written.
func quietly(t *testing.T, f func()) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "")
	assert.Must(t, err)
	former := os.Stderr
	os.Stderr = file
	defer func() {
		os.Stderr = former
		_ = file.Close()
	}()
	f()
	_, err = file.Seek(0, io.SeekStart)
	assert.Must(t, err)
	text, err := io.ReadAll(file)
	assert.Must(t, err)
	return string(text)
}

// Every field of a Config that has code of the program is judged, a new one too.
func TestAnOnlookerThatPanicsInterruptsNothing(t *testing.T) {
	config := reflect.TypeFor[holdfast.Config]()
	for i := range config.NumField() {
		field := config.Field(i)
		switch field.Type.Kind() {
		case reflect.Func, reflect.Interface, reflect.Pointer, reflect.Map, reflect.Chan:
		default:
			continue
		}
		set := onlookers[field.Name]
		assert.MustTrue(t, set != nil, "nobody judges a panic in %s", field.Name)
		text := quietly(t, func() {
			runBubble(t, field.Name, func(t *testing.T, w *world) {
				var cfg holdfast.Config
				o := &onlooker{kinds: map[observe.EventKind]bool{}}
				set(&cfg, o)
				c := w.client(cfg)
				names := w.wholeLife(c, w.client())
				w.wantUsable(c, names)
				if cfg.Observer != nil {
					for k := observe.EventWait; k <= observe.EventAway; k++ {
						seldom := k == observe.EventLeak || k == observe.EventPushUnavailable
						assert.True(t, o.kinds[k] || seldom, "no event %v was told", k)
					}
				}
				assert.AtLeast(t, int(o.told.Load()), 2, "how often it panicked")
				assert.Must(t, c.Close(t.Context()))
			})
		})
		assert.Contains(t, text, "mine\ngoroutine ")
	}
}

// wholeLife makes c do whatever is reported. It returns the names of the locks, which are free.
func (w *world) wholeLife(c, other *holdfast.Client) (names []string) {
	t, ctx := w.t, w.t.Context()
	nothing := func(context.Context) error { return nil }
	for _, kind := range []func() error{
		func() error { return c.Mutex("a").Do(ctx, nothing) },
		func() error { return c.RWMutex("b").RDo(ctx, nothing) },
		func() error { return c.Semaphore("s", 2).Do(ctx, 1, nothing) },
		func() error { return c.MultiMutex([]string{"a", "b"}).Do(ctx, nothing) },
		func() error { return assert.Err(c.Periodic("j", time.Hour).Do(ctx, nothing)) },
		func() error {
			lead, err := c.Election("e").Campaign(ctx, "me")
			if err == nil {
				err = lead.Release(ctx)
			}
			return err
		},
	} {
		assert.Must(t, kind())
	}
	held := mustLock(t, other.Mutex("a"))
	_, err := c.Mutex("a").TryLock(ctx)
	assert.Is(t, err, holdfast.ErrHeld)
	first, second := w.waiting(c.Mutex("a"), ctx), w.waiting(c.Mutex("a"), ctx)
	time.Sleep(time.Second)
	release(t, held)
	for range 2 {
		select {
		case got := <-first:
			time.Sleep(ttl)
			release(t, got.Lease)
		case got := <-second:
			time.Sleep(ttl)
			release(t, got.Lease)
		}
	}
	lost := mustLock(t, c.Mutex("a"))
	w.Flush()
	<-lost.Context().Done()
	resume := w.Stall()
	away := w.waiting(c.Mutex("a"), ctx)
	time.Sleep(time.Minute)
	resume()
	release(t, (<-away).Lease)
	synctest.Wait()
	return []string{"a", "b", "s", "e"}
}

// wantUsable asserts that the locks are free for everybody, and that the client has nothing left.
func (w *world) wantUsable(c *holdfast.Client, names []string) {
	w.t.Helper()
	time.Sleep(time.Hour) // the cancels of what the silence left open are over
	for _, name := range names {
		w.wantFree(name)
		release(w.t, must(w.t, c.Mutex(name).TryLock))
	}
	s := c.Stats()
	assert.True(w.t, s.Calls == 0 && s.Waiters == 0 && s.Holds == 0 && s.Cancels == 0, "the client has %+v", s)
}

// A function that runs under a lock, and the body of a loop, panic to their caller. Each method is judged, a new one
// too.
func TestAFunctionThatPanicsReleasesItsLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		judged := 0
		for what, method := range methods(t, w) {
			if !takesContext(method.Type()) {
				continue
			}
			ran, panicked := panicIn(t, method)
			if !ran {
				continue
			}
			judged++
			assert.Equal(t, panicked, any("mine"), "%s: the panic that reached the caller", what)
			time.Sleep(time.Second)
			for _, lock := range []string{"a", "b", "s", "e"} {
				w.wantFree(lock)
			}
		}
		assert.AtLeast(t, judged, 12, "methods were judged")
	})
}

// panicIn calls a method with a function that panics, or panics in the loop over its result. ran is false if the
// method has neither.
func panicIn(t *testing.T, method reflect.Value) (ran bool, panicked any) {
	in := arguments(t.Context(), method.Type(), false)
	for i, arg := range in {
		switch arg.Kind() {
		case reflect.Func:
			ran = true
			in[i] = reflect.MakeFunc(arg.Type(), func([]reflect.Value) []reflect.Value { panic("mine") })
		case reflect.Int:
			in[i] = reflect.ValueOf(1)
		default: // as it is
		}
	}
	out := method.Type().Out(0)
	loops := out.Kind() == reflect.Func && out.CanSeq2()
	if !ran && !loops {
		return false, nil
	}
	defer func() { panicked = recover() }()
	for _, value := range method.Call(in) {
		if loops {
			for range value.Seq2() {
				panic("mine")
			}
		}
	}
	return true, nil
}
