package compat

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	originalredsync "github.com/go-redsync/redsync/v4"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/goredis"
)

func pools(t testing.TB, addrs []string) (all []redsync.Pool) {
	for _, addr := range addrs {
		all = append(all, goredis.New(client(t, addr)))
	}
	return all
}

// ours makes a Redsync of this library.
func ours(t testing.TB, addrs ...string) *redsync.Redsync {
	rs := redsync.New(pools(t, addrs)...)
	t.Cleanup(rs.Close)
	return rs
}

// free reports whether nobody has the key on a server.
func free(t *testing.T, server *redistest.Server) bool {
	return server.Do(t, "EXISTS", "key") == int64(0)
}

func must(t testing.TB, err error) {
	t.Helper()
	assert.Must(t, err)
}

// wantLost waits for the loss, and checks the cause.
func wantLost(ctx context.Context, t *testing.T, why holdfast.LossReason) {
	t.Helper()
	redistest.Next(t, "the loss", ctx.Done())
	var lost *holdfast.LostError
	assert.True(t, errors.As(context.Cause(ctx), &lost) && lost.Reason == why && lost.Name == "key",
		"cause: %v", context.Cause(ctx))
}

func TestALockThatNobodyExtendsIsToldAsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll())
	m := ours(t, server.Addr()).NewMutex("key", redsync.WithExpiry(100*time.Millisecond))
	select {
	case <-m.Lost():
	default:
		t.Error("a mutex that holds nothing is not lost")
	}
	must(t, m.Lock())
	until := m.Until()
	wantLost(m.Context(), t, holdfast.LossExpired)
	late := time.Since(until)
	assert.True(t, late >= -50*time.Millisecond, "told %v before its end", -late)
	// Without a deadline, Obtain retries for the TTL only: on a busy machine, too short to connect.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lock, err := redislock.Obtain(ctx, goredis.New(client(t, server.Addr())), "key", 100*time.Millisecond,
		&redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)})
	must(t, err)
	wantLost(lock.Context(), t, holdfast.LossExpired)
	assert.Is(t, lock.Refresh(t.Context(), time.Minute, nil), redislock.ErrNotObtained)
}

func TestARenewedLockLastsUntilTheServerDeniesIt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll())
	m := ours(t, server.Addr()).NewMutex("key", redsync.WithExpiry(400*time.Millisecond), redsync.WithRenewal())
	must(t, m.Lock())
	first := m.Until()
	redistest.Await(t, "six renewals", func() bool { return server.CommandCalls(t)["pexpire"] >= 6 })
	assert.True(t, m.Until().After(first), "trusted until %v as before", first)
	server.Do(t, "SET", "key", "other")
	wantLost(m.Context(), t, holdfast.LossNotHeld)
	if ok, err := m.Unlock(); ok {
		t.Errorf("unlocked: %v", err)
	}

	server.Do(t, "DEL", "key")
	c := redislock.New(goredis.New(client(t, server.Addr())))
	t.Cleanup(c.Close)
	lock, err := c.Obtain(t.Context(), "key", 400*time.Millisecond, &redislock.Options{Renew: true})
	must(t, err)
	server.ResetStats(t)
	redistest.Await(t, "three renewals", func() bool { return server.CommandCalls(t)["pexpire"] >= 3 })
	assert.True(t, lock.Context().Err() == nil, "lost, though it was renewed")
	must(t, lock.Release(t.Context()))
	if cause := context.Cause(lock.Context()); cause != redislock.ErrReleased { //nolint:errorlint // itself
		t.Errorf("cause: %v", cause)
	}
}

// A lock whose answer is lost is taken back, although the caller's context has ended. redsync and
// redislock keep the key for its whole TTL.
func TestAnAcquisitionWithoutAnAnswerIsTakenBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll())
	for name, acquire := range map[string]func(ctx context.Context, addr string) error{
		"redsync": func(ctx context.Context, addr string) error {
			return ours(t, addr).NewMutex("key", redsync.WithExpiry(time.Hour)).TryLockContext(ctx)
		},
		"redislock": func(ctx context.Context, addr string) error {
			c := redislock.New(goredis.New(client(t, addr)))
			t.Cleanup(c.Close)
			_, err := c.Obtain(ctx, "key", time.Hour, nil)
			return err
		},
	} {
		proxy := redistest.NewProxy(t, server.Addr())
		// The scripts are known to the server, so the acquisition is one request.
		must(t, acquire(t.Context(), server.Addr()))
		server.Do(t, "DEL", "key")
		ctx, cancel := context.WithCancel(t.Context())
		proxy.DropReplies(1, "EVALSHA")
		proxy.Hook(func(e redistest.Event) {
			if e.Stage == redistest.Dropped {
				cancel()
			}
		})
		err := acquire(ctx, proxy.Addr())
		assert.True(t, errors.Is(err, context.Canceled), "%s: %v", name, err)
		redistest.Await(t, "the key to go", func() bool { return free(t, server) })
	}
}

