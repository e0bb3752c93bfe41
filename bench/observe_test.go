package bench

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast"
)

// queue is told of each attempt that begins to wait at the server.
type queue struct{ here chan struct{} }

func (q *queue) Observe(e holdfast.Event) {
	if e.Kind == holdfast.EventWait && !e.Local {
		q.here <- struct{}{}
	}
}

// counter counts events.
type counter struct {
	pushed, otherwise, renewed, lost atomic.Int64
}

func (c *counter) Observe(e holdfast.Event) {
	switch {
	case e.Kind == holdfast.EventWake && e.Wake == holdfast.WakePush:
		c.pushed.Add(1)
	case e.Kind == holdfast.EventWake:
		c.otherwise.Add(1)
	case e.Kind == holdfast.EventRenew && e.Err == nil:
		c.renewed.Add(1)
	case e.Kind == holdfast.EventLost:
		c.lost.Add(1)
	}
}
