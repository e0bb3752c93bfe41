package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/slot"
	"github.com/holdfast-go/holdfast/verify/history"
)

// Topologies without replicas: of one server, and of servers of which each can
// be lost.
var (
	single = []string{Standalone, Durable, EverySec}
	alone  = []string{Standalone, Durable, EverySec, Quorum}
)

var serverFaults = []Fault{
	{Name: "server-kill", About: "the server is killed and started again", Side: OnServer, Often: true, Late: true,
		Forgets: true, Topologies: alone, Loses: []string{Standalone, EverySec}, inject: serverKill},
	{Name: "server-stop", About: "the server is stopped", Side: OnServer, Topologies: alone, Late: true,
		Often: true, inject: serverStop},
	{Name: "server-pause", About: "the server makes clients wait (CLIENT PAUSE)", Side: OnServer, Late: true,
		takes: []string{standing}, inject: serverPause},
	{Name: "script-flush", About: "the server forgets its scripts", Side: OnServer, inject: scriptFlush},
	{Name: "flush-all", About: "the server forgets everything", Side: OnServer, Topologies: single, Loses: single,
		inject: flushAll},
	{Name: "evict", About: "the server evicts keys, although the documentation forbids it", Side: OnServer,
		Topologies: single, Loses: single, takes: []string{serverMemory}, inject: evict},
	{Name: "connections", About: "clients are cut off, and the server accepts no new connections", Side: OnServer,
		takes: []string{standing, door}, inject: connections},
	{Name: "deaf", About: "the subscriptions end, and everything else works", Side: OnServer, inject: cutSubscriptions},
	{Name: "failover", About: "a replica takes over while the primary runs", Side: OnServer,
		Topologies: replicated, Loses: []string{Sentinel}, takes: []string{roles, door}, inject: failover},
	{Name: "crash", About: "a primary is cut off from its replicas, and killed", Side: OnServer, Late: true,
		Topologies: replicated, Loses: replicated, takes: []string{roles, door}, inject: crash},
	{Name: "migrate", About: "the slot of a lock moves to another server and back", Side: OnServer,
		Topologies: []string{Cluster}, takes: []string{roles, door}, inject: migrate},
}

// insist repeats a command until the server does it: beside another fault the server may
// be away, or not take commands yet.
func insist(ctx context.Context, w World, s *redistest.Server, args ...any) (any, error) {
	var said error // the last that the server itself had to say
	for {
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		reply, err := w.Do(once, s, args...)
		cancel()
		if err == nil {
			return reply, nil
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			said = err
		}
		if ctx.Err() != nil {
			return reply, errors.Join(err, said)
		}
		history.Sleep(ctx, 10*time.Millisecond)
	}
}

// begun bounds the beginning of a fault, and healed its end.
func begun(ctx context.Context, w World) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, leases(w, 3))
}

func healed(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
}

// repeat does something several times within a part of a lease: an instant event meets
// other faults only if it happens more than once.
func repeat(ctx context.Context, w World, rng *rand.Rand, do func(ctx context.Context) error) error {
	n, d := 1+rng.IntN(3), between(rng, leases(w, 0.1), leases(w, 0.6))
	limited, cancel := begun(ctx, w)
	defer cancel()
	var err error
	for i := range n {
		if i > 0 && ctx.Err() != nil {
			break
		}
		err = errors.Join(err, do(limited))
		history.Sleep(ctx, d/time.Duration(n))
	}
	return err
}

// written waits until the log has all that the server has answered. While a disk syncs
// slowly, the server delays that for up to two seconds: a loss would then reach back to
// before the fault.
func written(ctx context.Context, w World, s *redistest.Server) error {
	limited, cancel := begun(ctx, w)
	defer cancel()
	for {
		reply, err := insist(limited, w, s, "INFO", "persistence")
		if err != nil {
			return err
		}
		if text, _ := reply.(string); strings.Contains(text, "aof_buffer_length:0\r") {
			return nil
		}
		history.Sleep(limited, time.Millisecond)
	}
}

// serverKill ends the server as a crash would, or one or two of a quorum. The data are
// lost, unless there is a log. A log that is synced once a second loses its end.
func serverKill(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.05), leases(w, 0.7))
	unsynced := between(rng, 100*time.Millisecond, time.Second)
	span.Blind = true
	servers, done := weak(w, rng, span)
	defer done()
	if len(servers) == 0 {
		return errWeak
	}
	log := make(map[*redistest.Server]int64)
	if w.Topology() == EverySec {
		for _, s := range servers {
			if err := written(ctx, w, s); err != nil {
				return err
			}
			log[s] = s.LogSize()
		}
		history.Sleep(ctx, unsynced)
	}
	var lost int64
	for _, s := range servers {
		s.Kill()
		if size, ok := log[s]; ok {
			lost += s.LogSize() - size
			s.CutLog(size)
		}
	}
	if len(log) > 0 {
		span.Text = fmt.Sprintf("%d bytes of its log lost", lost)
	}
	history.Sleep(ctx, d)
	var failed error
	for _, s := range servers {
		failed = errors.Join(failed, w.Restart(ctx, s))
	}
	return failed
}

