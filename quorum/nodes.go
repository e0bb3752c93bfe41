package quorum

import (
	"context"
	"maps"
	"slices"
	"time"
)

// What operators see of the servers. Example: server 2 restarted empty 20 s ago, and MaxTTL is a
// minute. Nodes says that it answers, that it does not count since then, and that it counts again
// in 40 s.
//
// Two things are kept apart. Whether a server answers is known of each request (node.go). Whether
// it counts is known of its mark, for each prefix (marks.go). A server may answer and not count. A
// silent one may count.

// NodeInfo is what a store knows about one of its nodes. The times are those of this
// machine's clock.
type NodeInfo struct {
	Name string // the address, once the node has been reached; before that, its number

	Answers      bool          // false: a request got no answer in time, and since it was sent nothing was answered
	AnswersSince time.Time     // since when Answers is as it is; zero if nothing was ever sent to the node
	RoundTrip    time.Duration // of the last request that was answered; 0 if none was

	// Counts: the node counts for new grants. A node that is new, that has lost its memory, or
	// whose clock was set does not count for [Config.MaxTTL]. A node that refuses our requests
	// does not count while it does.
	Counts     bool
	OutSince   time.Time // when it was found that the node does not count; zero if it counts
	CountsFrom time.Time // when the node counts again; zero if it counts, or if that is not known
	Why        string    // why the node does not count

	// ClockOffset is how far the node's clock is ahead of this machine's, and ClockError how
	// wrong that may be. Both are zero if the node has never been read.
	ClockOffset, ClockError time.Duration
}

// Nodes returns what the store knows about its nodes, in their order. It sends nothing: the
// store reads its nodes when locks are acquired, so before the first acquisition nothing is
// known; see [Store.ReadNodes]. If clients with several prefixes use the store, a node counts if it counts for all
// of them.
func (s *Store) Nodes() []NodeInfo {
	s.mu.Lock()
	states := slices.Collect(maps.Values(s.states))
	s.mu.Unlock()
	now, wall := s.now(), time.Now()
	at := func(t time.Duration) time.Time { return wall.Add(t - now) }
	infos := make([]NodeInfo, len(s.nodes))
	for i, n := range s.nodes {
		infos[i] = n.info(at)
		worst, newest := worstOf(states, i, now)
		infos[i].judge(worst, now, at)
		// A node that refuses has answered. It is up, but it takes part in nothing.
		if refusal, since := refusalOf(states, i); refusal != "" && infos[i].Answers {
			infos[i].Counts, infos[i].Why = false, "refuses our requests: "+refusal
			infos[i].OutSince, infos[i].CountsFrom = at(since), time.Time{}
		}
		if newest.OK {
			ahead := newest.Low + (newest.High-newest.Low)/2
			infos[i].ClockOffset = ahead - (time.Duration(wall.UnixNano()) - now)
			infos[i].ClockError = (newest.High - newest.Low) / 2
		}
	}
	return infos
}

// ReadNodes reads the nodes now, for the locks of a prefix ([holdfast.Config]), and returns
// what [Store.Nodes] then returns. It changes no node. It waits for the answers of all nodes,
// but for each no longer than for one request. A node that does not answer is not an error.
//
// [holdfast.Config]: https://pkg.go.dev/github.com/holdfast-go/holdfast#Config
func (s *Store) ReadNodes(ctx context.Context, prefix string) ([]NodeInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	// The addresses are for people: without them the nodes are called by their numbers.
	_, _ = s.Server(ctx)
	ns, began := s.statesOf(prefix), s.now()
	timeout := s.requestTimeout(ctx, 0)
	done := s.startOnEach(func(i int, _ *node) error { return ns.readNode(i, timeout, "") })
	for range s.nodes {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	ns.decideMarks(began) // what it would write is left to the clients that acquire locks
	return s.Nodes(), nil
}

// info returns how the node answers.
func (n *node) info(at func(time.Duration) time.Time) NodeInfo {
	name := n.name()
	n.mu.Lock()
	defer n.mu.Unlock()
	info := NodeInfo{Name: name, Answers: n.asked && !n.silent, RoundTrip: n.roundTrip}
	if n.asked {
		info.AnswersSince = at(n.changedAt)
	}
	return info
}

// worstOf returns the state of a node for the prefix for which it counts last, and the newest of
// its readings. A prefix that has never read the node counts for neither. The clock is the same for
// all prefixes, so the newest reading tells it best.
func worstOf(states []*nodeStates, i int, now time.Duration) (worst, newest nodeState) {
	for _, ns := range states {
		ns.mu.Lock()
		one := ns.nodes[i]
		ns.mu.Unlock()
		if !one.OK {
			continue
		}
		if !worst.OK || worst.counts(now) && !one.counts(now) || !one.counts(now) && one.countsFrom > worst.countsFrom {
			worst = one
		}
		if !newest.OK || one.askedAt > newest.askedAt {
			newest = one
		}
	}
	return worst, newest
}

// refusalOf returns why, and since when, a node refuses the reads for one of the prefixes.
func refusalOf(states []*nodeStates, i int) (refusal string, since time.Duration) {
	for _, ns := range states {
		ns.mu.Lock()
		refusal, since = ns.nodes[i].refusal, ns.nodes[i].refusedAt
		ns.mu.Unlock()
		if refusal != "" {
			return refusal, since
		}
	}
	return "", 0
}

// judge sets whether the node counts, by its state.
func (info *NodeInfo) judge(n nodeState, now time.Duration, at func(time.Duration) time.Time) {
	if !n.OK {
		info.Why = "has not been read yet"
		return
	}
	if info.Counts = n.counts(now); info.Counts {
		return
	}
	info.OutSince = at(n.outSince)
	info.Why = (&probationError{n.standing, max(n.countsFrom-now, 0), n.damaged}).Error()
	if n.countsFrom > now {
		info.CountsFrom = at(n.countsFrom)
	}
}
