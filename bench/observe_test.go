package bench

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/observe"
)

// queue is told of each attempt that begins to wait at the server.
type queue struct{ here chan struct{} }

func (q *queue) Observe(e observe.Event) {
	if e.Kind == observe.EventWait && !e.Local {
		q.here <- struct{}{}
	}
}

// counter counts events.
type counter struct {
	pushed, otherwise, renewed, lost atomic.Int64
}

func (c *counter) Observe(e observe.Event) {
	switch {
	case e.Kind == observe.EventWake && e.Wake == observe.WakePush:
		c.pushed.Add(1)
	case e.Kind == observe.EventWake:
		c.otherwise.Add(1)
	case e.Kind == observe.EventRenew && e.Err == nil:
		c.renewed.Add(1)
	case e.Kind == observe.EventLost:
		c.lost.Add(1)
	}
}
