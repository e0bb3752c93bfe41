package lineage_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/verify/internal/leaks"
)

// lockName is the lock of every test: for the old ways it is the key too.
const lockName = "x"

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{}) // servers are killed on purpose
	if role := os.Getenv(envRole); role != "" {
		os.Exit(obey(role))
	}
	leaks.Main(m)
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// halves runs both halves of a test, each on a server of its own.
func halves(t *testing.T, old, ours func(t *testing.T, s *redistest.Server)) {
	t.Helper()
	run := func(name string, half func(t *testing.T, s *redistest.Server)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // both spend their time waiting
			half(t, server(t))
		})
	}
	run("old way", old)
	run("Holdfast", ours)
}

// server starts a server that knows Holdfast's scripts, so that every action
// is one EVALSHA from the first on.
func server(t *testing.T, options ...redistest.Option) *redistest.Server {
	t.Helper()
	s := redistest.Start(t, options...)
	for _, action := range script.All() {
		s.Do(t, "SCRIPT", "LOAD", action.Text)
	}
	return s
}

// connect is the connection of one process of the old ways. It repeats
// nothing by itself: what is repeated is to be seen in the test.
func connect(t *testing.T, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(plain(addr))
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

func plain(addr string) *redis.Options {
	return &redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: redistest.Patience}
}

// client is one process that uses Holdfast, and what it observes.
func client(t *testing.T, addr string, cfg holdfast.Config) (*holdfast.Client, *watch) {
	t.Helper()
	return on(t, goredis.New(connect(t, addr)), cfg)
}

func on(t *testing.T, s store.Store, cfg holdfast.Config) (*holdfast.Client, *watch) {
	t.Helper()
	seen := &watch{changed: make(chan struct{})}
	cfg.Observer = seen
	c, err := holdfast.New(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A link that is still silent must not hold the test up.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.Close(ctx)
	})
	return c, seen
}

// loseAnswer cuts the client's connections the next time that the server has
// run the action, before its answer gets out.
func loseAnswer(proxy *redistest.Proxy, action *script.Script) {
	var once sync.Once
	proxy.Hook(func(e redistest.Event) {
		if e.Stage == redistest.Executed && is(e.Request, action) {
			once.Do(proxy.Cut)
		}
	})
}

// holdAnswer holds back the answers to such requests, which have taken effect
// at the server, until pass is called. asked tells of each.
func holdAnswer(
	t *testing.T, proxy *redistest.Proxy, such func(request []string) bool,
) (asked <-chan struct{}, pass func()) {
	t.Helper()
	held, through := make(chan struct{}, 16), make(chan struct{})
	pass = sync.OnceFunc(func() { close(through) })
	t.Cleanup(pass)
	proxy.Hook(func(e redistest.Event) {
		if e.Stage == redistest.Executed && such(e.Request) {
			held <- struct{}{}
			<-through
		}
	})
	return held, pass
}

// within bounds what a test waits for.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// takes is for the old ways: the lock must be given.
func takes(t *testing.T, who string, lock func(ctx context.Context) (bool, error)) {
	t.Helper()
	if ok, err := lock(within(t)); !ok || err != nil {
		t.Fatalf("%s does not get the lock (%v, %v), so nothing is shown", who, ok, err)
	}
}

// refused is for the old ways: the lock must be denied.
func refused(t *testing.T, who string, lock func(ctx context.Context) (bool, error)) {
	t.Helper()
	if ok, err := lock(within(t)); ok || err != nil {
		t.Fatalf("%s: got %v, %v, so nothing is shown", who, ok, err)
	}
}

func lock(t *testing.T, m *holdfast.Mutex) *holdfast.Lease {
	t.Helper()
	l, err := m.Lock(within(t))
	if err != nil {
		t.Fatalf("Lock: %v", err)
	}
	return l
}

func release(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	if err := l.Release(within(t)); err != nil {
		t.Errorf("Release: %v", err)
	}
}

// late releases a lease that is over.
func late(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	if err := l.Release(within(t)); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("the release of a lease that was lost: %v", err)
	}
}

// held checks that the lock is another's.
func held(t *testing.T, c *holdfast.Client) {
	t.Helper()
	l, err := c.Mutex(lockName).TryLock(within(t))
	if !errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("TryLock while another holds the lock: %v, %v", l, err)
	}
}

type outcome struct {
	lease *holdfast.Lease
	err   error
}

// locking locks in a goroutine of its own, and looks at once what then says.
func locking(t *testing.T, m *holdfast.Mutex, then func()) <-chan outcome {
	t.Helper()
	ctx, done := within(t), make(chan outcome, 1)
	go func() {
		l, err := m.Lock(ctx)
		then()
		done <- outcome{l, err}
	}()
	return done
}

func granted(t *testing.T, c <-chan outcome) *holdfast.Lease {
	t.Helper()
	o := redistest.Next(t, "Lock", c)
	if o.err != nil {
		t.Fatalf("Lock: %v", o.err)
	}
	return o.lease
}

// gone waits until an old lease has ended.
func gone(t *testing.T, s *redistest.Server, key string) {
	t.Helper()
	redistest.Await(t, "the lease has ended", func() bool { return s.Do(t, "EXISTS", key) == int64(0) })
}

// expire ends an old lease: the time of its holder's pause in one step.
func expire(t *testing.T, s *redistest.Server, key string) {
	t.Helper()
	if s.Do(t, "PEXPIRE", key, 1) != int64(1) {
		t.Fatalf("there is no %q to expire", key)
	}
	gone(t, s, key)
}

// is reports whether a request is the named action.
func is(request []string, action *script.Script) bool {
	return len(request) > 1 && strings.EqualFold(request[0], "EVALSHA") && request[1] == action.SHA1
}

// executed watches the server, and returns what waits until it has run the
// action, whoever sent it.
func executed(t *testing.T, s *redistest.Server, action *script.Script) (await func()) {
	t.Helper()
	monitor := s.Dial(t)
	monitor.Do(t, "MONITOR")
	return func() {
		t.Helper()
		for {
			if line, _ := monitor.Receive(t).(string); strings.Contains(line, action.SHA1) {
				return
			}
		}
	}
}

// watch is an observer that remembers everything.
type watch struct {
	mu      sync.Mutex
	events  []holdfast.Event
	changed chan struct{}
}

func (w *watch) Observe(e holdfast.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	close(w.changed)
	w.changed = make(chan struct{})
}

// count is how many events of one kind there were without an error.
func (w *watch) count(kind holdfast.EventKind) int {
	n, _ := w.look(kind)
	return n
}

func (w *watch) look(kind holdfast.EventKind) (int, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := slices.DeleteFunc(slices.Clone(w.events), func(e holdfast.Event) bool {
		return e.Kind != kind || e.Err != nil && kind != holdfast.EventLost
	})
	return len(of), w.changed
}

// await waits until n events of one kind have happened.
func (w *watch) await(t *testing.T, kind holdfast.EventKind, n int) {
	t.Helper()
	late := time.NewTimer(redistest.Patience)
	defer late.Stop()
	for {
		got, changed := w.look(kind)
		if got >= n {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("only %d of %d events %v within %v", got, n, kind, redistest.Patience)
		}
	}
}
