package rueidis

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/slot"
)

// askSlots is how long the question for the map may take if no caller waits for it, and the time from one such
// question to the next.
const askSlots = 3 * time.Second

var errNoNode = errors.New("no node of the Cluster says which node serves which slots")

// slotMap says which node has a Cluster's slots. rueidis knows, too, but does not tell.
type slotMap struct {
	mu    sync.Mutex  // guards the fields below; no I/O while it is held
	known []slotRange // as one node said, in order; empty before the first question
	wrong bool        // known has proved wrong
	asked time.Time   // when the last question began that no caller waits for
}

// slotRange is a range of slots that one node serves.
type slotRange struct {
	first, last int
	addr        string
	steady      *adapter.Steady // the node's, in all of its ranges
}

// rangeOf returns the range that has a slot; the zero range if none has it.
func rangeOf(ranges []slotRange, slot int) slotRange {
	i, _ := slices.BinarySearchFunc(ranges, slot, func(r slotRange, slot int) int { return cmp.Compare(r.last, slot) })
	if i == len(ranges) || slot < ranges[i].first {
		return slotRange{}
	}
	return ranges[i]
}

// node is one node of a Cluster.
type node struct {
	addr   string
	client rueidis.Client
}

// nodesOf implements [adapter.Driver].
func (s *Store) nodesOf(ctx context.Context, channels []string, stale bool) ([]string, error) {
	ranges, err := s.slotRanges(ctx, stale)
	if err != nil {
		return nil, err
	}
	nodes := make([]string, len(channels))
	met := s.client.Nodes()
	for i, channel := range channels {
		nodes[i] = rangeOf(ranges, slot.Of(channel)).addr
		if met != nil && nodes[i] != "" && met[nodes[i]] == nil {
			s.refreshClient(ctx, channel)
			met = nil // one refresh is enough
		}
	}
	return nodes, nil
}

// refreshClient makes rueidis read the Cluster's slots again. It learns of a new primary only
// when a request of its own is answered with MOVED, and until then lends no connections to it.
// Any other answer is ignored: there may be no such key, or the user may lack the permission.
func (s *Store) refreshClient(ctx context.Context, key string) {
	_ = s.do(ctx, s.client.B().Pttl().Key(key).Build())
}

// primary returns a node that serves slots: with each try perhaps another, since one may be down.
func (s *Store) primary(ctx context.Context, try int) (node, error) {
	ranges, err := s.slotRanges(ctx, false)
	if err != nil {
		return node{}, err
	}
	nodes := s.client.Nodes()
	for i := range ranges {
		r := ranges[(try+i)%len(ranges)]
		if client := nodes[r.addr]; client != nil {
			return node{r.addr, client}, nil
		}
	}
	s.slots.forget()
	return node{}, adapter.Unsent(errNoNode)
}

// owner returns the node that serves the keys' slot.
func (s *Store) owner(ctx context.Context, keys []string) (rueidis.Client, error) {
	if len(keys) == 0 {
		node, err := s.primary(ctx, 0)
		return node.client, err
	}
	addrs, err := s.nodesOf(ctx, keys[:1], false)
	if err != nil {
		return nil, err
	}
	client := s.client.Nodes()[addrs[0]]
	if client == nil {
		s.slots.forget()
		return nil, adapter.Unsent(errUnknownNode)
	}
	return client, nil
}

// forget is called when the map has proved wrong: the next question goes to the Cluster.
func (p *slotMap) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = true
}

// steady tells of the node that has a slot; nil if the map does not have it.
func (p *slotMap) steady(slot int) *adapter.Steady {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	return rangeOf(known, slot).steady
}

// learn is called with what a node says, and returns it as it is known from now on. If slots have moved, nothing is
// known of any node: requests without an answer may have been counted for another one than they went to.
func (p *slotMap) learn(ranges []slotRange) []slotRange {
	slices.SortFunc(ranges, func(a, b slotRange) int { return cmp.Compare(a.first, b.first) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = false
	if slices.EqualFunc(p.known, ranges, func(a, b slotRange) bool {
		return a.first == b.first && a.last == b.last && a.addr == b.addr
	}) {
		return p.known
	}
	nodes := make(map[string]*adapter.Steady)
	for i, r := range ranges {
		if nodes[r.addr] == nil {
			nodes[r.addr] = new(adapter.Steady)
		}
		ranges[i].steady = nodes[r.addr]
	}
	p.known = ranges
	return ranges
}

// due reports whether to ask for the map although no caller waits for it: there is none, or a request got no answer.
func (p *slotMap) due(answered bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answered && len(p.known) > 0 || time.Since(p.asked) < askSlots {
		return false
	}
	p.asked = time.Now()
	return true
}

// noKey is the slot of a request without a key, which uses the first connection.
const noKey = 1 << 15

// serverOf tells of the server that cmd goes to; nil if that is not known.
func (s *Store) serverOf(cmd rueidis.Completed) *adapter.Steady {
	switch {
	case s.mode == rueidis.ClientModeCluster:
		return s.slots.steady(int(cmd.Slot()))
	case cmd.Slot() == noKey: // its answer says nothing of the other connections
		return &s.first
	}
	return &s.steady
}

// note records whether a server has answered a request.
//
// Without an answer the map may be out of date. For example, a slot has moved from node A to node B, which is frozen
// now. A answers for its other slots, so the map would call it steady while requests for the slot wait for connections
// to B.
func (s *Store) note(server *adapter.Steady, answered bool) {
	server.Note(answered)
	if s.mode != rueidis.ClientModeCluster || server != nil && answered || !s.slots.due(answered) {
		return
	}
	go func() {
		routeLabel.Set()
		ctx, cancel := context.WithTimeout(context.Background(), askSlots)
		defer cancel()
		_, _ = s.slotRanges(ctx, true)
	}()
}

var routeLabel = label.New("routing")

// slotRanges returns which node serves which slots, from the first node that answers.
func (s *Store) slotRanges(ctx context.Context, stale bool) ([]slotRange, error) {
	s.slots.mu.Lock()
	known, wrong := s.slots.known, s.slots.wrong
	s.slots.mu.Unlock()
	if len(known) > 0 && !wrong && !stale {
		return known, nil
	}
	err := errNoNode
	for addr, client := range s.client.Nodes() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var ranges []slotRange
		if ranges, err = slotsOf(ctx, addr, client); err == nil && len(ranges) > 0 {
			return s.slots.learn(ranges), nil
		}
	}
	return nil, adapter.Unsent(err)
}

// slotsOf asks the node at addr.
func slotsOf(ctx context.Context, addr string, client rueidis.Client) ([]slotRange, error) {
	reply, err := client.Do(ctx, client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(addr)
	var ranges []slotRange
	for _, entry := range reply {
		fields, err := entry.ToArray()
		if err != nil || len(fields) < 3 {
			continue
		}
		first, _ := fields[0].AsInt64()
		last, _ := fields[1].AsInt64()
		owner, err := fields[2].ToArray()
		if err != nil || len(owner) < 2 {
			continue
		}
		at, _ := owner[0].ToString()
		if at == "" || at == "?" {
			at = host // it names no host: the same as its own
		}
		port, _ := owner[1].AsInt64()
		ranges = append(ranges, slotRange{
			first: int(first), last: int(last), addr: net.JoinHostPort(at, strconv.FormatInt(port, 10)),
		})
	}
	return ranges, nil
}
