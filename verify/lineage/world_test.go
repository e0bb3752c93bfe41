package lineage_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// lockName is the lock of every test: for the old ways it is the key too.
const lockName = "x"

func TestMain(m *testing.M) { harness.Program{Child: obey, Parallel: 8}.Main(m) }

// halves runs both halves of a test, each on a server of its own.
func halves(t *testing.T, old, ours func(t *testing.T, s *redistest.Server), options ...redistest.Option) {
	t.Helper()
	run := func(name string, half func(t *testing.T, s *redistest.Server)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // both spend their time waiting
			half(t, server(t, options...))
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
func client(t *testing.T, addr string, cfg holdfast.Config) (*holdfast.Client, *harness.Watch) {
	t.Helper()
	return harness.Client(t, goredis.New(connect(t, addr)), cfg)
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

// takes is for the old ways: the lock must be given.
func takes(t *testing.T, who string, lock func(ctx context.Context) (bool, error)) {
	t.Helper()
	ok, err := lock(harness.Within(t))
	assert.MustTrue(t, ok && err == nil, "%s does not get the lock (%v, %v), so nothing is shown", who, ok, err)
}

// refused is for the old ways: the lock must be denied.
func refused(t *testing.T, who string, lock func(ctx context.Context) (bool, error)) {
	t.Helper()
	ok, err := lock(harness.Within(t))
	assert.MustTrue(t, !ok && err == nil, "%s: got %v, %v, so nothing is shown", who, ok, err)
}

// late releases a lease that is over.
func late(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	assert.Is(t, l.Release(harness.Within(t)), holdfast.ErrNotHeld)
}

// held checks that the lock is another's.
func held(t *testing.T, c *holdfast.Client) {
	t.Helper()
	l, err := c.Mutex(lockName).TryLock(harness.Within(t))
	assert.True(t, errors.Is(err, holdfast.ErrHeld), "TryLock while another holds the lock: %v, %v", l, err)
}

// nextHolder waits for the lock, and returns what the old holder's context said when the
// lock was granted.
func nextHolder(t *testing.T, c *holdfast.Client, old func() error) (l *holdfast.Lease, told error) {
	t.Helper()
	l = harness.Acquire(t, func(ctx context.Context) (*holdfast.Lease, error) {
		l, err := c.Mutex(lockName).Lock(ctx)
		told = old()
		return l, err
	})
	return l, told
}

// gone waits until an old lease has ended.
func gone(t *testing.T, s *redistest.Server, key string) {
	t.Helper()
	redistest.Await(t, "the lease has ended", func() bool { return s.Do(t, "EXISTS", key) == int64(0) })
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
