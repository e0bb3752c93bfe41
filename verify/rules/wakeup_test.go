package rules_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// unsubscribe ends the subscription of c, which is behind the proxy, and lets it make no other.
func (w *world) unsubscribe(t *testing.T, proxy *redistest.Proxy, c *holdfast.Client) {
	t.Helper()
	proxy.RefuseNew(true)
	w.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	redistest.Await(t, "nobody listens", func() bool { return w.listeners(t, c) == 0 })
}

// Rule 4. The subscription breaks and comes back: the waiter polls at once,
// long before any timer of its own.
func TestAWaiterLooksWhenItsSubscriptionStandsAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		proxy := redistest.NewProxy(t, w.Addr())
		holder, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		b, seen := w.client(t, proxy.Addr(), holdfast.Config{TTL: time.Minute})
		l := harness.Lock(t, holder.Mutex("x"))
		got := harness.Waiting(t, seen, b.Mutex("x")) // its timer is a minute away

		w.unsubscribe(t, proxy, b)
		harness.Release(t, l)
		if s := state(t, holder, "x"); s.Held() || len(s.Waiters) != 1 {
			t.Errorf("the lock was granted to a client that does not listen, or the position is gone: %+v", s)
		}
		proxy.RefuseNew(false)
		next := harness.Granted(t, got)
		assert.Equal(t, seen.Await(t, observe.EventGrant, "x", 1).Wake, observe.WakeResume, "the grant came by")
		harness.Release(t, next)
	})
}

// Rule 4. The server has pushed the grant, and the network has lost it: the
// waiter finds the lock to be its own when it polls again.
func TestAGrantThatWasNotHeardIsFound(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		proxy := redistest.NewProxy(t, w.Addr())
		holder, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		b, seen := w.client(t, proxy.Addr(), holdfast.Config{TTL: time.Minute})
		l := harness.Lock(t, holder.Mutex("x"))
		got := harness.Waiting(t, seen, b.Mutex("x"))

		proxy.BlackHole()
		harness.Release(t, l)
		s := state(t, holder, "x")
		assert.MustTrue(t, s.Held() && s.Holders[0].ClientID == b.ID(), "the lock was not handed over: %+v", s)
		proxy.Cut()
		proxy.Pass()
		next := harness.Granted(t, got)
		if next.Token()>>10 != s.Holders[0].Token>>10 {
			t.Errorf("token %d was granted, %d is held", s.Holders[0].Token, next.Token())
		}
		harness.Release(t, next)
	})
}

// Rule 4. A push that comes so late that the lease it speaks of may be over is
// not believed: the waiter asks, and its lease counts from the asking.
func TestALatePushIsNotBelievedUnasked(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const ttl = 1500 * time.Millisecond
		proxy := redistest.NewProxy(t, w.Addr())
		holder, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		b, seen := w.client(t, proxy.Addr(), holdfast.Config{TTL: ttl})
		l := harness.Lock(t, holder.Mutex("x"))
		got := harness.Waiting(t, seen, b.Mutex("x"))
		proxy.BlackHole()
		harness.Release(t, l)
		// The lease that was pushed ends at the server before it is heard of.
		redistest.Await(t, "the pushed lease is over", func() bool { return !state(t, holder, "x").Held() })
		other, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		theirs := harness.Lock(t, other.Mutex("x"))
		proxy.Pass()
		// The push arrives now. Believed, it would make two holders.
		redistest.Await(t, "the waiter asks", func() bool { return len(state(t, holder, "x").Waiters) == 1 })
		assert.True(t, theirs.Err() == nil && len(seen.Of(observe.EventGrant, "x")) == 0,
			"a push was believed after its lease")
		harness.Release(t, theirs)
		next := harness.Granted(t, got)
		assert.More(t, next.Token(), theirs.Token(), "token")
		harness.Release(t, next)
	})
}