// A try on several servers ends with its context, and what a server may have given is taken back.
func TestACancelledTryOnSeveralServersIsTakenBack(t *testing.T) {
	t.Parallel()
	servers := redistest.Primaries(t, 3, redistest.AllowAll())
	var proxies []*redistest.Proxy
	var addrs []string
	for _, server := range servers {
		proxies = append(proxies, redistest.NewProxy(t, server.Addr()))
		addrs = append(addrs, proxies[len(proxies)-1].Addr())
	}
	m := ours(t, addrs...).NewMutex("key", redsync.WithExpiry(time.Hour), redsync.WithTimeoutFactor(1.0/3600))
	must(t, m.Lock()) // the scripts are known to the servers, so the next acquisition is one request
	_, err := m.Unlock()
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, proxy := range proxies {
		proxy.DropReplies(1, "EVALSHA")
		proxy.Hook(func(e redistest.Event) {
			if e.Stage == redistest.Dropped {
				cancel()
			}
		})
	}
	assert.Is(t, m.TryLockContext(ctx), context.Canceled)
	redistest.Await(t, "the keys to go", func() bool {
		return !slices.ContainsFunc(servers, func(s *redistest.Server) bool { return !free(t, s) })
	})
}

// A grant that arrives after its own end is none, and is taken back.
func TestALateGrantIsNone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll())
	proxy := redistest.NewProxy(t, server.Addr())
	m := ours(t, proxy.Addr()).NewMutex("key", redsync.WithExpiry(100*time.Millisecond), redsync.WithTimeoutFactor(50))
	must(t, m.Lock())
	_, err := m.Unlock()
	must(t, err)
	proxy.Delay(100 * time.Millisecond)
	assert.True(t, m.TryLock() != nil, "locked, by an answer that came after the expiry")
	c := redislock.New(goredis.New(client(t, proxy.Addr())))
	t.Cleanup(c.Close)
	patient, cancel := context.WithTimeout(t.Context(), redistest.Patience)
	defer cancel()
	assert.Is(t, assert.Err(c.Obtain(patient, "other", 50*time.Millisecond, nil)), redislock.ErrNotObtained)
}

// Goroutines share a mutex. The first one loses its lock, the second one locks, and then the first
// one unlocks. With redsync that ends the lock of the second one.
func TestAnUnlockDoesNotEndTheLockOfAnotherGoroutine(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll())
	theirs := original(t, server.Addr()).NewMutex("key")
	mine := ours(t, server.Addr()).NewMutex("key")
	for _, m := range []mutex{theirs, mine} {
		must(t, m.Lock())
		server.Do(t, "DEL", "key")
		must(t, m.Lock())
		ok, err := m.Unlock()
		left := server.Do(t, "EXISTS", "key") == int64(1)
		switch {
		case m == theirs && (!ok || left):
			t.Errorf("redsync: %v %v, and the key is left: %v", ok, err, left)
		case m == mine && (ok || !left || !errors.Is(err, redsync.ErrNodeTaken{}) && !isTaken(err)):
			t.Errorf("%v %v, and the key is left: %v", ok, err, left)
		}
	}
	ok, err := mine.Unlock()
	assert.True(t, ok, "the unlock of the second one: %v", err)
}

func isTaken(err error) bool {
	var taken *redsync.ErrTaken
	return errors.As(err, &taken)
}