// some draws one of a list, or more.
func some(rng *rand.Rand, list []*redistest.Server) []*redistest.Server {
	list = slices.Clone(list)
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:1+rng.IntN(len(list))]
}

// minority draws servers: the only one, or one or two of a quorum.
func minority(w World, rng *rand.Rand, span *history.FaultSpan) []*redistest.Server {
	if w.Topology() != Quorum {
		return []*redistest.Server{w.Server(rng)}
	}
	all := some(rng, w.Servers())
	all = all[:min(len(all), (len(w.Servers())-1)/2)]
	span.Servers = redistest.Addrs(all)
	return all
}

// one draws a server: the one that there is, or one of several.
func one(w World, rng *rand.Rand, span *history.FaultSpan) *redistest.Server {
	s := w.Server(rng)
	if w.Topology() == Quorum {
		span.Servers = []string{s.Addr()}
	}
	return s
}

// weak draws servers that may forget, or go by a wrong clock.
func weak(w World, rng *rand.Rand, span *history.FaultSpan) ([]*redistest.Server, func()) {
	servers, done := w.Weak(rng)
	if w.Topology() == Quorum {
		span.Servers = redistest.Addrs(servers)
	}
	return servers, done
}

func serverStop(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.2), leases(w, 1.5))
	servers := minority(w, rng, span)
	for _, s := range servers {
		s.Pause()
	}
	history.Sleep(ctx, d)
	for _, s := range servers {
		if s.Running() { // another fault may have killed it
			s.Continue()
		}
	}
	return nil
}

func serverPause(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.2), leases(w, 1.2))
	mode := []string{"ALL", "WRITE"}[rng.IntN(2)]
	span.Text = mode
	limited, cancel := begun(ctx, w)
	defer cancel()
	if _, err := insist(limited, w, one(w, rng, span), "CLIENT", "PAUSE", d.Milliseconds(), mode); err != nil {
		return err
	}
	span.From = history.Now()
	history.Sleep(ctx, d)
	return nil
}

func scriptFlush(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	s := one(w, rng, span)
	return repeat(ctx, w, rng, func(ctx context.Context) error {
		_, err := insist(ctx, w, s, "SCRIPT", "FLUSH", "SYNC")
		return err
	})
}

func flushAll(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	s := one(w, rng, span)
	err := repeat(ctx, w, rng, func(ctx context.Context) error {
		_, err := insist(ctx, w, s, "FLUSHALL")
		return err
	})
	if err != nil {
		// A command without an answer may still run. When the server answers, it has run.
		heal, cancel := healed(ctx)
		defer cancel()
		_, _ = insist(heal, w, s, "PING")
	}
	return err
}

// evict leaves the server a little less memory than it needs, and lets it evict: it
// deletes record after record.
func evict(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.3), leases(w, 1))
	s := w.Server(rng)
	number := func(section, name string) (n int64, err error) {
		reply, err := insist(ctx, w, s, "INFO", section)
		text, _ := reply.(string)
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(line, name+":"); ok {
				return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			}
		}
		return 0, errors.Join(err, fmt.Errorf("INFO %s has no %s", section, name))
	}
	set := func(ctx context.Context, policy string, limit int64) error {
		_, err := insist(ctx, w, s, "CONFIG", "SET", "maxmemory-policy", policy, "maxmemory", limit)
		return err
	}
	heal, cancel := healed(ctx)
	defer cancel()
	started, cancelStart := begun(ctx, w)
	defer cancelStart()
	ctx = started
	before, err := number("stats", "evicted_keys")
	for till := time.Now().Add(d); err == nil && time.Now().Before(till) && ctx.Err() == nil; {
		var used int64
		if used, err = number("memory", "used_memory"); err == nil {
			err = set(ctx, "allkeys-lru", used-used/1000)
		}
		history.Sleep(ctx, 20*time.Millisecond)
	}
	err = errors.Join(err, set(heal, "noeviction", 0))
	if err != nil {
		return err
	}
	ctx = heal
	after, err := number("stats", "evicted_keys")
	if after < before {
		before = 0 // it was started anew meanwhile
	}
	span.Text = fmt.Sprintf("%d keys evicted", after-before)
	if err == nil && after == before {
		err = errors.New("nothing was evicted")
	}
	return err
}

// connections leaves enough for one in two of the present connections.
func connections(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.2), leases(w, 1.5))
	s := one(w, rng, span)
	limited, cancel := begun(ctx, w)
	defer cancel()
	// A client that lost its connection meanwhile finds no other one. Nor does the suite.
	var spare *redistest.Conn
	if err := Try(func() { spare = s.Dial(w.T()) }); err != nil {
		return err
	}
	defer spare.Close()
	few := max(len(w.Clients()), 2)
	if _, err := insist(limited, w, s, "CONFIG", "SET", "maxclients", few); err != nil {
		return err
	}
	span.From = history.Now()
	hangUp(w, s)
	history.Sleep(ctx, d)
	heal, cancelHeal := healed(ctx)
	defer cancelHeal()
	for heal.Err() == nil {
		var said any
		err := Try(func() { said = spare.Do(w.T(), "CONFIG", "SET", "maxclients", 10_000) })
		if err != nil || said == "OK" {
			break // a server that was started again knows nothing of it
		}
		history.Sleep(heal, 10*time.Millisecond)
	}
	_, err := insist(heal, w, s, "CONFIG", "SET", "maxclients", 10_000)
	return err
}

