package rules_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// queue makes n clients wait for x, one after the other.
func queue(t *testing.T, n int, client func() (*holdfast.Client, *watch)) []<-chan outcome {
	t.Helper()
	var got []<-chan outcome
	for range n {
		c, seen := client()
		got = append(got, locking(within(t), c.Mutex("x")))
		seen.await(t, holdfast.EventWait, "x", 1)
	}
	return got
}

// Rule 8. Fifty clients are served in the order in which they came, not in
// that of their names, seconds or luck.
func TestWaitersAreServedInOrderOfArrival(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const waiters = 50
		store := w.open(t, w.Addr(), login{})
		client := func() (*holdfast.Client, *watch) {
			return on(t, store, holdfast.Config{TTL: 10 * time.Second})
		}
		c, _ := client()
		l := lock(t, c.Mutex("x"))
		got := queue(t, waiters, client)
		if s := state(t, c, "x"); len(s.Waiters) != waiters {
			t.Fatalf("%d wait", len(s.Waiters))
		}
		for i := range got {
			release(t, l)
			next := granted(t, got[i])
			if next.Token() <= l.Token() {
				t.Errorf("token %d after %d", next.Token(), l.Token())
			}
			l = next
		}
		release(t, l)
	})
}

// Rule 8. The same inside one process.
func TestGoroutinesAreServedInOrderOfArrival(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c, seen := w.local(t, holdfast.Config{})
		mu := c.Mutex("x")
		l := lock(t, mu)
		var got []<-chan outcome
		for i := range 50 {
			got = append(got, locking(within(t), mu))
			seen.await(t, holdfast.EventWait, "x", i+1)
		}
		for i := range got {
			release(t, l)
			next := granted(t, got[i])
			if next.Token() <= l.Token() {
				t.Errorf("token %d after %d", next.Token(), l.Token())
			}
			l = next
		}
		release(t, l)
	})
}

// Rule 8. A process in the line is killed: the hand-over passes it over at
// once and goes to the next.
func TestADeadWaiterIsPassedOver(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		holder, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		b, seen := w.local(t, holdfast.Config{TTL: time.Minute})
		l := lock(t, holder.Mutex("x"))
		dead := start(t, w.Addr(), "x", time.Minute)
		id := dead.Hear(t, "client")
		redistest.Await(t, "the child waits", func() bool { return len(state(t, holder, "x").Waiters) == 1 })
		got := locking(within(t), b.Mutex("x"))
		seen.await(t, holdfast.EventWait, "x", 1)
		dead.Kill()
		redistest.Await(t, "the server knows that the child is gone", func() bool {
			reply := w.Do(t, "PUBSUB", "NUMSUB", pushes+id).([]any)
			return reply[1] == int64(0)
		})
		release(t, l)
		next := granted(t, got) // in a third of the time that the dead one's lease would take
		if e := seen.await(t, holdfast.EventGrant, "x", 1); e.Wake != holdfast.WakePush {
			t.Errorf("the grant came by %v", e.Wake)
		}
		release(t, next)
		// The place of the dead holds up nobody, and goes with its patience.
		release(t, lock(t, holder.Mutex("x")))
	})
}

// Rule 8. Who gives up waiting leaves no block in the line, and nothing behind.
func TestACancelledWaiterLeavesTheLine(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		store := w.open(t, w.Addr(), login{})
		c, _ := on(t, store, holdfast.Config{})
		l := lock(t, c.Mutex("x"))
		const waiters = 9
		var got []<-chan outcome
		var leave []context.CancelFunc
		for range waiters {
			b, seen := on(t, store, holdfast.Config{})
			ctx, cancel := context.WithCancel(within(t))
			leave = append(leave, cancel)
			got = append(got, locking(ctx, b.Mutex("x")))
			seen.await(t, holdfast.EventWait, "x", 1)
		}
		for i := 0; i < waiters; i += 2 { // the first and the last too
			leave[i]()
			o := redistest.Next(t, "Lock", got[i])
			if !errors.Is(o.err, context.Canceled) || errors.Is(o.err, holdfast.ErrUnknownOutcome) {
				t.Errorf("Lock: %v", o.err)
			}
		}
		redistest.Await(t, "they have left", func() bool { return len(state(t, c, "x").Waiters) == waiters/2 })
		for i := 1; i < waiters; i += 2 {
			release(t, l)
			l = granted(t, got[i])
		}
		release(t, l)
		for _, field := range w.Do(t, "HKEYS", record("x")).([]any) {
			switch field {
			case "lock", "birth", "lost":
			default:
				t.Errorf("the record keeps %v", field)
			}
		}
	})
}

