package contract_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
)

// subjects are one of each public type that has methods which talk to the server.
func subjects(t *testing.T, w *world) map[string]any {
	t.Helper()
	c := w.client()
	l := mustLock(t, c.Mutex("lease"))
	reads := must(t, c.RWMutex("reads").RLock)
	several, err := c.MultiMutex([]string{"x", "y"}).Lock(t.Context())
	assert.Must(t, err)
	lead, err := c.Election("lead").Campaign(t.Context(), "me")
	assert.Must(t, err)
	return map[string]any{
		"Client": c, "Mutex": c.Mutex("a"), "RWMutex": c.RWMutex("a"), "Semaphore": c.Semaphore("s", 2),
		"MultiMutex": c.MultiMutex([]string{"a", "b"}), "Election": c.Election("e"), "Periodic": c.Periodic("j", ttl),
		"Lease": l, "reader's Lease": keep(reads), "MultiLease": several, "Leadership": lead,
	}
}

// arguments are the arguments of a method, each nil or zero. If asked for, the context
// and the function are valid.
func arguments(ctx context.Context, method reflect.Type, sound bool) (in []reflect.Value) {
	for i := range method.NumIn() {
		p := method.In(i)
		switch {
		case p == contextType && ctx != nil:
			in = append(in, reflect.ValueOf(ctx))
		case p.Kind() == reflect.Func && sound:
			in = append(in, reflect.MakeFunc(p, func([]reflect.Value) []reflect.Value {
				return []reflect.Value{reflect.Zero(errorType)}
			}))
		case method.IsVariadic() && i == method.NumIn()-1:
			in = append(in, reflect.Zero(p.Elem())) // a nil option
		default:
			in = append(in, reflect.Zero(p))
		}
	}
	return in
}

// called calls a method. It returns the error that the method returned or yielded, and
// the value of its panic.
func called(method reflect.Value, in []reflect.Value) (panicked any, err error) {
	defer func() { panicked = recover() }()
	for _, value := range method.Call(in) {
		if value.Kind() == reflect.Func && value.Type().CanSeq2() {
			for _, second := range value.Seq2() {
				err, _ = reflect.TypeAssert[error](second)
				break
			}
		}
		if value.Type() == errorType && !value.IsNil() {
			err, _ = reflect.TypeAssert[error](value)
		}
	}
	return nil, err
}

func takesContext(method reflect.Type) bool {
	return method.NumIn() > 0 && method.In(0) == contextType
}

// No method of the public API dereferences nil, and each names the wrong argument. The
// test finds the methods by reflection, so it also tests new ones.
func TestNoMethodDereferencesNil(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		judged := 0
		for name, subject := range subjects(t, w) {
			v := reflect.ValueOf(subject)
			for i := range v.NumMethod() {
				method, what := v.Method(i), name+"."+v.Type().Method(i).Name
				if what == "Client.Abandon" {
					continue // it has no argument, and would end the others
				}
				for _, sound := range []bool{false, true} {
					args := arguments(nil, method.Type(), sound) //nolint:staticcheck // nil is the question
					panicked, err := called(method, args)
					switch {
					case panicked != nil:
						t.Errorf("%s panics: %v", what, panicked)
					case takesContext(method.Type()) && (!errors.Is(err, holdfast.ErrInvalid) ||
						!strings.Contains(err.Error(), "use context.Background()") && !sound):
						t.Errorf("%s without a context: %v", what, err)
					}
					judged++
				}
			}
		}
		assert.AtLeast(t, judged, 100, "calls were judged")
	})
}

// A nil function is refused before the lock is acquired.
func TestAMissingFunctionIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		judged := 0
		for name, subject := range subjects(t, w) {
			v := reflect.ValueOf(subject)
			for i := range v.NumMethod() {
				method, what := v.Method(i), name+"."+v.Type().Method(i).Name
				in := method.Type().NumIn()
				if in == 0 || !takesContext(method.Type()) || method.Type().In(in-1).Kind() != reflect.Func {
					continue
				}
				judged++
				args := arguments(t.Context(), method.Type(), false)
				if in == 3 && method.Type().In(1).Kind() == reflect.Int {
					args[1] = reflect.ValueOf(1) // permits
				}
				panicked, err := called(method, args)
				if panicked != nil || !errors.Is(err, holdfast.ErrInvalid) ||
					!strings.Contains(err.Error(), "function") {
					t.Errorf("%s without a function: %v, %v", what, err, panicked)
				}
			}
		}
		assert.AtLeast(t, judged, 9, "calls were judged")
	})
}

