package rules_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// once does something at the first request that it is meant for.
func once(proxy *redistest.Proxy, stage redistest.Stage, sha1 string, do func()) <-chan struct{} {
	var first sync.Once
	happened := make(chan struct{})
	proxy.Hook(func(e redistest.Event) {
		if e.Stage == stage && is(e.Request, sha1) {
			first.Do(func() {
				do()
				close(happened)
			})
		}
	})
	return happened
}

// Rule 3. An acquisition whose answer does not come before its context ends is
// an unknown outcome, and undone: the lock is free again long before the
// lease that it may have got would have ended.
func TestALostAnswerToAnAcquireIsUndone(t *testing.T) {
	for _, fate := range []struct {
		name  string
		stage redistest.Stage
		heal  func(*redistest.Proxy)
	}{
		{"AnswerComesTooLate", redistest.Executed, (*redistest.Proxy).Pass},
		{"AnswerNeverComes", redistest.Executed, func(p *redistest.Proxy) { p.Cut(); p.Pass() }},
		{"RequestComesTooLate", redistest.Arrived, (*redistest.Proxy).Pass},
		{"RequestNeverComes", redistest.Arrived, func(p *redistest.Proxy) { p.Cut(); p.Pass() }},
	} {
		t.Run(fate.name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				proxy := redistest.NewProxy(t, w.Addr())
				a, _ := w.client(t, proxy.Addr(), holdfast.Config{TTL: time.Hour, RequestTimeout: 2 * time.Second})
				b, _ := w.local(t, holdfast.Config{TTL: time.Minute})
				w.warm(t, a)
				lostInTime := once(proxy, fate.stage, script.Acquire.SHA1, proxy.BlackHole)
				ctx, cancel := context.WithCancel(harness.Within(t))
				got := harness.Acquiring(ctx, a.Mutex("x").Lock)
				redistest.Next(t, "the request", lostInTime)
				cancel()
				o := redistest.Next(t, "Lock", got)
				assert.True(t, errors.Is(o.Err, holdfast.ErrUnknownOutcome) && errors.Is(o.Err, context.Canceled),
					"Lock: %v", o.Err)
				proxy.Hook(nil)
				fate.heal(proxy)
				// The patience of the tests ends long before the lease that nobody knows of.
				harness.Release(t, harness.Lock(t, b.Mutex("x")))
				redistest.Await(t, "nothing is left", func() bool {
					s := state(t, b, "x")
					return !s.Held() && len(s.Waiters) == 0
				})
			})
		})
	}
}

// Rule 3. The request is overtaken by its own cancelling: that finds nothing,
// and goes on until it does.
func TestALateAcquireIsUndoneAfterItArrives(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		proxy := redistest.NewProxy(t, w.Addr())
		a, _ := w.client(t, proxy.Addr(), holdfast.Config{TTL: time.Minute, RequestTimeout: 500 * time.Millisecond})
		b, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		w.warm(t, a)

		// The hook delays this one request, and what follows it on its own
		// connection; everything else passes.
		late, cancelled := make(chan struct{}), make(chan struct{})
		arrive := sync.OnceFunc(func() { close(late) })
		t.Cleanup(arrive)
		var first, vain sync.Once
		proxy.Hook(func(e redistest.Event) {
			if e.Stage == redistest.Arrived && is(e.Request, script.Acquire.SHA1) {
				first.Do(func() { <-late })
			}
			if e.Stage == redistest.Executed && is(e.Request, script.Cancel.SHA1) {
				vain.Do(func() { close(cancelled) })
			}
		})
		_, err := a.Mutex("x").TryLock(harness.Within(t))
		assert.MustTrue(t, errors.Is(err, holdfast.ErrUnknownOutcome), "TryLock: %v", err)
		if w.adapter.Name == "goredis" { // it has another connection for the cancelling
			redistest.Next(t, "the cancelling in vain", cancelled)
		}
		before := state(t, b, "x").Fence
		arrive()
		redistest.Await(t, "the late request took effect", func() bool { return state(t, b, "x").Fence > before })
		harness.Release(t, harness.Lock(t, b.Mutex("x")))
	})
}

