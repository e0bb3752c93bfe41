// Package redistest gives tests a real server and a network that fails on
// demand.
//
// [Start] runs redis-server (or valkey-server) on a free port of the loopback
// interface, without persistence, and ends it with the test; it never skips,
// since a lock that was not tested against a server was not tested. A
// [Server] can be paused, killed and started again. A [Proxy] stands between
// a client and a server and swallows, delays or cuts what passes, so that a
// test names the moment of a fault instead of hoping for it.
//
// Nothing here waits for a length of time: whatever must have happened is
// awaited as an event, bounded by [Patience].
package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience bounds every wait in this package. It is far longer than anything
// takes: on a loaded machine a test must be late before it is wrong.
const Patience = 60 * time.Second

// EnvServer names the environment variable that chooses another server binary.
const EnvServer = "HOLDFAST_TEST_SERVER"

// Server is a running server. Its methods are safe for concurrent use, except
// that Kill and Restart must not overlap. Where a method has no way to answer
// an error it fails the test that called Start.
type Server struct {
	t        testing.TB
	binary   string
	port     int
	dir      string
	args     []string
	password string
	primary  *Server
	sentinel string   // its configuration, if it is a Sentinel
	cluster  bool     // it is a Cluster's node
	busPort  int      // where a Cluster's nodes talk to it
	id       string   // its name in a Cluster
	env      []string // for its process, beyond the test's own
	clock    string   // the file that moves its clock
	failed   error    // why it did not come up at first

	secured bool     // see EnvServers
	harness bool     // see Harness
	tenant  string   // its clients' prefix
	roles   []string // what its clients need besides, by row of the manual
	more    []string // what they may besides
	rules   []string // what they may, all in all

	mu   sync.Mutex // guards cmd and done
	cmd  *exec.Cmd
	done chan struct{} // closed once cmd has ended and was waited for
}

// Option changes how a server is started.
type Option func(*Server)

// Args appends arguments to the command line, as in
// Args("--maxmemory", "1mb").
func Args(args ...string) Option {
	return func(s *Server) { s.args = append(s.args, args...) }
}

// Password makes the server demand it of its default user.
func Password(password string) Option {
	return func(s *Server) { s.password = password }
}

// ReplicaOf makes the server a replica of primary; Start returns once the
// replica is in step.
func ReplicaOf(primary *Server) Option {
	return func(s *Server) { s.primary = primary }
}

// Start runs a server until the test ends. It fails the test when there is no
// server binary, or when the server does not come up.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := begin(t, opts...)
	s.must(t)
	return s
}

// begin starts a server, and is not bound to the test's goroutine: whether it
// came up is for must to say.
func begin(t testing.TB, opts ...Option) *Server {
	s := &Server{t: t, dir: t.TempDir(), tenant: Prefix()}
	if s.binary, s.failed = binary(); s.failed != nil {
		return s
	}
	for _, opt := range opts {
		if opt(s); s.failed != nil {
			return s
		}
	}
	if Secured() {
		if s.failed = s.secure(); s.failed != nil {
			return s
		}
	}
	t.Cleanup(s.stop)

	// Between choosing a free port and binding it somebody else may take it.
	for range 5 {
		if s.port, s.failed = freePort(); s.failed != nil {
			return s
		}
		if s.cluster {
			if s.busPort, s.failed = freePort(); s.failed != nil {
				return s
			}
		}
		if s.failed = s.launch(); !errors.Is(s.failed, errEnded) {
			break
		}
	}
	return s
}

// must fails the test if the server did not come up.
func (s *Server) must(t testing.TB) {
	t.Helper()
	if s.failed != nil {
		t.Fatalf("redistest: %v\n%s", s.failed, s.log())
	}
}

// ClosedAddr returns an address of the loopback interface where nobody
// listens: a connection to it is refused.
func ClosedAddr(t testing.TB) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// Addr returns the server's address, host:port.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// URL returns the server's address as a redis:// URL, or a rediss:// one,
// password included.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr()}
	if s.secured {
		u.Scheme = "rediss"
	}
	if s.password != "" {
		u.User = url.UserPassword("", s.password)
	}
	return u.String()
}

// Kill ends the server at once, as a crash would, and waits until it is gone.
// Its connections are reset; what it held in memory is lost.
func (s *Server) Kill() { s.stop() }

