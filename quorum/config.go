package quorum

import (
	"cmp"
	"fmt"
	"reflect"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/lifecycle"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/store"
)

// Example: New with three stores and Config{MaxTTL: 30 * time.Second} makes a quorum in which a
// server that restarts empty is left out of new grants for 30 s. A lease of a minute is refused.
//
// Why must MaxTTL be the same everywhere? Suppose that one process has 30 s, and another one takes
// leases of a minute. A server restarts empty. The first process counts it again after 30 s, when a
// lease that it forgot may go on.

// Config configures a quorum. The zero value is good for most programs.
type Config struct {
	// MaxTTL is the longest lease that any process takes on these nodes. It must be the same
	// in every process. Longer leases are refused with [ErrTTLTooLong]. If a node loses its
	// memory, it does not count for new grants for this long. Default: 1 min.
	MaxTTL time.Duration

	// Timeout bounds one request to one node. A tenth of the lease's TTL bounds it too, so
	// that a silent node leaves time for the others. If a majority of the nodes answers late,
	// that is up to a quarter of the TTL. Default: 500 ms.
	Timeout time.Duration
}

// New makes one store of several nodes. It does no I/O: the first use does, and refuses nodes
// that are the same server with [ErrSameServer]. New returns an [ErrConfig] if the number of
// nodes is even or less than three, or if a store cannot be a node.
//
// The nodes belong to the caller: closing the store does not close them.
func New(nodes []store.Store, cfg Config) (*Store, error) {
	cfg.MaxTTL = cmp.Or(cfg.MaxTTL, time.Minute)
	cfg.Timeout = cmp.Or(cfg.Timeout, 500*time.Millisecond)
	switch n := len(nodes); {
	case n < 3:
		return nil, invalid("a quorum of %d nodes tolerates no failure: use 3 or 5 independent servers", n)
	case n%2 == 0:
		return nil, invalid("a quorum of %d nodes tolerates no more failures than one of %d: use an odd number", n, n-1)
	case n > maxNodes:
		return nil, invalid("a quorum of %d nodes is too large: use at most %d", n, maxNodes)
	case cfg.MaxTTL < 10*time.Millisecond:
		return nil, invalid("Config.MaxTTL is %v: it must be at least the longest TTL in use", cfg.MaxTTL)
	case cfg.Timeout < time.Millisecond:
		return nil, invalid("Config.Timeout is %v: it must be at least 1ms", cfg.Timeout)
	}
	s := &Store{
		servers: &servers{
			cfg: cfg, majority: majority.Of(len(nodes)), clock: clock.Now, life: lifecycle.New(),
			contradictions: contradictions{maxTTL: cfg.MaxTTL, known: make(map[nodeLock]*contradiction)},
		},
		acquisitions: make(map[string]*acquisition), states: make(map[string]*nodeStates),
	}
	for i, st := range nodes {
		switch {
		case isNil(st):
			return nil, invalid("node %d is nil: make a store of each server, for example with goredis.New", i+1)
		case st.Sharded():
			return nil, invalid("node %d is a Cluster, a single system with failovers of its own: "+
				"use independent servers", i+1)
		}
		for j, other := range nodes[:i] {
			if reflect.ValueOf(st).Comparable() && st == other {
				return nil, invalid("nodes %d and %d are the same store: use independent servers", j+1, i+1)
			}
		}
		s.nodes = append(s.nodes, &node{Store: st, servers: s.servers, number: i + 1, fellSilent: s.recheckSoon})
	}
	if fake, ok := store.As[store.Simulated](nodes[0]); ok && fake.Clock() != nil {
		s.clock, s.simulated = fake.Clock(), true
	}
	return s, nil
}

// maxNodes bounds a quorum: each acquisition asks every node twice.
const maxNodes = 99

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrConfig, fmt.Errorf(format, args...))
}

// isNil reports whether there is no store, or one with a nil pointer.
func isNil(s store.Store) bool {
	v := reflect.ValueOf(s)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