// A goroutine that has seen its loss locks again, and its unlock ends the new lock.
func TestALossThatWasSeenIsForgotten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll())
	for name, see := range map[string]func(m *redsync.Mutex){
		"Extend": func(m *redsync.Mutex) { _, _ = m.Extend() },
		"Valid":  func(m *redsync.Mutex) { _, _ = m.Valid() }, //nolint:staticcheck // in use, though deprecated
		"Until":  func(m *redsync.Mutex) { _ = m.Until() },
	} {
		m := ours(t, server.Addr()).NewMutex("key", redsync.WithExpiry(100*time.Millisecond))
		must(t, m.Lock())
		<-m.Lost()
		redistest.Await(t, "the end", func() bool { return time.Now().After(m.Until()) })
		server.Do(t, "DEL", "key")
		see(m)
		must(t, m.Lock())
		ok, err := m.Unlock()
		assert.False(t, !ok && !errors.Is(err, redsync.ErrLockAlreadyExpired) || isTaken(err), "%s: %v", name, err)
		assert.True(t, server.Do(t, "EXISTS", "key") != int64(1), "%s: the key is left", name)
	}
}

// Many goroutines share mutexes, under the race detector.
func TestGoroutinesShareAMutex(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll())
	m := ours(t, server.Addr()).NewMutex("key", redsync.WithTries(10_000),
		redsync.WithRetryDelay(time.Millisecond))
	inside, done := make(chan struct{}, 1), make(chan error)
	for range 8 {
		go func() {
			for range 20 {
				if err := m.Lock(); err != nil {
					done <- err
					return
				}
				select {
				case inside <- struct{}{}:
					<-inside
				default:
					t.Error("two are inside")
				}
				_, _, _ = m.Until(), m.Value(), m.Context()
				if ok, err := m.Unlock(); !ok {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		must(t, <-done)
	}
}

// redsync's Extend gives a lock back that another client has had in between.
func TestAnExtensionDoesNotBringALostLockBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll())
	theirs := original(t, server.Addr()).NewMutex("key",
		originalredsync.WithExpiry(100*time.Millisecond), originalredsync.WithSetNXOnExtend())
	mine := ours(t, server.Addr()).NewMutex("key",
		redsync.WithExpiry(100*time.Millisecond), redsync.WithSetNXOnExtend())
	for _, m := range []mutex{theirs, mine} {
		must(t, m.Lock())
		redistest.Await(t, "the expiry", func() bool { return free(t, server) })
		other := ours(t, server.Addr()).NewMutex("key")
		must(t, other.Lock())
		_, err := other.Unlock()
		must(t, err)
		ok, err := m.Extend()
		assert.True(t, ok == (m == theirs), "extended: %v %v", ok, err)
		server.Do(t, "DEL", "key")
	}
}

// A fast failure does not wait for a server that is away, and leaves nothing there.
func TestAFastFailureLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	servers := redistest.Primaries(t, 3, redistest.AllowAll())
	slow := redistest.NewProxy(t, servers[2].Addr())
	addrs := []string{servers[0].Addr(), servers[1].Addr(), slow.Addr()}
	m := ours(t, addrs...).NewMutex("key", redsync.WithFailFast(true), redsync.WithTries(1),
		redsync.WithTimeoutFactor(0.9), redsync.WithExpiry(time.Hour))
	must(t, m.Lock())
	_, err := m.Unlock()
	must(t, err)
	sets := func() int64 { return servers[2].CommandCalls(t)["set"] }
	redistest.Await(t, "the request to arrive", func() bool { return sets() >= 1 })
	redistest.Await(t, "the third server to be free", func() bool { return free(t, servers[2]) })
	for _, server := range servers[:2] {
		server.Do(t, "SET", "key", "other")
	}
	slow.Delay(300 * time.Millisecond)
	err = m.Lock()
	assert.MustTrue(t, isTaken(err), "locked: %v", err)
	redistest.Await(t, "the request to arrive", func() bool { return sets() >= 2 })
	redistest.Await(t, "the third server to be free", func() bool { return free(t, servers[2]) })
}

// Close ends the contexts, and the keys stay until they expire.
func TestCloseEndsContexts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll())
	rs := ours(t, server.Addr())
	m := rs.NewMutex("key")
	must(t, m.Lock())
	ctx := m.Context()
	rs.Close()
	if cause := context.Cause(ctx); cause != redsync.ErrClosed { //nolint:errorlint // itself
		t.Errorf("cause: %v", cause)
	}
	assert.True(t, server.Do(t, "EXISTS", "key") == int64(1), "released")
	c := redislock.New(goredis.New(client(t, server.Addr())))
	lock, err := c.Obtain(t.Context(), "other", time.Minute, nil)
	must(t, err)
	c.Close()
	if cause := context.Cause(lock.Context()); cause != redislock.ErrClosed { //nolint:errorlint // itself
		t.Errorf("cause: %v", cause)
	}
}
