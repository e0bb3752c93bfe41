package page

import (
	"context"
	"time"
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

// nodeJSON is a server of a quorum in the stream and in the list.
type nodeJSON struct {
	Address       string  `json:"address"`
	Answers       bool    `json:"answers"`
	Counts        bool    `json:"counts"`
	Why           string  `json:"why"`
	RoundTripMS   float64 `json:"round_trip_ms"`
	ClockOffsetMS float64 `json:"clock_offset_ms"`
	ClockErrorMS  float64 `json:"clock_error_ms"`
}

// nodesTimeout bounds one read of the servers of a quorum.
const nodesTimeout = 10 * time.Second

// readNodes reads the servers of a quorum. It returns an empty list for any other topology.
func (w *watcher) readNodes() []nodeJSON {
	list := []nodeJSON{}
	if w.cfg.Nodes == nil {
		return list
	}
	ctx, cancel := context.WithTimeout(w.ctx, nodesTimeout)
	defer cancel()
	for _, n := range w.cfg.Nodes(ctx) {
		list = append(list, nodeJSON{
			n.Address, n.Answers, n.Counts, n.Why,
			inMillis(n.RoundTrip), inMillis(n.ClockOffset), inMillis(n.ClockError),
		})
	}
	return list
}

// takeNodes stores what readNodes has read. It reports whether viewers must be told at once:
// clocks and round trips differ each time, and can wait for the next event.
func (w *watcher) takeNodes(nodes []nodeJSON) (differ bool) {
	differ = len(nodes) != len(w.nodes)
	for i := 0; i < len(nodes) && !differ; i++ {
		now, before := nodes[i], w.nodes[i]
		differ = now.Address != before.Address || now.Answers != before.Answers || now.Counts != before.Counts
	}
	w.nodes = nodes
	return differ
}

// inMillis is a duration in milliseconds, with three digits after the point.
func inMillis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
