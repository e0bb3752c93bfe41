// Bad input loses nothing: what cannot work is refused before anything is sent, and every refusal says what to do
// (G18).

package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestAConfigThatCannotWorkIsRefusedWithTheFieldsName(t *testing.T) {
	for _, test := range []struct {
		cfg  holdfast.Config
		want string // empty: it is good
	}{
		{holdfast.Config{}, ""},
		{holdfast.Config{TTL: 10 * time.Millisecond, MaxLocalHandOvers: -1, App: "a", Prefix: "a:b/c"}, ""},
		{holdfast.Config{Prefix: "a b"}, "Config.Prefix"},
		{holdfast.Config{Prefix: strings.Repeat("a", 65)}, "Config.Prefix"},
		{holdfast.Config{TTL: 9 * time.Millisecond}, "at least 10ms"},
		{holdfast.Config{TTL: -time.Second}, "Config.TTL"},
		{holdfast.Config{TTL: time.Second + time.Microsecond}, "whole milliseconds"},
		{holdfast.Config{TTL: 400 * 24 * time.Hour}, "Config.TTL"},
		{holdfast.Config{Retention: time.Microsecond}, "from 1ms"},
		{holdfast.Config{Retention: 25 * time.Hour}, "Config.Retention"},
		{holdfast.Config{RequestTimeout: time.Microsecond}, "Config.RequestTimeout"},
		{holdfast.Config{TTL: time.Second, RequestTimeout: 501 * time.Millisecond}, "more than half of the TTL"},
		{holdfast.Config{App: strings.Repeat("a", 129)}, "Config.App"},
	} {
		c, err := holdfast.New(memstore.New(), test.cfg)
		switch {
		case test.want == "" && (err != nil || c.ID() == ""):
			t.Errorf("%+v: %v", test.cfg, err)
		case test.want != "" && (!errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%+v: %v", test.cfg, err)
		}
	}
	assert.Is(t, assert.Err(holdfast.New(nil, holdfast.Config{})), holdfast.ErrInvalid)
}

func TestEveryClientHasAnIdentityOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		c, err := holdfast.New(memstore.New(), holdfast.Config{})
		assert.Must(t, err)
		assert.MustTrue(t, !seen[c.ID()] && len(c.ID()) == 22, "ID %q", c.ID())
		seen[c.ID()] = true
	}
}

