package suite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/slot"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/history"
	"github.com/holdfast-go/holdfast/verify/workload"
)

// world is what the faults of a round work on.
type world struct {
	opts       Options
	prefix     string
	deployment *deployment
	fleet      *fleet
	collector  *collector
	log        *history.Log

	written atomic.Int64

	mu    sync.Mutex
	admin map[string]*redis.Client            // by address: connections that stand
	ahead map[*redistest.Server]time.Duration // what clocks were moved by so far

	claims fault.Claims
	weak   minority
}

var _ fault.World = (*world)(nil)

// T implements [fault.World].
func (w *world) T() testing.TB { return w.deployment.bench }

// TTL implements [fault.World].
func (w *world) TTL() time.Duration { return w.opts.TTL }

// Topology implements [fault.World].
func (w *world) Topology() string { return w.opts.Topology }

// Sentinel implements [fault.World].
func (w *world) Sentinel() *redistest.Sentinel { return w.deployment.sentinel }

// Cluster implements [fault.World].
func (w *world) Cluster() *redistest.Cluster { return w.deployment.cluster }

// Clients implements [fault.World].
func (w *world) Clients() []fault.Client {
	var clients []fault.Client
	for _, p := range w.fleet.clients() {
		clients = append(clients, p)
	}
	return clients
}

// Writes implements [fault.World].
func (w *world) Writes() int64 { return w.written.Load() }

// Key implements [fault.World].
func (w *world) Key(rng *rand.Rand) string {
	shared := slices.DeleteFunc(slices.Clone(w.opts.Works), func(name string) bool {
		return name == workload.Long || name == workload.Period
	})
	if len(shared) == 0 {
		shared = w.opts.Works
	}
	return w.prefix + ":{" + shared[rng.IntN(len(shared))] + "}"
}

// Server implements [fault.World].
func (w *world) Server(rng *rand.Rand) *redistest.Server {
	switch {
	case w.deployment.sentinel != nil:
		return w.deployment.sentinel.Primary()
	case w.deployment.cluster != nil:
		return w.deployment.cluster.Owner(slot.Of(w.Key(rng)))
	}
	return w.deployment.own[rng.IntN(len(w.deployment.own))]
}

// Servers implements [fault.World].
func (w *world) Servers() []*redistest.Server { return w.deployment.own }

// Claim implements [fault.World].
func (w *world) Claim(rng *rand.Rand) (fault.Client, func()) { return w.claims.Claim(rng, w.Clients()) }

// Started implements [fault.World]; a bout listens to it.
func (w *world) Started() {}

// Shift implements [fault.World].
func (w *world) Shift(s *redistest.Server, d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead[s] += d
	s.MoveClock(w.ahead[s])
	return w.ahead[s]
}

// spread is by how much a clock may have been moved at once, at most: one that
// is set back from an hour ahead to an hour behind has gone by two.
func (w *world) spread() time.Duration {
	var most, least time.Duration
	for _, e := range w.log.Events() {
		if e.Kind != history.Fault {
			continue
		}
		for _, step := range e.Fault.Steps {
			most, least = max(most, time.Duration(step.Ahead)), min(least, time.Duration(step.Ahead))
		}
	}
	return most - least
}

// adminAt is a connection to the server at addr. It stands from the beginning
// of the round, so it works when a server takes no more connections.
func (w *world) adminAt(addr string) (*redis.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if rdb := w.admin[addr]; rdb != nil {
		return rdb, nil
	}
	// Without a name: a server that is busy with a script lets nobody be named, and so
	// would take no connection over which it can be told to end that.
	rdb, err := w.deployment.open(addr, "")
	if err == nil {
		w.admin[addr] = rdb
	}
	return rdb, err
}

// Do implements [fault.World].
func (w *world) Do(ctx context.Context, s *redistest.Server, args ...any) (any, error) {
	rdb, err := w.adminAt(s.Addr())
	if err != nil {
		return nil, err
	}
	reply, err := rdb.Do(ctx, args...).Result()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", args, err)
	}
	return fault.Flat(reply), nil
}

// CutSubscriptions implements [fault.World].
func (w *world) CutSubscriptions(ctx context.Context, s *redistest.Server) error {
	return fault.CutSubscriptions(ctx, w, s, collectorName)
}

// comeback bounds the time that a server gets to come back.
const comeback = 30 * time.Second

// Restart implements [fault.World].
func (w *world) Restart(ctx context.Context, s *redistest.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), comeback)
	defer cancel()
	at := slices.Index(w.deployment.addrs, s.Addr())
	ways := func(do func(p *redistest.Proxy)) {
		for _, c := range w.fleet.clients() {
			do(c.proxies[at])
		}
	}
	before := w.collector.times(s.Addr())
	var shut []*redistest.Imposition
	ways(func(p *redistest.Proxy) {
		hole := p.Impose()
		hole.BlackHole()
		shut = append(shut, hole)
	})
	defer func() {
		for _, hole := range shut {
			hole.Lift()
		}
	}()
	s.Restart()
	if w.deployment.mute {
		return nil
	}
	if err := w.collector.await(ctx, s.Addr(), before); err != nil {
		return fmt.Errorf("the notes of %s are not heard again: %w", s.Addr(), err)
	}
	return nil
}

func (w *world) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, rdb := range w.admin {
		_ = rdb.Close() // nothing is left to say
	}
}
