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
	sen := &Sentinel{t: t}
	opts = append([]Option{replicated, Needs("with Sentinel"), Needs("for `WaitReplicas`")}, opts...)
	primary := Start(t, opts...)
	sen.Servers = append([]*Server{primary}, Primaries(t, 2, append(opts, ReplicaOf(primary))...)...)
	sen.Sentinels = Primaries(t, 3, sentinelOf(primary))
	sen.AwaitReady()
	return sen
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
func (sen *Sentinel) Addrs() []string { return Addrs(sen.Sentinels) }

// AwaitReady waits until every Sentinel sees a primary that is up, its replicas and the other
// Sentinels.
func (sen *Sentinel) AwaitReady() {
	sen.t.Helper()
	until(sen.t, "the Sentinels agree", func() error {
		for _, s := range sen.Sentinels {
			fields := sen.master(s)
			if fields["num-slaves"] != "2" || fields["num-other-sentinels"] != "2" || fields["flags"] != "master" {
				return fmt.Errorf("%s sees %v", s.Addr(), fields)
			}
		}
		return nil
	})
}

// master returns what a Sentinel reports about the primary.
func (sen *Sentinel) master(s *Server) map[string]string {
	sen.t.Helper()
	list, _ := s.Do(sen.t, "SENTINEL", "MASTER", SentinelName).([]any)
	fields := make(map[string]string)
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		fields[name], _ = list[i+1].(string)
	}
	return fields
}

// Primary returns the server that the Sentinels call the primary.
func (sen *Sentinel) Primary() *Server {
	sen.t.Helper()
	var primary *Server
	until(sen.t, "the Sentinels name one primary", func() error {
		votes := make(map[string]int)
		for _, s := range sen.Sentinels {
			votes[sen.master(s)["port"]]++
		}
		for _, s := range sen.Servers {
			if votes[strconv.Itoa(s.port)] == len(sen.Sentinels) {
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
func (sen *Sentinel) FailOver() *Server {
	sen.t.Helper()
	old := sen.Primary()
	until(sen.t, "the failover begins", func() error {
		if e, refused := sen.Sentinels[0].Do(sen.t, "SENTINEL", "FAILOVER", SentinelName).(Error); refused {
			return e
		}
		return nil
	})
	return sen.AwaitFailOver(old)
}

// AwaitFailOver waits for a primary other than old.
func (sen *Sentinel) AwaitFailOver(old *Server) *Server {
	sen.t.Helper()
	var next *Server
	until(sen.t, "another primary", func() error {
		if next = sen.Primary(); next == old {
			return errors.New("it is the old one still")
		}
		return nil
	})
	next.awaitRole(sen.t, "master")
	return next
}
