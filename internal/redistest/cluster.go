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

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/slot"
)

// nodeTimeout is how long a node of a Cluster may be silent before the others call it failed,
// unless [NodeTimeout] says otherwise. On a busy machine a shorter time would replace healthy
// nodes, and their last writes would be lost.
const nodeTimeout = 5 * time.Second

// Cluster is six servers on loopback: three primaries, which are the first three of Nodes, and
// a replica of each.
type Cluster struct {
	Nodes []*Server
	t     testing.TB
	ids   map[string]*Server
}

// StartCluster runs a Cluster until the test ends. It returns once every node reports that all
// slots are served and that every replica is in sync.
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

// meet introduces the nodes to the first one, and reports which are still missing. A node
// forgets an introduction that is not answered within its timeout.
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

// inCluster makes a server a node of a Cluster. Its bus gets a free port too, because the
// usual one, 10,000 above, may not be free.
func inCluster(s *Server) {
	replicated(s)
	Needs("for `WaitReplicas`")(s)
	BusPort()(s)
	NodeTimeout(nodeTimeout)(s)
	s.args = append(s.args, "--cluster-enabled", "yes",
		// Any replica that was ever connected may stand for election.
		"--cluster-replica-validity-factor", "0")
}

// NodeTimeout sets how long a node of a Cluster may be silent before the others call it
// failed. Tests that kill a node make it short.
func NodeTimeout(d time.Duration) Option {
	return Args("--cluster-node-timeout", strconv.FormatInt(d.Milliseconds(), 10))
}

// BusPort gives a Cluster's node a free port to talk to the others.
func BusPort() Option { return func(s *Server) { s.cluster = true } }

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string { return Addrs(c.Nodes) }

// AwaitReady waits until every running node reports that the Cluster is healthy, sees three
// primaries that have all slots, and sees its replicas in sync.
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

// adopt assigns to the server, if it is a primary, the slots that have no owner in its view. A
// slot may return to a primary just before a replica of that primary takes over. If the
// replica has not learned of it, the slot has no owner for good: Redis leaves that to the
// operator.
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

// Home returns the node that had the slot of a key, or of a channel, at the start.
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

// Each runs a command on every running node.
func (c *Cluster) Each(t testing.TB, args ...any) {
	t.Helper()
	for _, s := range c.Nodes {
		if s.Running() {
			s.Do(t, args...)
		}
	}
}

// Owner returns the running node that reports itself as the owner of the slot.
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

// ReplicasOf returns the running replicas of s.
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

// FailOver makes a replica of s its successor. The two coordinate, so no write is lost. It
// returns the successor once that is a primary.
func (c *Cluster) FailOver(s *Server) *Server {
	c.t.Helper()
	replicas := c.ReplicasOf(s)
	if len(replicas) == 0 {
		c.t.Fatalf("redistest: %s has no replica", s.Addr())
	}
	next := replicas[0]
	// A primary ignores a replica that it does not know yet.
	until(c.t, "the primary knows its replica", func() error {
		text, err := s.ask("CLUSTER", "REPLICAS", s.id)
		if err == nil && !strings.Contains(text, next.id) {
			err = errors.New(text)
		}
		return err
	})
	// A busy server gives a failover up for good after 5 s.
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

// Migrate moves a slot with its keys to another primary, in the steps of redis-cli. Between
// the steps, the servers answer requests with ASK.
func (c *Cluster) Migrate(n int, from, to *Server) {
	c.t.Helper()
	c.insist(to, "CLUSTER", "SETSLOT", n, "IMPORTING", from.id)
	c.insist(from, "CLUSTER", "SETSLOT", n, "MIGRATING", to.id)
	for {
		// A busy server does not list the keys. That does not mean that there are none.
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

// migrate returns the command that moves a key to a server.
func migrate(to *Server, key any) []any {
	command := []any{"MIGRATE", "127.0.0.1", to.port, "", 0, Patience.Milliseconds()}
	if user, password := to.Admin(); user != "" {
		command = append(command, "AUTH2", user, password)
	}
	return append(command, "KEYS", key)
}

// Assign ends the migration of a slot. It returns once every running node knows the new owner
// and its epoch. If the slot moved on before that, two nodes could claim it with one epoch,
// and one of them would delete its records.
func (c *Cluster) Assign(n int, from, to *Server) {
	c.t.Helper()
	// The new owner first: for a moment two nodes may claim the slot, which is better than
	// none.
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

// MigrateLoop moves a slot back and forth between its owner and another primary until stop is
// called. Then the slot is where it was. moves returns how often it has moved so far.
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

// insist repeats a command until the server does not refuse it, and returns the answer.
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
	assert.MustTrue(c.t, reply == "OK", "redistest: %v", reply)
}

// owns reports whether the server claims the slot.
func (s *Server) owns(n int) bool { return s.sees(n, s.id) }

// sees reports whether, in the server's view, the node with this id is a primary and serves
// the slot.
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
