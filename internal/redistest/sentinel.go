package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// SentinelName is the name under which the Sentinels watch the primary.
const SentinelName = "locks"

// downAfter is how many milliseconds a primary may be silent before a Sentinel calls it down.
const downAfter = 1000

// Sentinel is a primary with two replicas, watched by three Sentinels.
type Sentinel struct {
	Servers   []*Server // the first is the primary to begin with
	Sentinels []*Server

	t testing.TB
}

// StartSentinel runs them until the test ends. It returns once the replicas are in sync, and
// each Sentinel knows both replicas and the other Sentinels.
func StartSentinel(t testing.TB, opts ...Option) *Sentinel {
	t.Helper()
	g := &Sentinel{t: t}
	opts = append([]Option{replicated, Needs("with Sentinel"), Needs("for `WaitReplicas`")}, opts...)
	primary := Start(t, opts...)
	g.Servers = append([]*Server{primary}, Primaries(t, 2, append(opts, ReplicaOf(primary))...)...)
	g.Sentinels = Primaries(t, 3, sentinelOf(primary))
	g.AwaitReady()
	return g
}

// sentinelOf makes a server a Sentinel that watches primary.
func sentinelOf(primary *Server) Option {
	return func(s *Server) {
		s.sentinel = filepath.Join(s.dir, "sentinel.conf")
		text := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2\nsentinel down-after-milliseconds %s %d\n"+
			"sentinel failover-timeout %s 5000\n", SentinelName, primary.port, SentinelName, downAfter, SentinelName)
		if Secured() {
			text += fmt.Sprintf("sentinel auth-user %s %s\nsentinel auth-pass %s %s\n"+
				"sentinel sentinel-user %s\nsentinel sentinel-pass %s\n",
				SentinelName, adminName, SentinelName, adminPassword, adminName, adminPassword)
		}
		s.failed = os.WriteFile(s.sentinel, []byte(text), 0o600)
	}
}

// Addrs returns the addresses of the Sentinels.
func (g *Sentinel) Addrs() []string {
	var addrs []string
	for _, s := range g.Sentinels {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// AwaitReady waits until every Sentinel sees a primary that is up, its replicas and the other
// Sentinels.
func (g *Sentinel) AwaitReady() {
	g.t.Helper()
	until(g.t, "the Sentinels agree", func() error {
		for _, s := range g.Sentinels {
			fields := g.master(s)
			if fields["num-slaves"] != "2" || fields["num-other-sentinels"] != "2" || fields["flags"] != "master" {
				return fmt.Errorf("%s sees %v", s.Addr(), fields)
			}
		}
		return nil
	})
}

// master returns what a Sentinel reports about the primary.
func (g *Sentinel) master(s *Server) map[string]string {
	g.t.Helper()
	list, _ := s.Do(g.t, "SENTINEL", "MASTER", SentinelName).([]any)
	fields := make(map[string]string)
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		fields[name], _ = list[i+1].(string)
	}
	return fields
}

// Primary returns the server that the Sentinels call the primary.
func (g *Sentinel) Primary() *Server {
	g.t.Helper()
	var primary *Server
	until(g.t, "the Sentinels name one primary", func() error {
		votes := make(map[string]int)
		for _, s := range g.Sentinels {
			votes[g.master(s)["port"]]++
		}
		for _, s := range g.Servers {
			if votes[strconv.Itoa(s.port)] == len(g.Sentinels) {
				primary = s
				return nil
			}
		}
		return fmt.Errorf("they say %v", votes)
	})
	return primary
}

// FailOver asks a Sentinel to replace the primary. It returns the new primary once all
// Sentinels name it and it has that role.
func (g *Sentinel) FailOver() *Server {
	g.t.Helper()
	old := g.Primary()
	until(g.t, "the failover begins", func() error {
		if e, refused := g.Sentinels[0].Do(g.t, "SENTINEL", "FAILOVER", SentinelName).(Error); refused {
			return e
		}
		return nil
	})
	return g.AwaitFailOver(old)
}

// AwaitFailOver waits for a primary other than old.
func (g *Sentinel) AwaitFailOver(old *Server) *Server {
	g.t.Helper()
	var next *Server
	until(g.t, "another primary", func() error {
		if next = g.Primary(); next == old {
			return errors.New("it is the old one still")
		}
		return nil
	})
	next.awaitRole(g.t, "master")
	return next
}
