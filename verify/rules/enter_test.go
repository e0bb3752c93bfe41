package rules_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Kind 1. Two processes do one work under a name: both are in, others are not,
// and the lock is free when the last one has left.
func TestANamedOwnerEntersAndLeavesFromSeveralProcesses(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cfg := holdfast.Config{TTL: 1500 * time.Millisecond}
		a, seenA := w.local(t, cfg)
		b, seenB := w.local(t, cfg)
		c, seenC := w.local(t, cfg)
		order := holdfast.Owner("order/42 {a}")
		first := lock(t, a.Mutex("x", order))
		second := lock(t, b.Mutex("x", order))
		if first.Token() != second.Token() {
			t.Errorf("tokens %d and %d of one hold", first.Token(), second.Token())
		}
		stranger := c.Mutex("x", holdfast.Owner("order/43"))
		if n, err := stranger.HoldCount(within(t)); n != 0 || !errors.Is(err, holdfast.ErrHeldByOther) {
			t.Errorf("a stranger's count is %d (%v)", n, err)
		}
		if n, err := c.Mutex("x", order).HoldCount(within(t)); n != 2 || err != nil {
			t.Errorf("the owner's count is %d (%v)", n, err)
		}
		got := locking(within(t), stranger)
		seenC.await(t, holdfast.EventWait, "x", 1)
		seenA.renewed(t, "x")
		seenB.renewed(t, "x")
		release(t, first)
		seenB.renewed(t, "x")
		if h, err := stranger.Holder(within(t)); err != nil || h == nil || h.Owner != "order/42 {a}" || h.Entries != 1 {
			t.Errorf("the holder is %+v (%v)", h, err)
		}
		release(t, second)
		next := granted(t, got)
		if next.Token() <= first.Token() {
			t.Errorf("token %d after %d", next.Token(), first.Token())
		}
		release(t, next)
		if held, err := stranger.IsHeld(within(t)); held || err != nil {
			t.Errorf("held: %v (%v)", held, err)
		}
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
						l, err := c.Mutex("x", holdfast.Owner(name)).Lock(within(t))
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						inside[name]++
						if inside["alice"] > 0 && inside["bob"] > 0 {
							t.Errorf("inside are %v", inside)
						}
						mu.Unlock()
						mu.Lock()
						inside[name]--
						mu.Unlock()
						if err := l.Release(within(t)); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		c, _ := w.local(t, holdfast.Config{})
		if s := state(t, c, "x"); s.Held() || len(s.Waiters) > 0 {
			t.Errorf("the state is %+v", s)
		}
	})
}

// Kind 1. Who has lost a lock is told whether somebody else has it.
func TestNotHeldIsToldApartFromNotYours(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		b, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		l := lock(t, a.Mutex("x"))
		w.Do(t, "DEL", record("x"))
		err := l.Release(within(t))
		if !errors.Is(err, holdfast.ErrNotHeld) || errors.Is(err, holdfast.ErrHeldByOther) {
			t.Errorf("nobody has it: %v", err)
		}
		l = lock(t, a.Mutex("x", holdfast.Owner("alice")))
		w.Do(t, "DEL", record("x"))
		other := lock(t, b.Mutex("x", holdfast.Owner("bob")))
		err = l.Release(within(t))
		if !errors.Is(err, holdfast.ErrNotHeld) || !errors.Is(err, holdfast.ErrHeldByOther) {
			t.Errorf("another has it: %v", err)
		}
		release(t, other)
	})
}

// Kind 6. A lock that is released early stays taken until its least time has
// passed since the grant, and then goes to who waits: not when its lease of a
// minute would have ended.
func TestALockStaysTakenForItsLeastTime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const least = 700 * time.Millisecond
		a, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		b, seen := w.local(t, holdfast.Config{TTL: time.Minute})
		before := time.Now()
		l := lock(t, a.Mutex("x", holdfast.MinHold(least)))
		got := locking(within(t), b.Mutex("x"))
		seen.await(t, holdfast.EventWait, "x", 1)
		release(t, l)
		s := state(t, b, "x")
		if len(s.Holders) == 1 && (!s.Holders[0].Released || s.Holders[0].Remaining > least) {
			t.Errorf("the holder is %+v", s.Holders)
		}
		o := redistest.Next(t, "Lock", got)
		if o.err != nil {
			t.Fatal(o.err)
		}
		if free := o.at.Sub(before); free < least {
			t.Errorf("let in after %v", free)
		}
		if e := seen.await(t, holdfast.EventGrant, "x", 1); e.Wake != holdfast.WakePoll {
			t.Errorf("the grant came by %v", e.Wake)
		}
		release(t, o.lease)
	})
}

