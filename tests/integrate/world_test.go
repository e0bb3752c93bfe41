// Package integrate_test has the tests of the packages in integrate, with the real libraries and on a
// real server.
package integrate_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// shortTTL is for leases whose end a test waits for. A busy machine keeps them.
const shortTTL = 6 * time.Second

// newClient is the client of one process.
func newClient(t *testing.T, s *redistest.Server) *holdfast.Client {
	t.Helper()
	client, err := connect(s.Addr(), shortTTL)
	assert.Must(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

func connect(addr string, ttl time.Duration) (*holdfast.Client, error) {
	return holdfast.New(open(addr), holdfast.Config{TTL: ttl, Prefix: redistest.Prefix()})
}

func open(addr string) store.Store {
	return goredis.New(redis.NewClient(&redis.Options{Addr: addr, TLSConfig: redistest.TLS()}))
}

func evict(t *testing.T, client *holdfast.Client, name string) {
	t.Helper()
	n, err := client.Evict(t.Context(), name, holdfast.Eviction{By: "a test", Reason: "to see what happens"})
	assert.MustTrue(t, n == 1 && err == nil, "evicted %d holders of %s: %v", n, name, err)
}

// wantFree asserts that nobody holds the lock.
func wantFree(t *testing.T, client *holdfast.Client, name string) {
	t.Helper()
	state, err := client.Holders(t.Context(), name)
	assert.True(t, !state.Held() && err == nil, "%s: held %v, %v", name, state.Held(), err)
}

// envChild turns the test binary into a process that locks and is killed.
const envChild = "HOLDFAST_INTEGRATE_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		if err := child(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// childConfig says what a process locks.
type childConfig struct {
	Addr string `json:"addr"`
	Dir  string `json:"dir"`
	Name string `json:"name"`
	Wire string `json:"wire"` // of a bridge: its old form
}

// child locks by CertMagic's interface, says so, and waits for its end; or it is one with a bridge.
func child(orders io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(orders)
	lines.Scan()
	var cfg childConfig
	if err := json.Unmarshal(lines.Bytes(), &cfg); err != nil {
		return err
	}
	if cfg.Wire != "" {
		return bridgeChild(cfg, lines, out)
	}
	client, err := connect(cfg.Addr, shortTTL)
	if err != nil {
		return err
	}
	if err := newStorage(client, cfg.Dir).Lock(context.Background(), cfg.Name); err != nil {
		return err
	}
	fmt.Fprintln(out, "locked")
	for lines.Scan() { // until the kill
	}
	return errors.New("nobody killed it")
}

// startChild returns when the process has the lock.
func startChild(t *testing.T, cfg childConfig) *childproc.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"=1")
	said := make(chan string, 1)
	p, err := childproc.Start(cmd, cfg,
		func(line []byte) { said <- string(line) },
		func(err error, stderr string) { said <- fmt.Sprint(err, " ", stderr) })
	assert.Must(t, err)
	t.Cleanup(p.Destroy)
	assert.MustEqual(t, redistest.Next(t, "the lock of the other process", said), "locked", "the other process")
	return p
}