func TestHintsSayWhatToDo(t *testing.T) {
	refused := func(code, message string) error {
		return fmt.Errorf("holdfast: %w", &holdfast.ServerError{Code: code, Message: message})
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("something"), ""},
		{refused("ERR", "ERR something"), ""},
		{refused("ERR", "ERR DB index is out of range"), "database"},
		{refused("ERR", "ERR SELECT is not allowed in cluster mode"), "database"},
		{refused("ERR", "ERR This instance has cluster support disabled"), "single server"},
		{refused("NOAUTH", "NOAUTH Authentication required."), "password"},
		{refused("READONLY", "READONLY You can't write"), "primary"},
		{refused("MOVED", "MOVED 1 127.0.0.1:7000"), "Cluster"},
		{refused("OOM", "OOM command not allowed"), "maxmemory"},
		{refused("VERSION", "VERSION too old"), "7.0"},
		{refused("ERR", "ERR unknown command 'evalsha', with args beginning with: 'x'"), "rename-command"},
		{refused("ERR", "ERR unknown command `EVAL`, with args beginning with: `x`"), "rename-command"},
		{refused("ERR", "ERR Error compiling script (new function): user_script:1: unexpected symbol"), "memstore"},
		{fmt.Errorf("%w: redis: connection pool timeout", holdfast.ErrUnreachable), "PoolSize"},
		{&holdfast.LostError{Reason: holdfast.LossExpired}, "check what your code wrote"},
		{&holdfast.LostError{Reason: holdfast.LossEvicted}, "find out why before this work runs again"},
		{
			&holdfast.LostError{Reason: holdfast.LossExpired, Err: refused("MISCONF", "MISCONF x")},
			"disk and refuses writes",
		},
		{&holdfast.LostError{Err: refused("WRONGPASS", "WRONGPASS x")}, "user name"},
		{refused("NOPERM", "NOPERM User x has no permissions to run the 'evalsha' command"), "+evalsha"},
		{refused("NOPERM", "NOPERM No permissions to access a key"), "~holdfast"},
		{refused("NOPERM", "NOPERM User x has no permissions to access the 'holdfast:{a}' key"), "~holdfast"},
		{refused("NOPERM", "NOPERM No permissions to access a channel"), "&holdfast"},
		{refused("NOPERM", "ERR ACL failure in script: User x has no permissions to run the 'set'"), "+evalsha"},
		{refused("NOPERM", "ERR ACL failure in script: No permissions to access a key script: 7"), "~holdfast"},
		{refused("NOPERM", "ERR ACL failure in script: No permissions to access a channel script: 7"), "&holdfast"},
		{holdfast.ErrDeadlock, "hand the lease to"},
		{refused("CLIENT", "CLIENT the go-redis client is closed: close the Holdfast client first"), ""},
		{fmt.Errorf("%w", holdfast.ErrNotHeld), "token"},
		{fmt.Errorf("%w: %w", holdfast.ErrNotHeld, holdfast.ErrReleased), "acquire"},
		{fmt.Errorf("%w: %w", holdfast.ErrNotHeld, holdfast.ErrClosed), "another client"},
		{&holdfast.LostError{Reason: holdfast.LossExpired}, "token"},
		{fmt.Errorf("%w: %w", holdfast.ErrUnknownOutcome, &net.OpError{Op: "dial", Err: errLink}), "address"},
		{holdfast.ErrUnknownOutcome, "TTL"},
		{&holdfast.HeldError{}, "TryDo"},
		{fmt.Errorf("%w", holdfast.ErrHeld), "wait longer"},
		{&holdfast.HeldError{Err: fmt.Errorf("rueidis: a:1: %w", os.ErrDeadlineExceeded)}, "over the network"},
		{&holdfast.HeldError{Err: io.EOF}, "over the network"},
		{wire.BadAnswer("nonsense"), "update"},
	} {
		hint := holdfast.Hint(test.err)
		assert.False(t, !strings.Contains(hint, test.want) || test.want == "" && hint != "",
			"%v: hint %q, want %q in it", test.err, hint, test.want)
	}
}

func TestErrorsTellWhatHappened(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{&holdfast.HeldError{Name: "a"}, `holdfast: lock "a" is held`},
		{
			&holdfast.HeldError{Name: "a", HeldBy: "c/1", Remaining: time.Second, Waited: 1500 * time.Microsecond},
			`holdfast: lock "a" is held by c/1; the current lease ends in 1s unless it is renewed (waited 2ms)`,
		},
		{
			&holdfast.LostError{Name: "a", Reason: holdfast.LossExpired},
			`holdfast: lease of "a" lost: no renewal was confirmed in time`,
		},
		{
			&holdfast.LostError{Name: "a", Reason: holdfast.LossNotHeld},
			`holdfast: lease of "a" lost: the server no longer has this hold`,
		},
		{
			&holdfast.LostError{Name: "a", Reason: holdfast.LossEvicted},
			`holdfast: lease of "a" lost: an operator evicted the holder`,
		},
		{&holdfast.ServerError{Code: "OOM", Message: "OOM no room"}, "holdfast: server: OOM no room"},
	} {
		assert.Equal(t, test.err.Error(), test.want, "the text of the error")
	}
}

