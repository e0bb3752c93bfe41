package neighbours

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/fault"
)

// Faults are the names of those that a run injects. None of them makes a server that syncs its log
// forget something.
var Faults = []string{ //nolint:gochecknoglobals // it never changes
	"stop", "kill", "latency", "cut", "half-open", "refuse", "reorder", "reply-lost",
	"server-kill", "server-stop", "server-pause", "script-flush", "connections", "deaf",
}

// world is what the faults of a run work on: servers that lose nothing, and the processes of a fleet.
type world struct {
	fault.Still
	servers []*redistest.Server
	locks   []string
	fleet   *fleet

	claims fault.Claims
	admin  map[string]*redis.Client // by address: connections that stand
}

var _ fault.World = (*world)(nil)

// newWorld starts the servers.
func newWorld(bench *fault.Bench, servers int, ttl time.Duration, locks []string) (w *world, err error) {
	w = &world{Still: fault.Still{Bench: bench, Lease: ttl}, locks: locks, admin: make(map[string]*redis.Client)}
	err = fault.Try(func() {
		w.servers = redistest.Primaries(bench, servers, redistest.AllowAll(), redistest.Harness(), redistest.Args(
			"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"))
	})
	if err != nil {
		return nil, err
	}
	for _, s := range w.servers {
		user, password := s.Admin()
		w.admin[s.Addr()] = redis.NewClient(&redis.Options{
			Addr: s.Addr(), Username: user, Password: password, TLSConfig: redistest.TLS(), DisableIdentity: true,
			ContextTimeoutEnabled: true, ReadTimeout: 20 * time.Second, MaxRetries: -1,
		})
		if err := w.admin[s.Addr()].Ping(context.Background()).Err(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *world) close() {
	for _, rdb := range w.admin {
		_ = rdb.Close() // nothing is left to say
	}
}

// Topology implements [fault.World].
func (w *world) Topology() string {
	if len(w.servers) > 1 {
		return fault.Quorum
	}
	return fault.Durable
}

// Clients implements [fault.World].
func (w *world) Clients() (clients []fault.Client) {
	for _, p := range w.fleet.clients() {
		clients = append(clients, p)
	}
	return clients
}

// Claim implements [fault.World].
func (w *world) Claim(rng *rand.Rand) (fault.Client, func()) { return w.claims.Claim(rng, w.Clients()) }

// Server implements [fault.World].
func (w *world) Server(rng *rand.Rand) *redistest.Server { return w.servers[rng.IntN(len(w.servers))] }

// Servers implements [fault.World].
func (w *world) Servers() []*redistest.Server { return w.servers }

// Weak implements [fault.World]. The servers forget nothing, so that any minority may be hit.
func (w *world) Weak(rng *rand.Rand) ([]*redistest.Server, func()) {
	servers := slices.Clone(w.servers)
	rng.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	return servers[:max(1, rng.IntN((len(servers)-1)/2+1))], func() {}
}

// Shift implements [fault.World]. No fault of a run moves clocks.
func (w *world) Shift(*redistest.Server, time.Duration) time.Duration {
	panic("BUG: the servers' clocks are the machine's")
}

// Do implements [fault.World].
func (w *world) Do(ctx context.Context, s *redistest.Server, args ...any) (any, error) {
	reply, err := w.admin[s.Addr()].Do(ctx, args...).Result()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", args, err)
	}
	return reply, nil
}

// CutSubscriptions implements [fault.World].
func (w *world) CutSubscriptions(ctx context.Context, s *redistest.Server) error {
	return fault.CutSubscriptions(ctx, w, s, "")
}

// Key implements [fault.World].
func (w *world) Key(rng *rand.Rand) string { return w.locks[rng.IntN(len(w.locks))] }
