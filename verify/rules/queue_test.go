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

// queue makes n clients wait for x, one after the other.
func queue(t *testing.T, n int, client func() (*holdfast.Client, *harness.Watch)) []<-chan harness.Outcome {
	t.Helper()
	var got []<-chan harness.Outcome
	for range n {
		c, seen := client()
		got = append(got, harness.Acquiring(harness.Within(t), c.Mutex("x").Lock))
		seen.Await(t, observe.EventWait, "x", 1)
	}
	return got
}

// Rule 8. If a waiting process is killed, the hand-over skips it and goes to the next
// waiter.
func TestADeadWaiterIsSkipped(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		holder, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		b, seen := w.local(t, holdfast.Config{TTL: time.Minute})
		l := harness.Lock(t, holder.Mutex("x"))
		dead := start(t, w.Addr(), "x", time.Minute)
		id := dead.Hear(t, "client")
		redistest.Await(t, "the child waits", func() bool { return len(state(t, holder, "x").Waiters) == 1 })
		got := harness.Waiting(t, seen, b.Mutex("x"))
		dead.Kill()
		redistest.Await(t, "the server knows that the child is gone", func() bool {
			reply := w.Do(t, "PUBSUB", "NUMSUB", pushes+id).([]any)
			return reply[1] == int64(0)
		})
		harness.Release(t, l)
		next := harness.Granted(t, got) // in a third of the time that the dead one's lease would take
		assert.Equal(t, seen.Await(t, observe.EventGrant, "x", 1).Wake, observe.WakePush, "the grant came by")
		harness.Release(t, next)
		// The position of the dead waiter delays nobody, and ends with its waiter TTL.
		harness.Release(t, harness.Lock(t, holder.Mutex("x")))
	})
}

// Rule 8. A client that only loses its connection keeps its position: it is skipped while
// it cannot be reached, and served when it is back.
func TestAWaiterThatReconnectsKeepsItsPosition(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		proxy := redistest.NewProxy(t, w.Addr())
		cfg := holdfast.Config{TTL: time.Minute}
		holder, _ := w.local(t, cfg)
		first, seenFirst := w.client(t, proxy.Addr(), cfg)
		second, seenSecond := w.local(t, cfg)
		third, seenThird := w.local(t, cfg)
		l := harness.Lock(t, holder.Mutex("x"))
		gotFirst := harness.Waiting(t, seenFirst, first.Mutex("x"))
		gotSecond := harness.Waiting(t, seenSecond, second.Mutex("x"))
		gotThird := harness.Waiting(t, seenThird, third.Mutex("x"))

		proxy.RefuseNew(true)
		proxy.Cut()
		redistest.Await(t, "the first is away", func() bool { return w.listeners(t, first) == 0 })
		harness.Release(t, l)
		l = harness.Granted(t, gotSecond)
		proxy.RefuseNew(false)
		redistest.Await(t, "the first is back", func() bool { return w.listeners(t, first) == 1 })
		harness.Release(t, l)
		l = harness.Granted(t, gotFirst)
		harness.Release(t, l)
		harness.Release(t, harness.Granted(t, gotThird))
	})
}

// Rule 8, and design section 6. No process keeps the lock to itself while
// another waits: passing inside a process is bounded.
func TestABusyProcessDoesNotStarveAnother(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		busy, _ := w.local(t, holdfast.Config{})
		other, _ := w.local(t, holdfast.Config{})
		ctx, stop := context.WithCancel(harness.Within(t))
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
			harness.Release(t, harness.Lock(t, other.Mutex("x")))
		}
		stop()
		for range goroutines {
			redistest.Next(t, "the end", over)
		}
	})
}
