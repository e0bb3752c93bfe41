package demo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/internal/childproc"
)

// The servers that the demo can work with.
const (
	ServerAuto     = "auto" // the first of the two that is on PATH, else embedded
	ServerRedis    = "redis-server"
	ServerValkey   = "valkey-server"
	ServerEmbedded = "embedded"
)

// server is a running server that belongs to the demo.
type server struct {
	Name     string // the program, or "miniredis"
	Version  string
	Addr     string
	Embedded bool
	stop     func()
}

// startServer starts a server that keeps nothing on disk and listens on the
// loopback interface only. dir is its working directory.
func startServer(ctx context.Context, want, dir string) (*server, error) {
	programs := []string{want}
	switch want {
	case ServerEmbedded:
		return startEmbedded()
	case ServerAuto:
		programs = []string{ServerRedis, ServerValkey}
	}
	for _, program := range programs {
		path, err := exec.LookPath(program)
		if err != nil {
			continue
		}
		return startProgram(ctx, program, path, dir)
	}
	if want == ServerAuto {
		return startEmbedded()
	}
	return nil, fmt.Errorf("%s is not on PATH: install it, or use --server=%s", want, ServerEmbedded)
}

// startEmbedded runs a small server inside this process. Its keys grow old by
// the clock, as a real server's do, only when told to.
func startEmbedded() (*server, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	return &server{
		Name: "miniredis", Version: moduleVersion("github.com/alicebob/miniredis/v2"),
		Addr: m.Addr(), Embedded: true, stop: m.Close,
	}, nil
}

// moduleVersion answers with which version of a module this program was built,
// or "" if it does not know.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == path {
			return strings.TrimPrefix(dep.Version, "v")
		}
	}
	return ""
}

// startProgram starts a server program on a free port. Between finding the
// port free and the server's taking it, another program may take it; then the
// server ends at once, and the next port is tried.
func startProgram(ctx context.Context, name, path, dir string) (*server, error) {
	const tries = 5
	var err error
	for range tries {
		var s *server
		if s, err = tryProgram(ctx, name, path, dir); err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("%s: %w", name, err)
}

func tryProgram(ctx context.Context, name, path, dir string) (*server, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, "--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", dir)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Dir = dir
	childproc.Detach(cmd)
	if err := childproc.StartTied(cmd); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended does not matter: that it did, does
		close(ended)
	}()
	s := &server{Name: name, Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	s.stop = func() {
		_ = cmd.Process.Kill() // it has nothing to save
		<-ended
	}
	if s.Version, err = waitServer(ctx, s.Addr, cmd.Process.Pid, ended); err != nil {
		s.stop()
		if text := lastLine(said.String()); text != "" && ctx.Err() == nil {
			err = fmt.Errorf("%w; its last message: %s", err, text)
		}
		return nil, err
	}
	return s, nil
}

func freePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// waitServer waits until the server answers, and answers its version. A server
// with another process id is somebody else's, on a port that ours did not get.
func waitServer(ctx context.Context, addr string, pid int, ended <-chan struct{}) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var dialer net.Dialer
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = conn.Close()
			break
		}
		select {
		case <-tick.C:
		case <-ended:
			return "", errors.New("the server ended at once")
		case <-ctx.Done():
			return "", fmt.Errorf("the server did not answer: %w", err)
		}
	}
	rdb := redis.NewClient(serverOptions(addr))
	defer rdb.Close() //nolint:errcheck // one question was asked, and answered or not
	sections, err := rdb.InfoMap(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("the server did not answer: %w", err)
	}
	info := sections["Server"]
	if info["process_id"] != strconv.Itoa(pid) {
		return "", errors.New("another server answers on its port")
	}
	return cmp.Or(info["valkey_version"], info["redis_version"]), nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// serverTime is the server's clock, in µs.
func serverTime(ctx context.Context, rdb *redis.Client) (int64, error) {
	t, err := rdb.Time(ctx).Result()
	if err != nil {
		return 0, fmt.Errorf("the server's clock: %w", err)
	}
	return t.UnixMicro(), nil
}

// tempDir makes the directory of one run.
func tempDir() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return "", nil, err
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

// serverOptions is how the demo reaches the server. The news that only a managed
// service sends is not asked for.
func serverOptions(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}
