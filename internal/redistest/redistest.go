// Package redistest gives tests a real server, and a network that fails on demand.
//
// [Start] runs redis-server (or valkey-server) on a free port of the loopback interface,
// without persistence, and ends it with the test. It never skips a test, because a lock that
// was not tested against a server was not tested. A [Server] can be paused, killed and started
// again. A [Proxy] between a client and a server drops, delays or cuts what passes. So a test
// decides at which moment a fault happens.
//
// Nothing here waits for a fixed time. Tests wait for events, and for no longer than
// [Patience].
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

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/childproc"
)

// Patience limits every wait in this package. It is far longer than anything takes: a test
// must not fail because its machine is loaded.
const Patience = 60 * time.Second

// EnvServer names the environment variable that chooses another server binary.
const EnvServer = "HOLDFAST_TEST_SERVER"

// Server is a running server. Its methods are safe for concurrent use, except that Kill and
// Restart must not overlap. If a method that returns no error fails, it fails the test that
// called Start.
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

// Password makes the server require a password from its default user.
func Password(password string) Option {
	return func(s *Server) { s.password = password }
}

// ReplicaOf makes the server a replica of primary. Start returns once the replica is in sync.
func ReplicaOf(primary *Server) Option {
	return func(s *Server) { s.primary = primary }
}

// Start runs a server until the test ends. If there is no server binary, or if the server does
// not start, it fails the test.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := begin(t, opts...)
	s.must(t)
	return s
}

// begin starts a server. It may run outside the test's goroutine, so it does not fail the
// test; must does.
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

	// Another process may take the free port before the server binds it.
	for range 5 {
		if s.port, s.failed = freePort(t); s.failed != nil {
			return s
		}
		if s.cluster {
			if s.busPort, s.failed = freePort(t); s.failed != nil {
				return s
			}
		}
		if s.failed = s.launch(); !errors.Is(s.failed, errEnded) {
			break
		}
	}
	return s
}

// must fails the test if the server did not start.
func (s *Server) must(t testing.TB) {
	t.Helper()
	if s.failed != nil {
		t.Fatalf("redistest: %v\n%s", s.failed, s.log())
	}
}

// ClosedAddr returns an address of the loopback interface that refuses connections.
func ClosedAddr(t testing.TB) string {
	t.Helper()
	port, err := freePort(t)
	assert.MustTrue(t, err == nil, "redistest: %v", err)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// Addr returns the server's address, host:port.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// URL returns the server's address as a redis:// or rediss:// URL, with the password.
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

// Kill ends the server at once, as a crash would, and waits for its end. Its connections are
// reset, and the contents of its memory are lost.
func (s *Server) Kill() { s.stop() }

// Restart starts the server again, empty, on the same port. If it still runs, Restart kills it
// first.
func (s *Server) Restart() {
	s.t.Helper()
	s.stop()
	// It must not load what a test made it save, or what a primary sent it.
	err := os.RemoveAll(s.saved())
	if err == nil {
		err = s.launch()
	}
	if err != nil {
		s.t.Fatalf("redistest: restart: %v\n%s", err, s.log())
	}
}

// Running reports whether the server's process exists, even if it is paused.
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

// errEnded says that the server ended before it answered. That also happens if another process
// has its port.
var errEnded = errors.New("the server ended before it answered")

// commandLine returns the arguments of the server.
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
		// As a primary, copy to a replica at once. By default it waits 5 s for more replicas.
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
	if err := childproc.StartTied(cmd); err != nil {
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
	if err := s.awaitReady(cmd.Process.Pid, done); err != nil {
		return err
	}
	return s.limitClients()
}

// awaitReady returns once process pid itself answers on the port, has loaded what it had
// saved, and, if it has a primary, is in sync with it.
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

// Servers get ports below those that the system gives to outgoing connections and to programs
// that ask for any free port. Otherwise another process could have the port when a killed
// server starts again.
const (
	lowestPort  = 15000
	highestPort = 32000
)

// freePort returns a port on which nothing listens, and reserves it until the test ends. So a
// killed server gets its port back, although other test processes search for ports meanwhile.
// A reservation is a UDP socket with the same number, because it always ends with the process.
func freePort(t testing.TB) (port int, err error) {
	for range 100 {
		port = lowestPort + rand.IntN(highestPort-lowestPort)
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		var sign net.PacketConn
		if sign, err = net.ListenPacket("udp", addr); err != nil {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			t.Cleanup(func() { sign.Close() }) //nolint:errcheck // nothing was sent
			return port, l.Close()
		}
		sign.Close() //nolint:errcheck // nothing was sent
	}
	return 0, err
}
