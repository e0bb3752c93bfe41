package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/slot"
)

// nodeTimeout is for how long a Cluster's node may be silent before the others
// call it failed, unless [NodeTimeout] says otherwise. On a busy machine a
// shorter one has healthy nodes replaced, at the cost of their last writes.
const nodeTimeout = 5 * time.Second

// Cluster is six servers on loopback: three primaries, the first three of
// Nodes, and a replica of each behind them.
type Cluster struct {
	Nodes []*Server
	t     testing.TB
	ids   map[string]*Server
}

// StartCluster runs a Cluster until the test ends. It returns once every node
// says that all slots are served and every replica is in step.
func StartCluster(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	opts = append([]Option{inCluster}, opts...)
	c := &Cluster{t: t, Nodes: Primaries(t, 6, opts...), ids: make(map[string]*Server)}
	for i, s := range c.Nodes {
		id, _ := s.Do(t, "CLUSTER", "MYID").(string)
		c.ids[id] = s
		s.id = id
		c.ok(s.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1))
		if i < 3 {
			c.ok(s.Do(t, "CLUSTER", "ADDSLOTSRANGE", i*slot.Count/3, (i+1)*slot.Count/3-1))
		}
	}
	until(t, "the nodes know each other", c.meet)
	for i, s := range c.Nodes[3:] {
		until(t, "the replica knows its primary", func() error {
			if e, refused := s.Do(t, "CLUSTER", "REPLICATE", c.Nodes[i].id).(Error); refused {
				return e
			}
			return nil
		})
	}
	c.AwaitReady()
	return c
}

// meet introduces the nodes to the first one, and reports who is missed still. A
// node forgets an introduction that is not answered within its timeout.
func (c *Cluster) meet() error {
	var missed error
	for _, s := range c.Nodes[1:] {
		known, err := s.ask("CLUSTER", "NODES")
		for id := range c.ids {
			if err == nil && !strings.Contains(known, id) {
				err = fmt.Errorf("%s does not know %s", s.Addr(), id)
			}
		}
		if err == nil {
			continue
		}
		missed = err
		if _, err := s.ask("CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].port, c.Nodes[0].busPort); err != nil {
			missed = err
		}
	}
	return missed
}

// inCluster makes a server a Cluster's node. Its bus has a free port too, for
// the usual one, 10,000 above, may be nobody's to give.
func inCluster(s *Server) {
	replicated(s)
	Needs("for `WaitReplicas`")(s)
	BusPort()(s)
	NodeTimeout(nodeTimeout)(s)
	s.args = append(s.args, "--cluster-enabled", "yes",
		// A replica that has been in touch at all may stand for election.
		"--cluster-replica-validity-factor", "0")
}

// NodeTimeout sets for how long a Cluster's node may be silent before the
// others call it failed: short, for tests that kill one.
func NodeTimeout(d time.Duration) Option {
	return Args("--cluster-node-timeout", strconv.FormatInt(d.Milliseconds(), 10))
}