// Kind 6. A lease that has lasted as long as it may is over, and the next in
// line follows though the holder goes on for ever.
func TestAHoldThatLastsTooLongIsOver(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, _ := w.local(t, holdfast.Config{TTL: 2 * time.Second})
		b, seen := w.local(t, holdfast.Config{TTL: time.Minute})
		for name, option := range map[string]holdfast.Option{
			"time": holdfast.MaxHold(4 * time.Second), "renewals": holdfast.MaxRenewals(2),
		} {
			l := lock(t, a.Mutex(name, option))
			got := locking(within(t), b.Mutex(name))
			seen.await(t, holdfast.EventWait, name, 1)
			lost(t, l, holdfast.LossLimit)
			next := granted(t, got)
			if err := l.Release(within(t)); !errors.Is(err, holdfast.ErrNotHeld) {
				t.Errorf("Release: %v", err)
			}
			if next.Err() != nil || next.Token() <= l.Token() {
				t.Errorf("the next lease: %v, token %d after %d", next.Err(), next.Token(), l.Token())
			}
			release(t, next)
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
			first := lock(t, m)
			second, err := m.Lock(first.Context())
			if err != nil {
				t.Fatal(err)
			}
			third, err := m.TryLock(second.Context())
			if err != nil {
				t.Fatal(err)
			}
			release(t, first)
			if n := w.requests(t); n != 1 {
				t.Errorf("%s: three entries took %d requests: %v", name, n, w.CommandCalls(t))
			}
			if n, err := m.HoldCount(third.Context()); n != 2 || err != nil {
				t.Errorf("%s: the count is %d (%v)", name, n, err)
			}
			got := locking(within(t), other.Mutex(name))
			seen.await(t, holdfast.EventWait, name, 1)
			release(t, third)
			if second.Err() != nil || second.HoldCount() != 1 || len(got) > 0 {
				t.Errorf("%s: the last one in: %v, %d entries", name, second.Err(), second.HoldCount())
			}
			release(t, second)
			next := granted(t, got)
			seen.await(t, holdfast.EventRenew, name, 1) // the push is confirmed: no request of it comes later
			release(t, next)
		}
	})
}

// Kind 5. Who tries leaves nothing at the server between two tries.
func TestTriesAreRequestsAndNothingElse(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		other, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		w.warm(t, c)
		w.warm(t, other)
		l := lock(t, other.Mutex("x"))
		w.ResetStats(t)
		_, err := c.Mutex("x", holdfast.Tries(3, 10*time.Millisecond)).Lock(within(t))
		var held *holdfast.HeldError
		if !errors.As(err, &held) || held.Tries != 3 || held.Waited < 10*time.Millisecond {
			t.Errorf("Lock: %v", err)
		}
		if n := w.requests(t); n != 3 {
			t.Errorf("three tries took %d requests: %v", n, w.CommandCalls(t))
		}
		if s := state(t, other, "x"); len(s.Waiters) > 0 {
			t.Errorf("in the line stand %+v", s.Waiters)
		}
		release(t, l)
		release(t, lock(t, c.Mutex("x", holdfast.Tries(3, 10*time.Millisecond))))
	})
}

// Kind 6. A lease that is not renewed is over when its TTL is, unless it is
// extended by hand.
func TestALeaseThatIsNotRenewedIsExtendedByHand(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, _ := w.local(t, holdfast.Config{TTL: 3 * time.Second})
		b, seen := w.local(t, holdfast.Config{TTL: time.Minute})
		l := lock(t, a.Mutex("x", holdfast.NoRenewal()))
		got := locking(within(t), b.Mutex("x"))
		seen.await(t, holdfast.EventWait, "x", 1)
		const more = 4500 * time.Millisecond
		extended := time.Now()
		if err := l.Extend(within(t), more); err != nil {
			t.Fatal(err)
		}
		lost(t, l, holdfast.LossExpired)
		o := redistest.Next(t, "Lock", got)
		if o.err != nil {
			t.Fatal(o.err)
		}
		if after := o.at.Sub(extended); after < more {
			t.Errorf("another was let in %v after it was extended by %v", after, more)
		}
		if err := l.Release(within(t)); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("Release: %v", err)
		}
		release(t, o.lease)
	})
}
