package redisson_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
)

// positions passes on where acquisitions wait.
type positions chan int

// Observe implements [observe.Observer].
func (p positions) Observe(e observe.Event) {
	if e.Kind == observe.EventWait && !e.Local {
		select {
		case p <- e.Position:
		default: // a later report of the same wait
		}
	}
}

// A wait has a position if the lock has an order.
func TestAWaiterHasAPositionWhereThereIsAnOrder(t *testing.T) {
	for kind, want := range map[redisson.Kind][]int{redisson.Lock: {0, 0}, redisson.Fair: {1, 2}} {
		t.Run(kind.String(), func(t *testing.T) {
			s := start(t)
			holder := lock(t, connect(t, s.Addr(), redisson.Config{Kind: kind}).Mutex("order"))
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan error, len(want))
			for _, place := range want {
				seen := make(positions, 1)
				c := connect(t, s.Addr(), redisson.Config{Kind: kind}, func(c *holdfast.Config) { c.Observer = seen })
				go func() {
					_, err := c.Mutex("order").Lock(ctx)
					got <- err
				}()
				same(t, "the position", redistest.Next(t, "a wait", seen), place)
			}
			cancel()
			for range want {
				assert.True(t, redistest.Next(t, "the end of a wait", got) != nil, "a waiter has the lock")
			}
			release(t, holder)
		})
	}
}
