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
	{Name: "server-kill", About: "the server is killed and started again", Side: OnServer,
		Topologies: alone, Loses: []string{Standalone, EverySec}, inject: serverKill},
	{Name: "server-stop", About: "the server is stopped", Side: OnServer, Topologies: alone, inject: serverStop},
	{Name: "server-pause", About: "the server lets clients wait (CLIENT PAUSE)", Side: OnServer, inject: serverPause},
	{Name: "script-flush", About: "the server forgets its scripts", Side: OnServer, inject: scriptFlush},
	{Name: "flush-all", About: "the server forgets everything", Side: OnServer, Topologies: single, Loses: single,
		inject: flushAll},
	{Name: "memory", About: "the server has no memory left", Side: OnServer, inject: memory},
	{Name: "evict", About: "the server evicts keys, against what the documentation asks for", Side: OnServer,
		Topologies: single, Loses: single, inject: evict},
	{Name: "connections", About: "clients are cut off, and the server takes no new connection", Side: OnServer,
		inject: connections},
	{Name: "deaf", About: "the subscriptions end, and nothing else", Side: OnServer, inject: deaf},
	{Name: "failover", About: "a replica takes over while the primary runs", Side: OnServer,
		Topologies: []string{Sentinel, Cluster}, Loses: []string{Sentinel}, inject: failover},
	{Name: "crash", About: "a primary is cut off from its replicas, and killed", Side: OnServer,
		Topologies: []string{Sentinel, Cluster}, Loses: []string{Sentinel, Cluster}, inject: crash},
	{Name: "migrate", About: "the slot of a lock moves to another server and back", Side: OnServer,
		Topologies: []string{Cluster}, inject: migrate},
}

// serverKill ends the server as a crash would. What it had is lost, unless it
// keeps a log: of one that is synced once a second the end is lost, too. Of a
// quorum it ends one or two.
func serverKill(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, 0, leases(w, 0.7))
	unsynced := between(rng, 100*time.Millisecond, time.Second)
	span.Blind = true
	servers := some(rng, w.Weak())
	log := make(map[*redistest.Server]int64)
	if w.Topology() == EverySec {
		for _, s := range servers {
			log[s] = s.LogSize()
		}
		last(ctx, unsynced)
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
	last(ctx, d)
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

// minority draws servers that can be done without for a while: the one that
// there is, or one or two of a quorum.
func minority(w World, rng *rand.Rand) []*redistest.Server {
	if w.Topology() != Quorum {
		return []*redistest.Server{w.Server(rng)}
	}
	all := some(rng, w.Servers())
	return all[:min(len(all), (len(w.Servers())-1)/2)]
}

func serverStop(ctx context.Context, w World, rng *rand.Rand, _ *history.FaultSpan) error {
	d := between(rng, leases(w, 0.2), leases(w, 1.5))
	servers := minority(w, rng)
	for _, s := range servers {
		s.Pause()
	}
	last(ctx, d)
	for _, s := range servers {
		s.Continue()
	}
	return nil
}

func serverPause(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.2), leases(w, 1.2))
	mode := []string{"ALL", "WRITE"}[rng.IntN(2)]
	span.Text = mode
	if _, err := w.Do(ctx, w.Server(rng), "CLIENT", "PAUSE", d.Milliseconds(), mode); err != nil {
		return err
	}
	last(ctx, d)
	return nil
}

func scriptFlush(ctx context.Context, w World, rng *rand.Rand, _ *history.FaultSpan) error {
	_, err := w.Do(ctx, w.Server(rng), "SCRIPT", "FLUSH", "SYNC")
	return err
}

func flushAll(ctx context.Context, w World, rng *rand.Rand, _ *history.FaultSpan) error {
	_, err := w.Do(ctx, w.Server(rng), "FLUSHALL")
	return err
}

func memory(ctx context.Context, w World, rng *rand.Rand, _ *history.FaultSpan) error {
	d := between(rng, leases(w, 0.3), leases(w, 2))
	s := w.Server(rng)
	if _, err := w.Do(ctx, s, "CONFIG", "SET", "maxmemory", 1); err != nil {
		return err
	}
	last(ctx, d)
	_, err := w.Do(context.WithoutCancel(ctx), s, "CONFIG", "SET", "maxmemory", 0)
	return err
}

