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
