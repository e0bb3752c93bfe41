package quorum

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/lifecycle"
	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/pushes"
	"github.com/holdfast-go/holdfast/internal/yield"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// The store takes the place of one server: the client sends it the actions of scripts, and Run
// answers. For example, Run(acquire, "orders:{7}") asks all servers for the lock, and answers
// "granted 4711 0" once a majority has granted and has the token 4711. The client cannot tell
// that answer from the answer of one server.
//
// Where to read on:
//
//	from an acquire to its answer       acquire.go (runRound, conclude), then token.go
//	what two of five grants lead to     acquire.go (runRound, maxReasks), wait.go (collect)
//	what wakes a waiter                 wait.go (handlePush, collect, poll)
//	the phases of an acquisition        acquisition.go
//	what is known of one server         bid.go; of all of them in one try: round.go
//	how a request is sent               nodeattempt.go (send), node.go (call), window.go
//	how a lease goes on                 renew.go asks when the client says so; outcome.go decides
//	how anything ends                   release.go
//	where a lost reply is undone        nodeattempt.go (cancelLater), owed.go, node.go (sendCancels)
//	which server is the coordinator     coordinator.go, contradictions.go
//	which servers count                 marks.go asks, marktable.go and majority/clock.go decide
//
// bid.go, outcome.go, owed.go, contradictions.go, marktable.go and package majority decide without
// a clock and without a request. All else asks the servers and carries decisions out.
//
// Order of mutexes. While a goroutine holds one of these, it locks only those below it:
//
//	acquisition.driver   a channel: the goroutine that takes an acquisition further
//	nodeAttempt.gate     a channel: the one request of an attempt that is under way
//	acquisition.mu       the phase, the round, and all bids of the acquisition
//	nodeStates.mu        the marks of the servers, for one prefix
//	node.mu              how a server answers, and which cancels it is owed
//	contradictions.mu    what a majority says against a coordinator
//
// Under the following, no other mutex of the package is locked: Store.mu, lateWindow.mu, lazy.mu.
// Under pushes.Listener.mu the client's functions run, so it is never locked while another mutex
// is held. No request is sent under a mutex, because a request waits for a server. Requests are sent
// under driver and gate, which are channels: a goroutine can stop waiting for driver, and gate is
// held for one bounded request.

// Store is a lock store over a quorum of nodes. Many goroutines may use it at once.
type Store struct {
	*servers
	simulated bool
	listeners pushes.Listeners

	// mu guards the fields below. Under it nothing is sent, no callback runs, and no other mutex
	// of the package is locked.
	mu           lockorder.Mutex[Store]
	acquisitions map[string]*acquisition // by attempt ID, see nameFor; sweep removes abandoned ones
	lastSweep    int                     // how many acquisitions the last sweep left
	states       map[string]*nodeStates  // by prefix; none is ever removed
	rechecks     rechecks
}

var _ interface {
	store.Scanner
	store.Simulated
} = (*Store)(nil)

// servers are the nodes, and what is known of all of them. An acquisition, its attempts, the marks
// and the nodes themselves see this, and not the store with its other acquisitions. Its fields do
// not change after New, so it needs no mutex. A node and the contradictions have mutexes of their own.
type servers struct {
	cfg            Config
	nodes          []*node
	majority       int
	clock          func() time.Duration // counts while the machine sleeps, too; in tests that of the first node
	life           *lifecycle.Group     // its context ends all requests when the store closes
	contradictions contradictions
	ids            atomic.Uint64 // the numbers of node attempts so far: none is used twice
}

func (s *servers) now() time.Duration { return s.clock() }

// Clock implements [store.Simulated]: the clock of the first node, if that clock is simulated.
func (s *Store) Clock() func() time.Duration {
	if s.simulated {
		return s.clock
	}
	return nil
}

// Random implements [store.Simulated]: a client draws real random numbers.
func (s *Store) Random() func() float64 { return nil }

// Run implements [store.Store]: it sends the action to all nodes and combines their answers
// into one. If an action has no meaning over several servers, Run refuses it with
// [ErrUnsupported].
//
// An error that is not a refusal names the nodes that do not count; a [*NoMajorityError] lists
// what each of them said.
func (s *Store) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	ctx, stop := yield.Context(ctx) // an answer of a server that has arrived counts
	defer stop()
	if err := s.usable(); err != nil {
		return "", err
	}
	act := actions[action.Name]
	if act == nil {
		return "", refuse(ErrUnsupported, "UNSUPPORTED", "the action %s is not supported over several servers",
			action.Name)
	}
	if len(keys) == 0 {
		return "", refuse(errInvalidCall, "ERR", "%s needs a key", action.Name)
	}
	return act(s, ctx, keys, args)
}