// Rule 8. Who gives up because its limit has passed leaves the line too, and
// is told so as somebody who was not served, not as an error of the server.
func TestTheWaitLimitEndsTheWaiting(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		holder, _ := w.local(t, holdfast.Config{})
		b, _ := w.local(t, holdfast.Config{})
		const limit = time.Second // the request that joins the line is answered well before
		l := lock(t, holder.Mutex("x"))
		_, err := b.Mutex("x", holdfast.MaxWait(limit)).Lock(within(t))
		var held *holdfast.HeldError
		if !errors.As(err, &held) || held.Waited < limit || !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("Lock: %v", err)
		}
		redistest.Await(t, "it has left", func() bool { return len(state(t, holder, "x").Waiters) == 0 })
		_, err = b.Mutex("x", holdfast.MaxWait(0)).Lock(within(t))
		if !errors.As(err, &held) || held.HeldBy != l.HolderID() || held.Remaining <= 0 {
			t.Errorf("Lock with a limit of 0: %v", err)
		}
		release(t, l)
	})
}

// Rule 8. A client that only loses its connection keeps its place: it is
// passed over while it cannot be reached, and served when it is back.
func TestAWaiterThatReconnectsKeepsItsPlace(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		proxy := redistest.NewProxy(t, w.Addr())
		cfg := holdfast.Config{TTL: time.Minute}
		holder, _ := w.local(t, cfg)
		first, seenFirst := w.client(t, proxy.Addr(), cfg)
		second, seenSecond := w.local(t, cfg)
		third, seenThird := w.local(t, cfg)
		l := lock(t, holder.Mutex("x"))
		gotFirst := locking(within(t), first.Mutex("x"))
		seenFirst.await(t, holdfast.EventWait, "x", 1)
		gotSecond := locking(within(t), second.Mutex("x"))
		seenSecond.await(t, holdfast.EventWait, "x", 1)
		gotThird := locking(within(t), third.Mutex("x"))
		seenThird.await(t, holdfast.EventWait, "x", 1)

		proxy.RefuseNew(true)
		proxy.Cut()
		redistest.Await(t, "the first is away", func() bool { return w.listeners(t, first) == 0 })
		release(t, l)
		l = granted(t, gotSecond)
		proxy.RefuseNew(false)
		redistest.Await(t, "the first is back", func() bool { return w.listeners(t, first) == 1 })
		release(t, l)
		l = granted(t, gotFirst)
		release(t, l)
		release(t, granted(t, gotThird))
	})
}

// Rule 8, and design section 6. No process keeps the lock to itself while
// another waits: passing inside a process is bounded.
func TestABusyProcessDoesNotStarveAnother(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		busy, _ := w.local(t, holdfast.Config{})
		other, _ := w.local(t, holdfast.Config{})
		ctx, stop := context.WithCancel(within(t))
		over := make(chan struct{})
		const goroutines = 8
		for range goroutines {
			go func() {
				for ctx.Err() == nil {
					if l, err := busy.Mutex("x").Lock(ctx); err == nil {
						l.Release(context.Background())
					}
				}
				over <- struct{}{}
			}()
		}
		for range 20 {
			release(t, lock(t, other.Mutex("x")))
		}
		stop()
		for range goroutines {
			redistest.Next(t, "the end", over)
		}
	})
}
