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

var errNoNode = errors.New("no node of the Cluster says who serves the slots")

// places is where a Cluster's slots live. rueidis knows, too, but does not tell.
type places struct {
	mu    sync.Mutex // guards known; no I/O while it is held
	known []span     // as one node said; empty before it was asked
}

// span is slots that one node serves.
type span struct {
	first, last int
	addr        string
}

// node is one of a Cluster's.
type node struct {
	addr   string
	client rueidis.Client
}

// place implements [adapter.Wire].
func (s *Store) place(ctx context.Context, channels []string, stale bool) ([]string, error) {
	spans, err := s.spans(ctx, stale)
	if err != nil {
		return nil, err
	}
	nodes := make([]string, len(channels))
	met := s.client.Nodes()
	for i, channel := range channels {
		n := slot.Of(channel)
		for _, span := range spans {
			if span.first <= n && n <= span.last {
				nodes[i] = span.addr
			}
		}
		if met != nil && nodes[i] != "" && met[nodes[i]] == nil {
			s.meet(ctx, channel)
			met = nil // once is enough
		}
	}
	return nodes, nil
}

// meet has rueidis look at the Cluster again. It learns of a new primary only
// when a request of its own is answered with MOVED, and until then does not
// lend us connections to it. What else is answered does not matter: it may be
// that there is no such key, or that we may not ask.
func (s *Store) meet(ctx context.Context, key string) {
	_ = s.do(ctx, s.client.B().Pttl().Key(key).Build())
}

// primary returns a node that serves slots.
func (s *Store) primary(ctx context.Context) (node, error) {
	spans, err := s.spans(ctx, false)
	if err != nil {
		return node{}, err
	}
	nodes := s.client.Nodes()
	for _, span := range spans {
		if client := nodes[span.addr]; client != nil {
			return node{span.addr, client}, nil
		}
	}
	s.places.forget()
	return node{}, unsentError{errNoNode}
}

// owner returns the node that serves the keys' slot.
func (s *Store) owner(ctx context.Context, keys []string) (rueidis.Client, error) {
	if len(keys) == 0 {
		node, err := s.primary(ctx)
		return node.client, err
	}
	addrs, err := s.place(ctx, keys[:1], false)
	if err != nil {
		return nil, err
	}
	client := s.client.Nodes()[addrs[0]]
	if client == nil {
		s.places.forget()
		return nil, unsentError{errUnknown}
	}
	return client, nil
}

// forget is for when what was known has proved wrong: the next question is
// put to the Cluster.
func (p *places) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = nil
}

// spans returns who serves what, as the first node says that answers.
func (s *Store) spans(ctx context.Context, stale bool) ([]span, error) {
	s.places.mu.Lock()
	known := s.places.known
	s.places.mu.Unlock()
	if len(known) > 0 && !stale {
		return known, nil
	}
	err := errNoNode
	for addr, client := range s.client.Nodes() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var spans []span
		if spans, err = slotsOf(ctx, addr, client); err == nil && len(spans) > 0 {
			s.places.mu.Lock()
			s.places.known = spans
			s.places.mu.Unlock()
			return spans, nil
		}
	}
	return nil, unsentError{err}
}

// slotsOf asks the node at addr.
func slotsOf(ctx context.Context, addr string, client rueidis.Client) ([]span, error) {
	reply, err := client.Do(ctx, client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(addr)
	var spans []span
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
			at = host // it does not tell: the same as its own
		}
		port, _ := owner[1].AsInt64()
		spans = append(spans, span{int(first), int(last), net.JoinHostPort(at, strconv.FormatInt(port, 10))})
	}
	return spans, nil
}