// evict keeps the server a little short of memory while it may evict what it
// likes: record after record goes.
func evict(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.3), leases(w, 1))
	s := w.Server(rng)
	number := func(section, name string) (n int64, err error) {
		reply, err := w.Do(ctx, s, "INFO", section)
		text, _ := reply.(string)
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(line, name+":"); ok {
				return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			}
		}
		return 0, errors.Join(err, fmt.Errorf("INFO %s has no %s", section, name))
	}
	set := func(ctx context.Context, policy string, limit int64) error {
		_, err := w.Do(ctx, s, "CONFIG", "SET", "maxmemory-policy", policy, "maxmemory", limit)
		return err
	}
	before, err := number("stats", "evicted_keys")
	for till := time.Now().Add(d); err == nil && time.Now().Before(till) && ctx.Err() == nil; {
		var used int64
		if used, err = number("memory", "used_memory"); err == nil {
			err = set(ctx, "allkeys-lru", used-used/1000)
		}
		last(ctx, 20*time.Millisecond)
	}
	err = errors.Join(err, set(context.WithoutCancel(ctx), "noeviction", 0))
	if err != nil {
		return err
	}
	after, err := number("stats", "evicted_keys")
	span.Text = fmt.Sprintf("%d keys evicted", after-before)
	if err == nil && after == before {
		err = errors.New("nothing was evicted")
	}
	return err
}

// connections leaves room for one in two of the connections that there are.
func connections(ctx context.Context, w World, rng *rand.Rand, _ *history.FaultSpan) error {
	d := between(rng, leases(w, 0.2), leases(w, 1.5))
	s := w.Server(rng)
	reply, err := w.Do(ctx, s, "CONFIG", "GET", "maxclients")
	if err != nil {
		return err
	}
	usual := "10000"
	if list, ok := reply.([]any); ok && len(list) == 2 {
		usual = fmt.Sprint(list[1])
	}
	few := max(len(w.Clients()), 2)
	if _, err := w.Do(ctx, s, "CONFIG", "SET", "maxclients", strconv.Itoa(few)); err != nil {
		return err
	}
	at := slices.Index(w.Servers(), s)
	for _, c := range w.Clients() {
		c.Proxies()[at].Cut()
	}
	last(ctx, d)
	_, err = w.Do(context.WithoutCancel(ctx), s, "CONFIG", "SET", "maxclients", usual)
	return err
}

func deaf(ctx context.Context, w World, rng *rand.Rand, _ *history.FaultSpan) error {
	return w.Deafen(ctx, w.Server(rng))
}

// failover has a replica take over. In a Cluster the two agree on it and nothing
// is lost; a Sentinel promises nothing.
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
	c.FailOver(s)
	c.AwaitReady()
	Forbear(w.T(), c)
	return nil
}

// forbearance is the silence, in ms, that is borne in a Cluster at other times:
// a machine at many times its capacity has been seen to stand still for 12 s.
const forbearance = 30_000

// Forbear keeps a Cluster from replacing a node because the machine is busy.
func Forbear(t testing.TB, c *redistest.Cluster) {
	c.Each(t, "CONFIG", "SET", "cluster-node-timeout", forbearance)
}

// settled waits until there is one primary and the others follow it: until then
// the old one may grant what the new one knows nothing of.
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

// attentive is the silence, in ms, after which a server is replaced while a
// crash is under way. At other times none is replaced: a stopped server, or a
// busy machine, would be a fault that nobody wrote down.
const attentive = 1000

// crash loses writes: for a while the primary goes on alone, and then it is gone.
func crash(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.1), leases(w, 0.5))
	span.Blind = true
	if g := w.Sentinel(); g != nil {
		s := w.Server(rng)
		span.Text = s.Addr()
		for _, watcher := range g.Sentinels {
			watcher.Do(w.T(), "SENTINEL", "SET", redistest.SentinelName, "down-after-milliseconds", attentive)
		}
		s.CutReplicas(w.T())
		last(ctx, d)
		s.Kill()
		g.AwaitFailOver(s)
		if err := w.Restart(ctx, s); err != nil {
			return err
		}
		settled(w, g)
		g.Forbear(w.T())
		return nil
	}
	c := w.Cluster()
	n := slot.Of(w.Key(rng))
	s := c.Owner(n)
	span.Text = s.Addr()
	c.Each(w.T(), "CONFIG", "SET", "cluster-node-timeout", attentive)
	s.CutReplicas(w.T())
	last(ctx, d)
	s.Kill()
	if c.Owner(n) == s {
		return errors.New("nobody took over")
	}
	if err := w.Restart(ctx, s); err != nil {
		return err
	}
	c.AwaitReady()
	Forbear(w.T(), c)
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