// Restart starts the server again on the same port, empty; a server that
// still runs is killed first.
func (s *Server) Restart() {
	s.t.Helper()
	s.stop()
	// What a test had it save, or a primary had sent it, is not to come back.
	err := os.RemoveAll(s.saved())
	if err == nil {
		err = s.launch()
	}
	if err != nil {
		s.t.Fatalf("redistest: restart: %v\n%s", err, s.log())
	}
}

// Running reports whether the server's process is there, be it paused.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
		return false
	default:
		return s.cmd != nil
	}
}

// errEnded says that the server went away before it answered, which is what a
// port taken by somebody else looks like.
var errEnded = errors.New("the server ended before it answered")

// commandLine is what the server is started with.
func (s *Server) commandLine() []string {
	port := s.port
	if s.secured {
		port = 0 // TLS has it
	}
	args := []string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", s.dir, "--daemonize", "no",
		"--logfile", filepath.Join(s.dir, "server.log"),
	}
	if s.secured {
		args = append(args, s.securedArgs()...)
	} else if s.harness {
		args = append(args, harnessUser()...)
	}
	if s.sentinel != "" {
		return slices.Concat([]string{s.sentinel, "--sentinel"}, args, s.args)
	}
	args = append(args,
		"--save", "", "--appendonly", "no",
		// As a primary, copy to a replica at once: the default of 5 s waits
		// for more of them to come.
		"--repl-diskless-sync-delay", "0",
	)
	if s.cluster {
		args = append(args, "--cluster-port", strconv.Itoa(s.busPort))
	}
	if s.password != "" && !s.secured {
		args = append(args, "--requirepass", s.password)
	}
	if s.primary != nil {
		args = append(args, "--replicaof", "127.0.0.1", strconv.Itoa(s.primary.port))
		if !s.secured && s.primary.password != "" {
			args = append(args, "--masterauth", s.primary.password)
		}
	}
	return append(args, s.args...)
}

// launch starts the process and waits until it answers.
func (s *Server) launch() error {
	cmd := exec.Command(s.binary, s.commandLine()...)
	cmd.Env = append(os.Environ(), s.env...)
	if err := startTied(cmd); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait() //nolint:errcheck // a killed server has no status of interest
		close(done)
	}()
	s.mu.Lock()
	s.cmd, s.done = cmd, done
	s.mu.Unlock()
	return s.awaitReady(cmd.Process.Pid, done)
}

// awaitReady returns once process pid itself answers on the port, has loaded what it
// had saved, and is in step with its primary if it has one.
func (s *Server) awaitReady(pid int, done <-chan struct{}) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	var err error
	for {
		if err = s.probe(pid); err == nil {
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("%w (%w)", errEnded, err)
		case <-deadline.C:
			return fmt.Errorf("the server at %s is not ready after %v: %w", s.Addr(), Patience, err)
		case <-tick.C:
		}
	}
}

func (s *Server) probe(pid int) error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	reply, err := c.try("INFO")
	if err != nil {
		return err
	}
	info, ok := reply.(string)
	if !ok {
		return fmt.Errorf("INFO answered %v", reply)
	}
	if got := infoField(info, "process_id"); got != strconv.Itoa(pid) {
		return fmt.Errorf("process %s answers, not %d", got, pid)
	}
	if infoField(info, "loading") == "1" { // it answers INFO, and refuses nearly all else
		return errors.New("the server is still loading")
	}
	if s.primary != nil && infoField(info, "master_link_status") != "up" {
		return errors.New("the replica is not in step yet")
	}
	return nil
}

// stop kills the server and waits until it is gone; it may be called again.
func (s *Server) stop() {
	s.mu.Lock()
	cmd, done := s.cmd, s.done
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	cmd.Process.Kill() //nolint:errcheck // it may have ended already
	<-done
}

func (s *Server) log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "server.log"))
	return string(text)
}

func binary() (string, error) {
	names := []string{"redis-server", "valkey-server"}
	if name := os.Getenv(EnvServer); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s found. Install one (Debian and Ubuntu: apt-get install redis-server; "+
		"macOS: brew install redis; Fedora: dnf install valkey), or name it in %s",
		strings.Join(names, " or "), EnvServer)
}

// Servers get ports below those that the system gives to connections on their way
// out, and to who asks for any. A port of those could be somebody else's by the time
// that a server which was killed wants it back.
const (
	lowestPort  = 15000
	highestPort = 32000
)

// freePort returns a port where nobody listens.
func freePort() (port int, err error) {
	for range 100 {
		port = lowestPort + rand.IntN(highestPort-lowestPort)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}