// BusPort gives a Cluster's node a free port to talk to the others.
func BusPort() Option { return func(s *Server) { s.cluster = true } }

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, s := range c.Nodes {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// AwaitReady waits until every node that runs says that the Cluster is in
// order, sees three primaries with all slots between them, and its replicas
// are in step.
func (c *Cluster) AwaitReady() {
	c.t.Helper()
	begun := time.Now()
	until(c.t, "the Cluster is ready", func() error {
		for _, s := range c.Nodes {
			if err := c.ready(s); err != nil {
				if time.Since(begun) > Patience/4 {
					err = errors.Join(err, s.adopt())
				}
				return fmt.Errorf("%s: %w", s.Addr(), err)
			}
		}
		return nil
	})
}

// adopt gives the server, if it is a primary, the slots that are nobody's for it. A
// replica that takes over just after a slot was given back to its primary may not have
// heard of that: then it is nobody's for good, and Redis leaves that to the operator.
func (s *Server) adopt() error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	role, err := c.try("ROLE")
	if words, ok := role.([]any); err != nil || !ok || len(words) == 0 || words[0] != "master" {
		return err
	}
	ranges, err := c.try("CLUSTER", "SLOTS")
	if err != nil {
		return err
	}
	taken := make(map[int64]bool)
	list, _ := ranges.([]any)
	for _, one := range list {
		words, _ := one.([]any)
		if len(words) < 2 {
			continue
		}
		first, _ := words[0].(int64)
		last, _ := words[1].(int64)
		for n := first; n <= last; n++ {
			taken[n] = true
		}
	}
	for n := range int64(slot.Count) {
		if taken[n] {
			continue
		}
		for _, order := range [][]any{{"CLUSTER", "ADDSLOTS", n}, {"CLUSTER", "BUMPEPOCH"}} {
			if _, err := c.try(order...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cluster) ready(s *Server) error {
	if !s.Running() {
		return nil
	}
	info, err := s.ask("CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if infoField(info, "cluster_state") != "ok" || infoField(info, "cluster_slots_ok") != strconv.Itoa(slot.Count) ||
		infoField(info, "cluster_size") != "3" ||
		infoField(info, "cluster_known_nodes") != strconv.Itoa(len(c.Nodes)) {
		return errors.New(strings.Join(strings.Fields(info), " "))
	}
	if info, err = s.ask("INFO", "replication"); err != nil {
		return err
	}
	if infoField(info, "role") == "slave" && infoField(info, "master_link_status") != "up" {
		return errors.New("the replica is not in step")
	}
	return nil
}

// Home returns the node that had the slot of a key, or of a channel, to begin
// with.
func (c *Cluster) Home(key string) *Server {
	n := slot.Of(key)
	for i := range 3 {
		if n < (i+1)*slot.Count/3 {
			return c.Nodes[i]
		}
	}
	panic("BUG: a slot beyond the last")
}

// Do runs a command on key's home.
func (c *Cluster) Do(t testing.TB, key string, args ...any) any {
	t.Helper()
	return c.Home(key).Do(t, args...)
}

// Each runs a command on every node that runs.
func (c *Cluster) Each(t testing.TB, args ...any) {
	t.Helper()
	for _, s := range c.Nodes {
		if s.Running() {
			s.Do(t, args...)
		}
	}
}

// Owner returns the node that serves the slot, as the nodes that run see it:
// the one that says so itself.
func (c *Cluster) Owner(n int) *Server {
	c.t.Helper()
	var owner *Server
	until(c.t, "the slot has an owner", func() error {
		for _, s := range c.Nodes {
			if s.Running() && s.owns(n) {
				owner = s
				return nil
			}
		}
		return fmt.Errorf("nobody serves slot %d", n)
	})
	return owner
}

// ReplicasOf returns the nodes that run and replicate s.
func (c *Cluster) ReplicasOf(s *Server) []*Server {
	c.t.Helper()
	var replicas []*Server
	for _, r := range c.Nodes {
		if r != s && r.Running() && r.Info(c.t, "master_port") == strconv.Itoa(s.port) {
			replicas = append(replicas, r)
		}
	}
	return replicas
}

// FailOver makes a replica of s its successor by agreement, which loses no
// write, and returns it once it is a primary.
func (c *Cluster) FailOver(s *Server) *Server {
	c.t.Helper()
	replicas := c.ReplicasOf(s)
	if len(replicas) == 0 {
		c.t.Fatalf("redistest: %s has no replica", s.Addr())
	}
	next := replicas[0]
	// A primary that does not know yet that this is its replica ignores it.
	until(c.t, "the primary knows its replica", func() error {
		text, err := s.ask("CLUSTER", "REPLICAS", s.id)
		if err == nil && !strings.Contains(text, next.id) {
			err = errors.New(text)
		}
		return err
	})
	// A server that is busy gives a failover up after 5 s, for good.
	var begun time.Time
	until(c.t, next.Addr()+" is a master", func() error {
		info, err := next.ask("INFO", "replication")
		if err != nil || infoField(info, "role") == "master" {
			return err
		}
		if time.Since(begun) > 6*time.Second {
			begun = time.Now()
			c.ok(next.Do(c.t, "CLUSTER", "FAILOVER"))
		}
		return errors.New("it is a " + infoField(info, "role"))
	})
	s.awaitRole(c.t, "slave")
	return next
}

// Migrate moves a slot with its keys to another primary, in the steps that
// redis-cli takes: between them requests are answered with ASK.
func (c *Cluster) Migrate(n int, from, to *Server) {
	c.t.Helper()
	c.insist(to, "CLUSTER", "SETSLOT", n, "IMPORTING", from.id)
	c.insist(from, "CLUSTER", "SETSLOT", n, "MIGRATING", to.id)
	for {
		// Who is busy does not say which keys there are: that is no slot without keys.
		keys, _ := c.insist(from, "CLUSTER", "GETKEYSINSLOT", n, 100).([]any)
		if len(keys) == 0 {
			break
		}
		for _, key := range keys {
			c.insist(from, migrate(to, key)...)
		}
	}
	c.Assign(n, from, to)
}

// migrate is the command that moves a key to a server.
func migrate(to *Server, key any) []any {
	command := []any{"MIGRATE", "127.0.0.1", to.port, "", 0, Patience.Milliseconds()}
	if user, password := to.Admin(); user != "" {
		command = append(command, "AUTH2", user, password)
	}
	return append(command, "KEYS", key)
}

// Assign ends the migration of a slot, and returns once every node that runs
// knows the new owner and its epoch. A slot that moved on before that could be
// claimed by two with one epoch, and the loser throws its records away.
func (c *Cluster) Assign(n int, from, to *Server) {
	c.t.Helper()
	// The new owner first: two may say for a moment that they own the slot,
	// which is better than nobody.
	c.insist(to, "CLUSTER", "SETSLOT", n, "NODE", to.id)
	c.insist(from, "CLUSTER", "SETSLOT", n, "NODE", to.id)
	until(c.t, "all nodes know the slot's new owner", func() error {
		claim, err := to.epoch("cluster_my_epoch")
		if err != nil {
			return err
		}
		for _, s := range c.Nodes {
			if !s.Running() {
				continue
			}
			seen, err := s.epoch("cluster_current_epoch")
			if err != nil {
				return fmt.Errorf("%s: %w", s.Addr(), err)
			}
			if seen < claim {
				return fmt.Errorf("%s is at epoch %d, not %d", s.Addr(), seen, claim)
			}
			if !s.sees(n, to.id) {
				return fmt.Errorf("%s sees another owner", s.Addr())
			}
		}
		return nil
	})
}

func (s *Server) epoch(field string) (int, error) {
	info, err := s.ask("CLUSTER", "INFO")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(infoField(info, field))
}

// MigrateLoop moves a slot back and forth between its owner and another
// primary until stop is called. The slot is then where it was. moves tells how
// often it has moved so far.
func (c *Cluster) MigrateLoop(n int) (moves func() int64, stop func()) {
	c.t.Helper()
	home := c.Owner(n)
	away := c.Nodes[0]
	for _, s := range c.Nodes {
		if s != home && s.Info(c.t, "role") == "master" {
			away = s
		}
	}
	end := make(chan struct{})
	var moving sync.WaitGroup
	var count atomic.Int64
	moving.Go(func() {
		for {
			c.Migrate(n, home, away)
			c.Migrate(n, away, home)
			count.Add(2)
			select {
			case <-end:
				return
			default:
			}
		}
	})
	stop = sync.OnceFunc(func() {
		close(end)
		moving.Wait()
	})
	c.t.Cleanup(stop)
	return count.Load, stop
}

// insist repeats an order until the server does not refuse it, and answers what it says.
func (c *Cluster) insist(s *Server, args ...any) (reply any) {
	c.t.Helper()
	until(c.t, fmt.Sprintf("%s carries out %v", s.Addr(), args), func() error {
		reply = s.Do(c.t, args...)
		if e, refused := reply.(Error); refused {
			return e
		}
		return nil
	})
	return reply
}

func (c *Cluster) ok(reply any) {
	c.t.Helper()
	if reply != "OK" {
		c.t.Fatalf("redistest: %v", reply)
	}
}

// owns reports whether the server says that it serves the slot.
func (s *Server) owns(n int) bool { return s.sees(n, s.id) }

// sees reports whether to the server's knowledge the node with this id is a
// primary and serves the slot.
func (s *Server) sees(n int, id string) bool {
	text, err := s.ask("CLUSTER", "NODES")
	if err != nil {
		return false
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 9 || fields[0] != id || !strings.Contains(fields[2], "master") {
			continue
		}
		for _, part := range fields[8:] {
			low, high, ranged := strings.Cut(part, "-")
			first, err := strconv.Atoi(low)
			if err != nil {
				continue // [slot->-node]: on its way
			}
			last := first
			if ranged {
				last, _ = strconv.Atoi(high)
			}
			if first <= n && n <= last {
				return true
			}
		}
	}
	return false
}
