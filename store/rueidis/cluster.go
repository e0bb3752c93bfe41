package rueidis

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/slot"
)

var errNoNode = errors.New("no node of the Cluster says which node serves which slots")

// slotMap says which node has a Cluster's slots. rueidis knows, too, but does not tell.
type slotMap struct {
	mu    sync.Mutex  // guards known; no I/O while it is held
	known []slotRange // as one node said; empty before the first question
}

// slotRange is a range of slots that one node serves.
type slotRange struct {
	first, last int
	addr        string
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
		n := slot.Of(channel)
		for _, r := range ranges {
			if r.first <= n && n <= r.last {
				nodes[i] = r.addr
			}
		}
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
	return node{}, notSentError{errNoNode}
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
		return nil, notSentError{errUnknownNode}
	}
	return client, nil
}

// forget is called when the map has proved wrong: the next question goes to the Cluster.
func (p *slotMap) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = nil
}

// slotRanges returns which node serves which slots, from the first node that answers.
func (s *Store) slotRanges(ctx context.Context, stale bool) ([]slotRange, error) {
	s.slots.mu.Lock()
	known := s.slots.known
	s.slots.mu.Unlock()
	if len(known) > 0 && !stale {
		return known, nil
	}
	err := errNoNode
	for addr, client := range s.client.Nodes() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var ranges []slotRange
		if ranges, err = slotsOf(ctx, addr, client); err == nil && len(ranges) > 0 {
			s.slots.mu.Lock()
			s.slots.known = ranges
			s.slots.mu.Unlock()
			return ranges, nil
		}
	}
	return nil, notSentError{err}
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
		ranges = append(ranges, slotRange{int(first), int(last), net.JoinHostPort(at, strconv.FormatInt(port, 10))})
	}
	return ranges, nil
}