// Rule 4. A waiter that gives up in the very moment in which the lock is
// given to it passes it on: nobody hangs, and nobody holds it for the dead.
func TestAWaiterThatLeavesWithTheSignalPassesItOn(t *testing.T) {
	for _, where := range []struct {
		name   string
		rounds int
		passes int // Config.MaxLocalHandOvers
		apart  bool
	}{
		{"InsideAProcess", 200, 0, false},
		{"InsideAProcessWithoutPassing", 100, -1, false},
		{"BetweenProcesses", 100, 0, true},
	} {
		t.Run(where.name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				// The TTL is beyond the patience of the tests.
				cfg := holdfast.Config{TTL: time.Hour, MaxLocalHandOvers: where.passes}
				a, seenA := w.local(t, cfg)
				b, seenB, c, seenC := a, seenA, a, seenA
				if where.apart {
					b, seenB = w.local(t, cfg)
					c, seenC = w.local(t, cfg)
				}
				for round := range where.rounds {
					l := harness.Lock(t, a.Mutex("x"))
					ctx, cancel := context.WithCancel(harness.Within(t))
					before := len(seenB.Of(observe.EventWait, "x"))
					leaver := harness.Acquiring(ctx, b.Mutex("x").Lock)
					seenB.Await(t, observe.EventWait, "x", before+1)
					before = len(seenC.Of(observe.EventWait, "x"))
					stayer := harness.Acquiring(harness.Within(t), c.Mutex("x").Lock)
					seenC.Await(t, observe.EventWait, "x", before+1)

					// Both at once, each first in some rounds.
					released := make(chan error, 1)
					begin := make(chan struct{})
					go func() {
						<-begin
						for range round % 7 {
							runtime.Gosched()
						}
						released <- l.Release(context.Background())
					}()
					close(begin)
					for range round % 5 {
						runtime.Gosched()
					}
					cancel()
					assert.NoError(t, redistest.Next(t, "Release", released))
					if o := redistest.Next(t, "the leaver's Lock", leaver); o.Err == nil {
						harness.Release(t, o.Lease)
					}
					harness.Release(t, harness.Granted(t, stayer))
				}
				redistest.Await(t, "nothing is left", func() bool {
					s := state(t, a, "x")
					return !s.Held() && len(s.Waiters) == 0
				})
			})
		})
	}
}

// Rule 4. A client subscribes before it joins the queue, so no push can come between the
// two.
func TestTheSubscriptionIsConfirmedBeforeTheJoin(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		proxy := redistest.NewProxy(t, w.Addr())
		holder, _ := w.local(t, holdfast.Config{})
		b, seen := w.client(t, proxy.Addr(), holdfast.Config{})
		w.warm(t, b)
		l := harness.Lock(t, holder.Mutex("x"))
		var joins, unsubscribed atomic.Int64
		proxy.Hook(func(e redistest.Event) {
			// EVALSHA digest 1 key attempt ttl retention want patience …
			if e.Stage == redistest.Arrived && is(e.Request, script.Acquire.SHA1) && e.Request[8] != "0" {
				joins.Add(1)
				unsubscribed.Add(1 - w.listeners(t, b))
			}
		})
		got := harness.Waiting(t, seen, b.Mutex("x"))
		harness.Release(t, l)
		harness.Release(t, harness.Granted(t, got))
		assert.True(t, joins.Load() == 1 && unsubscribed.Load() == 0,
			"%d joins, of them %d without a confirmed subscription", joins.Load(), unsubscribed.Load())
	})
}

// Rule 4. The waiter is woken by the hand-over, and by nothing else: one push
// to one client, however many wait.
func TestAReleaseWakesExactlyOne(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		holder, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		store := w.open(t, harness.Login{})
		w.warm(t, holder)
		l := harness.Lock(t, holder.Mutex("x"))
		const waiters = 20
		var got []<-chan harness.Outcome
		var seen []*harness.Watch
		for range waiters {
			c, s := harness.Client(t, store, holdfast.Config{TTL: time.Minute})
			got = append(got, harness.Acquiring(harness.Within(t), c.Mutex("x").Lock))
			s.Await(t, observe.EventWait, "x", 1)
			w.known(t, c)
			seen = append(seen, s)
		}
		hints := int64(0)
		for i := range waiters {
			w.ResetStats(t)
			harness.Release(t, l)
			l = harness.Granted(t, got[i])
			woken := 0
			for _, s := range seen {
				woken += len(s.Of(observe.EventWake, "x"))
			}
			// Two requests: the release, and the renewal by which the new holder
			// confirms at once that it has heard.
			seen[i].Await(t, observe.EventRenew, "x", 1)
			calls := w.CommandCalls(t)
			// Now and then one of the waiters may be told when to poll.
			if hints += calls["publish"] - 1; woken != i+1 || hints > 3 || calls["evalsha"] != 2 {
				t.Errorf("hand-over %d: %d were woken in all, %d pushes, %d requests",
					i, woken, calls["publish"], calls["evalsha"])
			}
		}
		harness.Release(t, l)
	})
}
