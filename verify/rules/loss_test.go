package rules_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// Rule 1. The holder's link goes silent. Before the lock is granted to another client (to a
// waiter that polls, to a waiter that gets a push, or to a client that happens to ask), the
// old lease says that it is lost, and its context is done. A timer wakes a goroutine that
// waits for the context. Nobody can promise how soon a busy machine runs that timer: that
// it is set for the deadline is asserted in virtual time, by
// TestLeaseContextEndsNoLaterThanItsTrustDeadline.
func TestLossIsSignalledByTheTrustDeadline(t *testing.T) {
	t.Parallel()
	for _, next := range []struct {
		name           string
		waits, someone bool // the next holder waits in the queue; another client keeps asking
	}{
		{"HandOverByPoll", true, false},
		{"HandOverByPush", true, true}, // the client that asks ends the silent hold, and so makes the push
		{"Expiry", false, true},
	} {
		t.Run(next.name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				for _, check := range checks {
					t.Run(check.name, func(t *testing.T) {
						t.Parallel()
						lossRun(t, w, check.name, next.waits, next.someone, check.first)
					})
				}
			})
		})
	}
}

// checks are the ways to ask first: each of them ends what is over.
var checks = []struct {
	name  string
	first func(l *holdfast.Lease, ctx context.Context) bool // it is over
}{
	{"Err", func(l *holdfast.Lease, _ context.Context) bool { return l.Err() != nil }},
	{"ContextErr", func(_ *holdfast.Lease, ctx context.Context) bool { return ctx.Err() != nil }},
	{"ContextDone", func(_ *holdfast.Lease, ctx context.Context) bool {
		select {
		case <-ctx.Done():
			return true
		default:
			return false
		}
	}},
}

// follower is the next grant, and what the old holder knew by then.
type follower struct {
	harness.Outcome
	over bool  // the first of them said so
	err  error // then: the old lease's Err
	done bool  // its context was done
}

// lossRun is one holder behind a link that goes silent, and the next holder.
func lossRun(
	t *testing.T, w *world, name string, waits, someone bool, over func(l *holdfast.Lease, ctx context.Context) bool,
) {
	const ttl = 2 * time.Second
	proxy := redistest.NewProxy(t, w.Addr())
	// The longest time limit there may be: a renewal is under way, and not
	// given up yet, when the old deadline comes.
	a, seen := w.client(t, proxy.Addr(), holdfast.Config{TTL: ttl, RequestTimeout: ttl / 2})
	redistest.Await(t, "it is connected", func() bool { // a handshake of TLS may take longer than a request
		_, err := a.Inspect(harness.Within(t), name)
		return err == nil
	})
	held := harness.Lock(t, a.Mutex(name))
	ctx := held.Context()
	before := ctx.Done()
	next := make(chan follower, 2)
	follow := func(l *holdfast.Lease, err error) {
		f := follower{Outcome: harness.Outcome{Lease: l, Err: err, At: time.Now()}, over: over(held, ctx)}
		select {
		case <-before:
			f.done = true
		default:
		}
		f.err = held.Err()
		next <- f
	}
	if waits {
		c, seen := w.local(t, holdfast.Config{TTL: time.Minute})
		go func() { follow(c.Mutex(name).Lock(harness.Within(t))) }()
		seen.Await(t, observe.EventWait, name, 1)
	}
	seen.Renewed(t, name)
	proxy.BlackHole()
	if someone {
		keepAsking(t, w, name, func(l *holdfast.Lease) {
			if waits { // it came between: the waiter had not been quick enough
				l.Release(context.Background())
				return
			}
			follow(l, nil)
		})
	}

	f := redistest.Next(t, "the next holder's Lock", next)
	assert.Must(t, f.Err)
	assert.True(t, f.over && f.err != nil,
		"the old lease is held while the next holder has the lock: over %v, Err %v", f.over, f.err)
	assert.True(t, f.done, "the lock was granted to the next while the old lease's context was not done")
	harness.Lost(t, held, holdfast.LossExpired)
	assert.More(t, f.Lease.Token(), held.Token(), "the granted token")
	assert.Is(t, held.Release(harness.Within(t)), holdfast.ErrNotHeld)
	proxy.Pass()
	harness.Release(t, f.Lease)
}

// keepAsking tries to take the lock, without waiting in the queue, until it succeeds.
func keepAsking(t *testing.T, w *world, name string, got func(*holdfast.Lease)) {
	c, _ := w.local(t, holdfast.Config{TTL: time.Minute})
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(500 * time.Microsecond)
		defer tick.Stop()
		for {
			// Never cancelled: it would be busy with undoing that.
			if l, err := c.Mutex(name).TryLock(context.Background()); err == nil {
				got(l)
				return
			}
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-over
	})
}