// Invalid input is refused before any request. The error names the wrong value and says
// what to do.
func TestBadInputIsRefusedWithWhatToDo(t *testing.T) {
	lock := func(_ *holdfast.Lease, err error) error { return err }
	locks := func(_ *holdfast.MultiLease, err error) error { return err }
	run := func(p *holdfast.Periodic) error {
		_, err := p.Do(context.Background(), func(context.Context) error { return errors.New("it ran") })
		return err
	}
	ctx := context.Background()
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		pool := c.Semaphore("pool", 8)
		for says, err := range map[string]error{
			"the limit is 0: a semaphore has from 1 to":  lock(c.Semaphore("pool", 0).Acquire(ctx, 1)),
			"the limit is -1: a semaphore has from 1 to": pool.SetLimit(ctx, -1),
			"the number of permits is 0: ask for at least 1": lock(
				pool.TryAcquire(ctx, 0)),
			"the number of permits is 9, and the limit is 8: ask for fewer": lock(pool.Acquire(ctx, 9)),
			`the name "b" is given twice: give each name once`: locks(
				c.MultiMutex([]string{"b", "a", "b"}).Lock(ctx)),
			"there are no names: name the locks": locks(c.MultiMutex(nil).TryLock(ctx)),
			"at most 128 locks": locks(
				c.MultiMutex(make([]string, holdfast.MaxLocks+1)).Lock(ctx)),
			"the period (20s) is shorter than the TTL (30s)": run(
				c.Periodic("job", 20*time.Second, holdfast.TTL(30*time.Second))),
			"use a longer period or a shorter TTL": run(c.Periodic("job", 0)),
			"MinHold (2m0s) is longer than MaxHold (1m0s)": lock(
				c.Mutex("a", holdfast.MinHold(2*time.Minute), holdfast.MaxHold(time.Minute)).Lock(ctx)),
			"NoRenewal and MaxRenewals cannot be combined: leave one": lock(
				c.Mutex("a", holdfast.NoRenewal(), holdfast.MaxRenewals(3)).Lock(ctx)),
			"MaxWait and Tries cannot be combined": lock(
				c.Mutex("a", holdfast.Tries(3, time.Second), holdfast.MaxWait(time.Second)).Lock(ctx)),
			"the number of tries is 0: it must be at least 1": lock(
				c.Mutex("a", holdfast.Tries(0, time.Second)).Lock(ctx)),
			"MaxRenewals is 0: it must be at least 1, use NoRenewal": lock(
				c.Mutex("a", holdfast.MaxRenewals(0)).Lock(ctx)),
			"the owner's name is empty: use a name":    lock(c.Mutex("a", holdfast.Owner("")).Lock(ctx)),
			"the name is empty: give the lock a name":  lock(c.Mutex("").TryLock(ctx)),
			"not valid UTF-8: encode binary names":     lock(c.Mutex("a\xff").Lock(ctx)),
			"the limit is 512: shorten":                lock(c.Mutex(strings.Repeat("x", 513)).Lock(ctx)),
			"the TTL is 9ms: it must be at least 10ms": lock(c.Mutex("a", holdfast.TTL(9*time.Millisecond)).Lock(ctx)),
			"whole milliseconds: use 1.001s": lock(
				c.Mutex("a", holdfast.TTL(1001500*time.Microsecond)).Lock(ctx)),
			"MaxWait is -1s: use 0": lock(c.Mutex("a", holdfast.MaxWait(-time.Second)).Lock(ctx)),
		} {
			assert.True(t, errors.Is(err, holdfast.ErrInvalid) && strings.Contains(err.Error(), says),
				"%v: it does not say %q", err, says)
		}
		assert.True(t, len(w.net.sent) == 0, "sent %v", w.net.sent)
	})
}