// hangUp cuts all clients' connections to a server.
func hangUp(w World, s *redistest.Server) {
	at := slices.Index(w.Servers(), s)
	for _, c := range w.Clients() {
		c.Proxies()[at].Cut()
	}
}

func cutSubscriptions(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	s := one(w, rng, span)
	return repeat(ctx, w, rng, func(ctx context.Context) error {
		for {
			err := w.CutSubscriptions(ctx, s)
			if err == nil || ctx.Err() != nil {
				return err
			}
			history.Sleep(ctx, 10*time.Millisecond)
		}
	})
}

// failover makes a replica take over. In a Cluster the two agree, and nothing is lost; a
// Sentinel promises nothing.
func failover(_ context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	if g := w.Sentinel(); g != nil {
		g.FailOver()
		settled(w, g)
		return nil
	}
	s := w.Server(rng)
	span.Text = s.Addr()
	// Nodes vote for one successor of a primary in twice this time.
	c := w.Cluster()
	c.Each(w.T(), "CONFIG", "SET", "cluster-node-timeout", attentive)
	begun := time.Now()
	c.FailOver(s)
	// The old primary waits this long for its successor. Then it takes writes again, which
	// the successor does not get.
	span.Loses = span.Loses || time.Since(begun) > pausing
	c.AwaitReady()
	Forbear(w.T(), c)
	return nil
}

// pausing is how long a primary of a Cluster takes no writes while a replica takes over by
// agreement (CLUSTER_MF_TIMEOUT in Redis), less the delay that this process may have.
const pausing = 4 * time.Second

// forbearance is the silence, in ms, after which a Cluster replaces a node at other times.
// An overloaded machine has been seen to stop for 12 s.
const forbearance = 30_000

// Forbear keeps a Cluster from replacing a node because the machine is busy.
func Forbear(t testing.TB, c *redistest.Cluster) {
	c.Each(t, "CONFIG", "SET", "cluster-node-timeout", forbearance)
}

// settled waits until there is one primary and the others follow it. Until then the old
// one may make grants that the new one does not have.
func settled(w World, g *redistest.Sentinel) {
	g.AwaitReady()
	redistest.Await(w.T(), "the others follow the primary", func() bool {
		primary := g.Primary()
		for _, s := range g.Servers {
			if s != primary && (s.Info(w.T(), "role") != "slave" || s.Info(w.T(), "master_link_status") != "up") {
				return false
			}
		}
		return primary.Info(w.T(), "role") == "master"
	})
}

// attentive is the silence, in ms, after which a server is replaced during a crash. At
// other times none is replaced: a stopped server, or a busy machine, would cause a
// failover that the history does not have.
const attentive = 1000

// crash loses writes: for a while the primary goes on without its replicas, and then it
// is killed.
func crash(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.1), leases(w, 0.5))
	span.Blind = true
	if g := w.Sentinel(); g != nil {
		s := w.Server(rng)
		span.Text = s.Addr()
		defer g.Forbear(w.T()) // however it ends: nobody is replaced behind its end
		for _, watcher := range g.Sentinels {
			watcher.Do(w.T(), "SENTINEL", "SET", redistest.SentinelName, "down-after-milliseconds", attentive)
		}
		s.CutReplicas(w.T())
		history.Sleep(ctx, d)
		s.Kill()
		g.AwaitFailOver(s)
		if err := w.Restart(ctx, s); err != nil {
			return err
		}
		settled(w, g)
		return nil
	}
	c := w.Cluster()
	n := slot.Of(w.Key(rng))
	s := c.Owner(n)
	span.Text = s.Addr()
	defer Forbear(w.T(), c)
	c.Each(w.T(), "CONFIG", "SET", "cluster-node-timeout", attentive)
	s.CutReplicas(w.T())
	history.Sleep(ctx, d)
	s.Kill()
	if c.Owner(n) == s {
		return errors.New("nobody took over")
	}
	if err := w.Restart(ctx, s); err != nil {
		return err
	}
	c.AwaitReady()
	return nil
}

// migrate moves a lock's slot there and back.
func migrate(_ context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	c := w.Cluster()
	n := slot.Of(w.Key(rng))
	home := c.Owner(n)
	var away *redistest.Server
	for _, s := range c.Nodes {
		if s != home && s.Running() && s.Info(w.T(), "role") == "master" {
			away = s
		}
	}
	if away == nil {
		return errors.New("there is no other primary")
	}
	span.Text = fmt.Sprintf("slot %d, %s to %s", n, home.Addr(), away.Addr())
	c.Migrate(n, home, away)
	c.Migrate(n, away, home)
	return nil
}