// Rule 3. A release whose answer is lost is repeated, and the repetition is
// answered as the first was.
func TestALostAnswerToAReleaseIsAskedForAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		proxy := redistest.NewProxy(t, w.Addr())
		a, _ := w.client(t, proxy.Addr(), holdfast.Config{TTL: time.Minute})
		b, seen := w.local(t, holdfast.Config{TTL: time.Minute})
		w.warm(t, a)
		for _, waiters := range []int{0, 1} {
			l := harness.Lock(t, a.Mutex("x"))
			var next <-chan harness.Outcome
			if waiters > 0 {
				next = harness.Waiting(t, seen, b.Mutex("x"))
			}
			dropped := proxy.Count(redistest.Dropped, "EVALSHA")
			proxy.DropRepliesAndCut(1, "EVALSHA")
			harness.Release(t, l)
			assert.Equal(t, proxy.Count(redistest.Dropped, "EVALSHA"), dropped+1, "no answer was lost")
			if waiters > 0 {
				harness.Release(t, harness.Granted(t, next))
			}
			assert.False(t, state(t, b, "x").Held(), "the lock is held")
		}
	})
}

// Rule 3. Release is bounded by its context while the server is silent, says
// that it does not know, and goes on in the background.
func TestAReleaseIntoSilenceIsBoundedAndGoesOn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		proxy := redistest.NewProxy(t, w.Addr())
		a, _ := w.client(t, proxy.Addr(), holdfast.Config{TTL: time.Minute, RequestTimeout: 15 * time.Second})
		b, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		l := harness.Lock(t, a.Mutex("x"))
		proxy.BlackHole()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := l.Release(ctx)
		// The server is silent still, and the request itself has 15 s: what ended the call is ctx.
		assert.True(t, errors.Is(err, holdfast.ErrUnknownOutcome) && errors.Is(err, context.DeadlineExceeded),
			"Release: %v", err)
		assert.Is(t, context.Cause(l.Context()), holdfast.ErrReleased)
		proxy.Cut()
		proxy.Pass()
		harness.Release(t, harness.Lock(t, b.Mutex("x")))
	})
}

// Rule 3. The end of a context is when a lease is given up, so that end must
// not keep it from being given up.
func TestReleaseSurvivesACancelledContext(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, _ := w.local(t, holdfast.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		l, err := a.Mutex("x").Lock(ctx)
		assert.Must(t, err)
		cancel()
		assert.True(t, l.Err() == nil && l.Context().Err() == nil,
			"the lease ended with the context that it was taken under")
		assert.NoError(t, l.Release(ctx))
		assert.False(t, state(t, a, "x").Held(), "the lock is held")
		ctx, cancel = context.WithCancel(t.Context())
		err = a.Mutex("x").Do(ctx, func(inner context.Context) error {
			cancel()
			return inner.Err()
		})
		assert.True(t, errors.Is(err, context.Canceled) && !errors.Is(err, holdfast.ErrNotHeld),
			"Do: %v; want the end of its context, and not ErrNotHeld", err)
		assert.False(t, state(t, a, "x").Held(), "the lock is held after Do")
	})
}

// Rule 3. The server dies with the lease, and is empty when it is back: the
// release ends in bounded time and does not claim success.
func TestReleaseWhileTheServerRestarts(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, _ := w.local(t, holdfast.Config{TTL: 2 * time.Second})
		l := harness.Lock(t, a.Mutex("x"))
		w.Kill()
		released := make(chan error, 1)
		go func() { released <- l.Release(context.Background()) }()
		w.Restart()
		err := redistest.Next(t, "Release", released)
		if !errors.Is(err, holdfast.ErrUnknownOutcome) && !errors.Is(err, holdfast.ErrUnreachable) &&
			!errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("Release: %v", err)
		}
		next := harness.Lock(t, a.Mutex("x"))
		assert.More(t, next.Token(), l.Token(), "token")
		harness.Release(t, next)
	})
}