// If only the server can know that a request is wrong, the server refuses it, and nothing
// changes.
func TestAConflictIsRefusedWithWhatToDo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		permit, err := a.Semaphore("pool", 8).Acquire(t.Context(), 1)
		assert.Must(t, err)
		_, err = b.Semaphore("pool", 10).Acquire(t.Context(), 1)
		if !errors.Is(err, holdfast.ErrLimit) ||
			!strings.Contains(err.Error(), `"pool" is in use with a limit of 8, not 10`) ||
			!strings.Contains(holdfast.Hint(err), "Semaphore.SetLimit") {
			t.Errorf("%v (%s)", err, holdfast.Hint(err))
		}
		s := w.state("pool")
		assert.True(t, s.Limit == 8 && len(s.Holders) == 1 && len(s.Waiters) == 0, "after the conflict: %+v", s)
		release(t, permit)

		// Two readers upgrade at the same time, of one process and of two.
		for _, other := range []*holdfast.Client{a, b} {
			readers := []*holdfast.Lease{must(t, a.RWMutex("page").RLock), must(t, other.RWMutex("page").RLock)}
			refusals := make(chan error, len(readers))
			for _, l := range readers {
				go func() { refusals <- l.Upgrade(t.Context()) }()
			}
			for range readers {
				err := <-refusals
				if !errors.Is(err, holdfast.ErrHeld) ||
					!strings.Contains(err.Error(), "cannot upgrade: other readers hold the lock") ||
					holdfast.Hint(err) != "release the lease and call Lock" {
					t.Errorf("an upgrade beside another reader: %v (%s)", err, holdfast.Hint(err))
				}
			}
			for _, l := range readers {
				assert.NoError(t, l.Err())
				release(t, l)
			}
		}
		w.wantFree("page")
	})
}

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

// methods are all public methods of the subjects, by names like Client.Close.
func methods(t *testing.T, w *world) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for name, subject := range subjects(t, w) {
			v := reflect.ValueOf(subject)
			for i := range v.NumMethod() {
				if !yield(name+"."+v.Type().Method(i).Name, v.Method(i)) {
					return
				}
			}
		}
	}
}

func takesContext(method reflect.Type) bool {
	return method.NumIn() > 0 && method.In(0) == contextType
}

// No method of the public API dereferences nil, and each names the wrong argument. The
// test finds the methods by reflection, so it also tests new ones.
func TestNoMethodDereferencesNil(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		judged := 0
		for what, method := range methods(t, w) {
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
		assert.AtLeast(t, judged, 100, "calls were judged")
	})
}

// A nil function is refused before the lock is acquired.
func TestAMissingFunctionIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		judged := 0
		for what, method := range methods(t, w) {
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

func TestWhatCannotWorkIsRefusedBeforeAnythingIsSent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for name, test := range map[string]struct {
			ctx  context.Context
			m    *holdfast.Mutex
			want error
		}{
			"empty name":     {t.Context(), c.Mutex(""), holdfast.ErrInvalid},
			"long name":      {t.Context(), c.Mutex(strings.Repeat("x", 513)), holdfast.ErrInvalid},
			"short TTL":      {t.Context(), c.Mutex("a", holdfast.TTL(time.Millisecond)), holdfast.ErrInvalid},
			"uneven TTL":     {t.Context(), c.Mutex("a", holdfast.TTL(time.Second+1)), holdfast.ErrInvalid},
			"endless TTL":    {t.Context(), c.Mutex("a", holdfast.TTL(500*24*time.Hour)), holdfast.ErrInvalid},
			"negative limit": {t.Context(), c.Mutex("a", holdfast.MaxWait(-1)), holdfast.ErrInvalid},
			"no context":     {nil, c.Mutex("a"), holdfast.ErrInvalid},
			"context over":   {over, c.Mutex("a"), context.Canceled},
		} {
			_, locked := test.m.Lock(test.ctx)
			_, tried := test.m.TryLock(test.ctx)
			done := test.m.Do(test.ctx, func(context.Context) error { t.Error(name, "ran"); return nil })
			for _, err := range []error{locked, tried, done} {
				assert.Is(t, err, test.want)
			}
		}
		l := mustLock(t, c.Mutex("a"))
		var none context.Context
		assert.Is(t, l.Release(none), holdfast.ErrInvalid)
		assert.Is(t, l.ReleaseAfter(none, time.Second), holdfast.ErrInvalid)
		assert.Is(t, l.ReleaseAfter(t.Context(), 9000*time.Hour), holdfast.ErrInvalid)
		assert.Is(t, l.Extend(none, ttl), holdfast.ErrInvalid)
		assert.Is(t, l.Extend(t.Context(), time.Microsecond), holdfast.ErrInvalid)
		assert.True(t, l.Err() == nil && w.net.count("acquire") == 1 && w.net.count("renew") == 0,
			"lease %v, sent %v", l.Err(), w.net.sent)
		release(t, l)
	})
}