// The labels of the goroutines that go on after a call has ended, for profiles. What a call
// waits for has the labels of its caller.
var (
	cancelLabel    = label.New("quorum: cancel")
	grantLabel     = label.New("quorum: grant")
	openLabel      = label.New("quorum: open a node")
	readLabel      = label.New("quorum: read the nodes")
	recheckLabel   = label.New("quorum: tell waiters to poll")
	restoreLabel   = label.New("quorum: restore a lease")
	subscribeLabel = label.New("quorum: subscription")
)

// actions are those that a quorum supports, by the names of their scripts. The quorum itself
// runs RaiseFence and MarkServer on single servers.
var actions = map[string]func(s *Store, ctx context.Context, keys, args []string) (string, error){
	script.Acquire.Name:        (*Store).acquire,
	script.AcquireAll.Name:     (*Store).acquireAll,
	script.Release.Name:        (*Store).release,
	script.ReleaseAfter.Name:   (*Store).releaseAfter,
	script.Renew.Name:          (*Store).renew,
	script.Poll.Name:           (*Store).poll,
	script.Cancel.Name:         (*Store).cancel,
	script.Inspect.Name:        (*Store).inspect,
	script.Evict.Name:          (*Store).evict,
	script.Check.Name:          (*Store).check,
	script.CheckACL.Name:       (*Store).checkACL,
	script.RegisterClient.Name: (*Store).registerClient,
	script.ReadClient.Name:     (*Store).readClient,
}

func (s *Store) usable() error {
	if s.life.IsClosing() {
		return ErrClosed
	}
	return nil
}

// Group implements [store.Store].
func (s *Store) Group(key string) string {
	groups := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		groups[i] = n.Group(key)
	}
	if strings.Join(groups, "") == "" {
		return ""
	}
	return strings.Join(groups, " ")
}

// Sharded implements [store.Store]: no node of a quorum is a Cluster.
func (s *Store) Sharded() bool { return false }

// Server implements [store.Store]. It reports the oldest version, the role of a replica if a
// node is one, and all addresses. It needs the answers of a majority.
func (s *Store) Server(ctx context.Context) (store.ServerInfo, error) {
	if err := ctx.Err(); err != nil {
		return store.ServerInfo{}, err
	}
	if err := s.usable(); err != nil {
		return store.ServerInfo{}, err
	}
	timeout := s.requestTimeout(ctx, 0)
	infos, err := askEach(ctx, s.servers, func(_ context.Context, _ int, n *node) (store.ServerInfo, error) {
		return n.readServer(timeout)
	})
	if err != nil {
		return store.ServerInfo{}, err
	}
	return united(infos), nil
}

// united describes several servers as one, by the least capable of them. Example: of three
// primaries two run 7.2 and one runs 7.0.15, so the answer has 7.0.15. If one is a replica, the
// answer is that replica: no lock can be taken there.
func united(infos map[int]store.ServerInfo) store.ServerInfo {
	var u store.ServerInfo
	var addresses []string
	for _, i := range slices.Sorted(maps.Keys(infos)) {
		info := infos[i]
		switch {
		case info.Role == "replica" || info.Role == "slave":
			info.Mode = "quorum"
			return info
		case u.Product == "" || older(info.Version, u.Version):
			u = info
		}
		addresses = append(addresses, info.Address)
	}
	u.Mode, u.Address = "quorum", strings.Join(addresses, ",")
	return u
}

// older compares version numbers field by field.
func older(a, b string) bool {
	for a != "" && b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if x != y {
			return len(x) < len(y) || len(x) == len(y) && x < y
		}
	}
	return false
}

// Close ends the store's background work: requests under way, positions in wait queues, and
// cancels for nodes that do not answer. What such a node still holds expires within its TTL.
// Close the clients first. Later calls do nothing.
func (s *Store) Close() {
	s.life.Stop()
	s.CloseIdleConnections()
}

// CloseIdleConnections implements [store.IdleCloser] for the nodes that do.
func (s *Store) CloseIdleConnections() {
	for _, n := range s.nodes {
		if own, ok := store.As[store.IdleCloser](n.Store); ok {
			own.CloseIdleConnections()
		}
	}
}
