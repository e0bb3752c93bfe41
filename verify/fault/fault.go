// Package fault injects faults into clients, networks and servers. Each fault begins,
// lasts for a time that is drawn from the run's seed, and is healed before its function
// returns. The history has a span for each, so that the checks know what was promised at
// each instant.
package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/history"
)

// Side says what a fault hits.
type Side int

// The sides, in the order of how much they hurt.
const (
	OnClient  Side = iota // a process of the suite
	OnNetwork             // the way of such a process to the servers
	OnServer              // servers that the suite has started
)

// The topologies that a run can have.
const (
	Standalone = "standalone" // one server that keeps nothing
	Durable    = "durable"    // one server that syncs its log before it answers
	EverySec   = "everysec"   // one server that syncs its log once a second
	Sentinel   = "sentinel"   // a primary, two replicas, three Sentinels
	Cluster    = "cluster"    // three primaries, a replica of each
	Quorum     = "quorum"     // five servers that know nothing of each other
)

// Topologies lists them.
func Topologies() []string { return []string{Standalone, Durable, EverySec, Sentinel, Cluster, Quorum} }

// Client is a process of the suite that acquires locks.
type Client interface {
	Number() int
	// Stop and Continue are SIGSTOP and SIGCONT.
	Stop() error
	Continue() error
	// Kill ends the process at once, and starts another with its number.
	Kill() error
	// Squeeze is Kill; the new process has one processor, and little memory.
	Squeeze() error
	// Stand makes the process stop between the last check of its lease and its write, and
	// returns when it has; Go lets it write.
	Stand(ctx context.Context) error
	Go()
	// Proxies are on its way to each of the servers, in the order of [World.Servers].
	Proxies() []*redistest.Proxy
}

// World is what faults work on.
type World interface { //nolint:interfacebloat // it is a world
	// T is the test that the functions of servers need.
	T() testing.TB
	TTL() time.Duration
	Topology() string
	Clients() []Client
	// Claim draws a client that no other fault of processes hits until the returned
	// function is called; nil if there is none.
	Claim(rng *rand.Rand) (Client, func())
	// Started says that a fault which [Fault.Aims] has begun.
	Started()
	// Writes is how many read-modify-writes the clients have reported so far.
	Writes() int64
	// Server is a server that serves the locks, or some of them.
	Server(rng *rand.Rand) *redistest.Server
	// Servers are all that serve data.
	Servers() []*redistest.Server
	// Weak draws servers of a quorum that may forget their grants, or have a wrong clock,
	// until the returned function is called. It is a minority, and it changes only when
	// all that the last one may have forgotten has expired. If it is too early, there are
	// none. In other topologies it is [World.Server].
	Weak(rng *rand.Rand) ([]*redistest.Server, func())
	// Forgot says that a majority of a quorum has forgotten its grants: for a while Weak
	// draws no servers.
	Forgot()
	// Shift moves a server's clock by d, and returns how far it is ahead of the true time.
	Shift(s *redistest.Server, d time.Duration) time.Duration
	// Sentinel and Cluster are nil in other topologies.
	Sentinel() *redistest.Sentinel
	Cluster() *redistest.Cluster
	// Do runs a command on a server, over a connection that was made before the faults.
	Do(ctx context.Context, s *redistest.Server, args ...any) (any, error)
	// Restart starts a server that was killed, and returns when the suite
	// hears its notes again. Until then no client reaches it.
	Restart(ctx context.Context, s *redistest.Server) error
	// CutSubscriptions ends the subscriptions of all clients to a server, and no others.
	CutSubscriptions(ctx context.Context, s *redistest.Server) error
	// Key is the record of a lock that all clients want.
	Key(rng *rand.Rand) string
}

// Fault is one kind of fault.
type Fault struct {
	Name, About string
	Side        Side
	Topologies  []string // where it can be; everywhere if empty
	Loses       []string // topologies in which it can lose records
	Refuses     string   // the word with which a server refuses meanwhile
	Often       bool     // it is drawn more often than others
	Aims        bool     // it waits for its moment: the others of a bout wait for it
	Late        bool     // it begins after the others of a bout: meanwhile the server takes no orders
	Forgets     bool     // of a quorum it hits the servers that [World.Weak] draws
	takes       []string // what it needs for itself
	inject      func(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error
}

// What a fault may need for itself, and why no other fault that needs it may be active at
// the same time.
const (
	roles        = "both change whose replica a server is, or which slots it serves"
	serverMemory = "both set how much memory the server may use"
	standing     = "one of them makes the server refuse the command that starts the other"
	door         = "one of them keeps the connections that carry out the other out of the server"
	saving       = "one of them keeps the server from saving the data that the other makes it load"
	majority     = "together they would affect more than a minority"
)

// Apart says why two faults may not be active at the same time, or "" if they may.
func Apart(a, b Fault) string {
	switch {
	case a.Name == b.Name && a.Side == OnServer:
		return "it affects several servers by itself; two of them on one server would be one fault"
	case a.Name == "reorder" && b.Name == "reorder":
		return "it affects all clients by itself"
	case a.Aims && b.Aims:
		return "only one client at a time has the lock and is about to write"
	case a.Forgets && slices.Contains(b.takes, majority), b.Forgets && slices.Contains(a.takes, majority):
		return majority
	}
	for _, thing := range a.takes {
		if slices.Contains(b.takes, thing) {
			return thing
		}
	}
	return ""
}

// In reports whether the fault can be injected in a topology.
func (f Fault) In(topology string) bool {
	return len(f.Topologies) == 0 || slices.Contains(f.Topologies, topology)
}

// Inject does it, and heals it. The span says what was done, whether or not
// there is an error.
func (f Fault) Inject(ctx context.Context, w World, rng *rand.Rand) (span history.FaultSpan, err error) {
	span = history.FaultSpan{Name: f.Name, From: history.Now(), Loses: slices.Contains(f.Loses, w.Topology())}
	failed := Try(func() { err = f.inject(ctx, w, rng, &span) })
	err = errors.Join(failed, err)
	span.Till = history.Now()
	if err != nil {
		span.Err = err.Error()
	}
	return span, err
}

// FailureError is a panic of the code that starts and stops servers.
type FailureError string

func (f FailureError) Error() string { return string(f) }

// All lists the faults.
func All() []Fault {
	return slices.Concat(clientFaults, networkFaults, serverFaults, refusingFaults, clockFaults)
}

// Named finds faults by name.
func Named(names []string) ([]Fault, error) {
	var faults []Fault
	for _, name := range names {
		i := slices.IndexFunc(All(), func(f Fault) bool { return f.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no fault %q", name)
		}
		faults = append(faults, All()[i])
	}
	return faults, nil
}

// between draws a time from low to high.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)+1))
}

// leases is n leases.
func leases(w World, n float64) time.Duration { return time.Duration(n * float64(w.TTL())) }

// pick draws a client, whether or not another fault hits it.
func pick(w World, rng *rand.Rand, span *history.FaultSpan) (Client, error) {
	clients := w.Clients()
	if len(clients) == 0 {
		return nil, errors.New("no client is there")
	}
	c := clients[rng.IntN(len(clients))]
	span.Procs = []int{c.Number()}
	return c, nil
}

// claim draws a client that no other fault of processes hits.
func claim(w World, rng *rand.Rand, span *history.FaultSpan) (Client, func(), error) {
	c, done := w.Claim(rng)
	if c == nil {
		return nil, nil, errors.New("other faults are at all clients")
	}
	span.Procs = []int{c.Number()}
	return c, done, nil
}
