package rules_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// Kind 1. Two processes do one work under a name: both are in, others are not,
// and the lock is free when the last one has left.
func TestANamedOwnerEntersAndLeavesFromSeveralProcesses(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: 3 * time.Second}
		a, seenA := w.local(t, cfg)
		b, seenB := w.local(t, cfg)
		c, seenC := w.local(t, cfg)
		order := holdfast.Owner("order/42 {a}")
		first := harness.Lock(t, a.Mutex("x", order))
		second := harness.Lock(t, b.Mutex("x", order))
		assert.True(t, first.Token() == second.Token(), "tokens %d and %d of one hold", first.Token(), second.Token())
		stranger := c.Mutex("x", holdfast.Owner("order/43"))
		holds := func(entries int) {
			t.Helper()
			state, err := c.Holders(harness.Within(t), "x")
			if err != nil || !state.Held() || state.Holders[0].Owner != "order/42 {a}" ||
				state.Holders[0].Entries != entries {
				t.Errorf("held by %+v (%v), want %d entries", state.Holders, err, entries)
			}
		}
		holds(2)
		got := harness.Acquiring(harness.Within(t), stranger.Lock)
		seenC.Await(t, observe.EventWait, "x", 1)
		seenA.Renewed(t, "x")
		seenB.Renewed(t, "x")
		harness.Release(t, first)
		seenB.Renewed(t, "x")
		holds(1)
		harness.Release(t, second)
		next := harness.Granted(t, got)
		assert.More(t, next.Token(), first.Token(), "token")
		harness.Release(t, next)
		state, err := c.Holders(harness.Within(t), "x")
		assert.True(t, !state.Held() && err == nil, "held by %+v (%v)", state.Holders, err)
	})
}

// Kind 1. Many goroutines of several processes under two names: a name's
// entries are in together, and never beside the other's.
func TestTwoOwnersNeverMix(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		inside := map[string]int{}
		var all sync.WaitGroup
		for range 2 {
			c, _ := w.local(t, holdfast.Config{TTL: 10 * time.Second})
			for _, name := range []string{"alice", "alice", "bob", "bob"} {
				all.Go(func() {
					for range 15 {
						l, err := c.Mutex("x", holdfast.Owner(name)).Lock(harness.Within(t))
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						inside[name]++
						assert.False(t, inside["alice"] > 0 && inside["bob"] > 0, "inside are %v", inside)
						mu.Unlock()
						mu.Lock()
						inside[name]--
						mu.Unlock()
						assert.NoError(t, l.Release(harness.Within(t)))
					}
				})
			}
		}
		all.Wait()
		c, _ := w.local(t, holdfast.Config{})
		s := state(t, c, "x")
		assert.True(t, !s.Held() && len(s.Waiters) == 0, "the state is %+v", s)
	})
}

// Kind 1. A client that has lost a lock learns whether another client has it.
func TestNotHeldIsToldApartFromNotYours(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		b, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		l := harness.Lock(t, a.Mutex("x"))
		w.Do(t, "DEL", harness.Key("x"))
		err := l.Release(harness.Within(t))
		assert.True(t, errors.Is(err, holdfast.ErrNotHeld) && !errors.Is(err, holdfast.ErrHeldByOther),
			"nobody has it: %v", err)
		l = harness.Lock(t, a.Mutex("x", holdfast.Owner("alice")))
		w.Do(t, "DEL", harness.Key("x"))
		other := harness.Lock(t, b.Mutex("x", holdfast.Owner("bob")))
		err = l.Release(harness.Within(t))
		assert.True(t, errors.Is(err, holdfast.ErrNotHeld) && errors.Is(err, holdfast.ErrHeldByOther),
			"another has it: %v", err)
		harness.Release(t, other)
	})
}

// Kind 6. A lock that is released early is kept until its minimum time has passed since
// the grant. Then it goes to the waiter, and not when its lease of a minute would have
// expired.
func TestALockIsKeptForItsMinimumTime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const least = 700 * time.Millisecond
		a, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		b, seen := w.local(t, holdfast.Config{TTL: time.Minute})
		before := time.Now()
		l := harness.Lock(t, a.Mutex("x", holdfast.MinHold(least)))
		got := harness.Waiting(t, seen, b.Mutex("x"))
		harness.Release(t, l)
		s := state(t, b, "x")
		assert.False(t, len(s.Holders) == 1 && (!s.Holders[0].Released || s.Holders[0].Remaining > least),
			"the holder is %+v", s.Holders)
		o := redistest.Next(t, "Lock", got)
		assert.Must(t, o.Err)
		assert.AtLeast(t, o.At.Sub(before), least, "let in after")
		assert.Equal(t, seen.Await(t, observe.EventGrant, "x", 1).Wake, observe.WakePoll, "the grant came by")
		harness.Release(t, o.Lease)
	})
}

// Kind 6. A lease ends at its maximum time, and the next waiter gets the lock although the
// holder goes on for ever.
func TestAHoldThatLastsTooLongIsOver(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, _ := w.local(t, holdfast.Config{TTL: 2 * time.Second})
		b, seen := w.local(t, holdfast.Config{TTL: time.Minute})
		for name, option := range map[string]holdfast.Option{
			"time": holdfast.MaxHold(4 * time.Second), "renewals": holdfast.MaxRenewals(2),
		} {
			l := harness.Lock(t, a.Mutex(name, option))
			got := harness.Acquiring(harness.Within(t), b.Mutex(name).Lock)
			seen.Await(t, observe.EventWait, name, 1)
			harness.Lost(t, l, holdfast.LossLimit)
			next := harness.Granted(t, got)
			assert.Is(t, l.Release(harness.Within(t)), holdfast.ErrNotHeld)
			assert.True(t, next.Err() == nil && next.Token() > l.Token(),
				"the next lease: %v, token %d after %d", next.Err(), next.Token(), l.Token())
			harness.Release(t, next)
		}
	})
}

// Kind 1. Entering again costs no request, in whatever order the leases are
// released; the lock is free when the last one is.
func TestEnteringAgainCostsNoRequest(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		other, seen := w.local(t, holdfast.Config{TTL: time.Minute})
		w.warm(t, c)
		w.warm(t, other)
		for name, option := range map[string]holdfast.MutexOption{
			"context": holdfast.Reentrant(), "owner": holdfast.Owner("alice"),
		} {
			m := c.Mutex(name, option)
			w.ResetStats(t)
			first := harness.Lock(t, m)
			second, err := m.Lock(first.Context())
			assert.Must(t, err)
			third, err := m.TryLock(second.Context())
			assert.Must(t, err)
			harness.Release(t, first)
			if n := w.requests(t); n != 1 {
				t.Errorf("%s: three entries took %d requests: %v", name, n, w.CommandCalls(t))
			}
			assert.Equal(t, third.HoldCount(), 2, "%s: the count", name)
			got := harness.Acquiring(harness.Within(t), other.Mutex(name).Lock)
			seen.Await(t, observe.EventWait, name, 1)
			harness.Release(t, third)
			if second.Err() != nil || second.HoldCount() != 1 || len(got) > 0 {
				t.Errorf("%s: the last one in: %v, %d entries", name, second.Err(), second.HoldCount())
			}
			harness.Release(t, second)
			next := harness.Granted(t, got)
			seen.Await(t, observe.EventRenew, name, 1) // the push is confirmed: no request of it comes later
			harness.Release(t, next)
		}
	})
}
