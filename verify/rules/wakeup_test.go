package rules_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
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

// Rule 4. The waiter is woken by the hand-over, and by nothing else: one push
// to one client, however many wait.
func TestAReleaseWakesExactlyOne(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		holder, _ := w.local(t, holdfast.Config{TTL: time.Hour})
		store := w.open(t, harness.Login{})
		w.warm(t, holder)
		l := harness.Lock(t, holder.Mutex("x"))
		const waiters = 20
		var got []<-chan harness.Outcome
		var seen []*harness.Watch
		for range waiters {
			c, s := harness.Client(t, store, holdfast.Config{TTL: time.Hour})
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