// Every kind of lock refuses a nil option and names it.
func TestANilOptionIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		ctx := t.Context()
		nothing := func(context.Context) error { return nil }
		for what, use := range map[string]func() error{
			"Mutex":     func() error { return c.Mutex("a", holdfast.TTL(ttl), nil).Do(ctx, nothing) },
			"RWMutex":   func() error { _, err := c.RWMutex("a", nil).RLock(ctx); return err },
			"Semaphore": func() error { _, err := c.Semaphore("a", 1, nil).Acquire(ctx, 1); return err },
			"an Option": func() error { _, err := c.Mutex("a", holdfast.Option(nil)).Lock(ctx); return err },
			"All":       func() error { _, err := c.MultiMutex([]string{"a"}, nil).Lock(ctx); return err },
			"Periodic":  func() error { _, err := c.Periodic("a", ttl, nil).Do(ctx, nothing); return err },
			"Election":  func() error { _, err := c.Election("a", nil).Campaign(ctx, ""); return err },
		} {
			panicked, err := caught(use)
			if panicked != nil {
				t.Errorf("%s panics at a nil option: %v", what, panicked)
			} else if !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "option") {
				t.Errorf("%s with a nil option: %v", what, err)
			}
		}
	})
}

// caught runs f and returns the value of its panic, and its error.
func caught(f func() error) (panicked any, err error) {
	defer func() { panicked = recover() }()
	return nil, f()
}

func TestAStoreThatIsNilIsRefused(t *testing.T) {
	var none *memstore.Store
	for _, s := range []store.Store{nil, none} {
		c, err := holdfast.New(s, holdfast.Config{})
		if c != nil || !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "goredis.New") {
			t.Errorf("%T: %v", s, err)
		}
	}
}

// Invalid durations are refused at the first use, in every call that takes one.
func TestDurationsThatCannotWorkAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLock(t, c.Mutex("held"))
		for _, d := range []time.Duration{-1, -1 << 62} {
			for name, try := range map[string]func(context.Context) (*holdfast.Lease, error){
				"TTL":          c.RWMutex("a", holdfast.TTL(d)).TryRLock,
				"ReadTTL":      c.RWMutex("a", holdfast.ReadTTL(d)).TryRLock,
				"MaxWait":      c.RWMutex("a", holdfast.MaxWait(d)).TryRLock,
				"Tries":        c.RWMutex("a", holdfast.Tries(1, d)).TryRLock,
				"MaxHold":      c.RWMutex("a", holdfast.MaxHold(d)).TryRLock,
				"MinHold":      c.Mutex("a", holdfast.MinHold(d)).TryLock,
				"WaitReplicas": c.RWMutex("a", holdfast.WaitReplicas(1, d)).TryRLock,
				"WaitAOF":      c.RWMutex("a", holdfast.WaitAOF(0, d)).TryRLock,
			} {
				_, err := try(t.Context())
				assert.True(t, errors.Is(err, holdfast.ErrInvalid), "%s of %v: %v", name, d, err)
			}
		}
		for _, d := range []int64{0, -1, -1 << 62} {
			assert.Is(t, l.Extend(t.Context(), time.Duration(d)), holdfast.ErrInvalid)
			_, err := c.Periodic("a", time.Duration(d)).Do(t.Context(), func(context.Context) error { return nil })
			assert.Is(t, err, holdfast.ErrInvalid)
			for name, cfg := range map[string]holdfast.Config{
				"TTL": {TTL: time.Duration(d)}, "Retention": {Retention: time.Duration(d)},
				"RequestTimeout": {RequestTimeout: time.Duration(d)},
			} {
				if _, err := holdfast.New(w.Store, cfg); d != 0 && !errors.Is(err, holdfast.ErrInvalid) {
					t.Errorf("Config.%s of %v: %v", name, time.Duration(d), err)
				}
			}
		}
		for _, name := range []string{"", strings.Repeat("a", 600), "a\xff"} {
			_, err := c.Mutex(name).TryLock(t.Context())
			assert.Is(t, err, holdfast.ErrInvalid)
			_, err = c.Inspect(t.Context(), name)
			assert.Is(t, err, holdfast.ErrInvalid)
		}
	})
}
