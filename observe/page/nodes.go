package page

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// Node is one of the servers of a quorum, as the page shows it.
type Node struct {
	Address string
	Answers bool   // the last request to the server was answered
	Counts  bool   // the server counts for new locks
	Why     string // why it does not count; empty if it counts

	RoundTrip time.Duration // of the last request that was answered; 0 if none was
	// ClockOffset is how far the server's clock is ahead of this machine's, and ClockError how
	// wrong that may be. Both are zero if nobody knows.
	ClockOffset, ClockError time.Duration
}

// nodesTimeout bounds one read of the servers of a quorum.
const nodesTimeout = 10 * time.Second

// readNodes reads the servers of a quorum. It returns an empty list for any other topology.
func (w *watcher) readNodes() []lockjson.Node {
	list := []lockjson.Node{}
	if w.cfg.Nodes == nil {
		return list
	}
	ctx, cancel := context.WithTimeout(w.ctx, nodesTimeout)
	defer cancel()
	for _, n := range w.cfg.Nodes(ctx) {
		list = append(list, lockjson.Node{
			Address: n.Address, Answers: n.Answers, Counts: n.Counts, Why: n.Why,
			RoundTripMS:   lockjson.Millis(n.RoundTrip),
			ClockOffsetMS: lockjson.Millis(n.ClockOffset), ClockErrorMS: lockjson.Millis(n.ClockError),
		})
	}
	return list
}

// takeNodes stores what readNodes has read. It reports whether viewers must be told at once:
// clocks and round trips differ each time, and can wait for the next event.
func (w *watcher) takeNodes(nodes []lockjson.Node) (differ bool) {
	differ = len(nodes) != len(w.nodes)
	for i := 0; i < len(nodes) && !differ; i++ {
		now, before := nodes[i], w.nodes[i]
		differ = now.Address != before.Address || now.Answers != before.Answers || now.Counts != before.Counts
	}
	w.nodes = nodes
	return differ
}
