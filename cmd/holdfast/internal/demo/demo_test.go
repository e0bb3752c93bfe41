package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// The demo starts its workers as processes; here they are this test program.
const workerVariable = "HOLDFAST_DEMO_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		if err := Work(os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// testOptions make a run as short as it can be shown to the end.
func testOptions(t *testing.T, server string) Options {
	t.Helper()
	t.Setenv(workerVariable, "1")
	return Options{
		Workers: 3, Duration: 2 * time.Second, Server: server,
		Worker: []string{os.Args[0]},
	}
}

// The whole of it, each way: the figures of the JSON that scripts read.
func TestDemo(t *testing.T) {
	for name, server := range map[string]string{
		"real":     realServer(t),
		"embedded": ServerEmbedded,
	} {
		t.Run(name, func(t *testing.T) {
			opts, temp := testOptions(t, server), t.TempDir()
			t.Setenv("TMPDIR", temp)
			var shown bytes.Buffer
			opts.Progress = &shown
			result, err := Run(t.Context(), opts)
			if err != nil {
				t.Fatalf("%v\n%s", err, &shown)
			}
			t.Logf("%s%s", &shown, result.Text(Look{Unicode: true}))
			checkJSON(t, result, server)
			left, err := os.ReadDir(temp)
			assert.False(t, err != nil || len(left) > 0, "the run left %v behind, %v", left, err)
		})
	}
}

// realServer is the server program on PATH. That there is one is a condition
// of the tests; scripts/servers.sh installs it.
func realServer(t *testing.T) string {
	t.Helper()
	for _, name := range []string{ServerRedis, ServerValkey} {
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode()&0o111 != 0 {
				return name
			}
		}
	}
	t.Fatal("no redis-server or valkey-server on PATH")
	return ""
}

func checkJSON(t *testing.T, result *Result, server string) {
	t.Helper()
	text, err := json.Marshal(result)
	assert.Must(t, err)
	var got map[string]any
	assert.Must(t, json.Unmarshal(text, &got))
	name := server
	if server == ServerEmbedded {
		name = "miniredis"
	}
	for field, want := range map[string]any{
		"ok": true, "server": name, "embedded": server == ServerEmbedded, "workers": 3.0, "lease_ms": 250.0,
		"overlaps": 0.0, "lost_updates": 0.0, "killed": 1.0, "paused": 1.0,
	} {
		assert.True(t, got[field] == want, "%s is %v, want %v", field, got[field], want)
	}
	// A machine that is short of breath may lose more leases than the one.
	for field, least := range map[string]float64{
		"acquisitions": 2 * enoughTurns, "writes": enoughTurns, "handovers": 1,
		"handover_p50_us": 1, "handover_p99_us": 1, "duration_ms": 2000, "takeover_ms": 1,
		"stale_writes_refused": 1, "lost_updates_unfenced": 1,
	} {
		n, ok := got[field].(float64)
		assert.False(t, !ok || n < least, "%s is %v, want %v or more", field, got[field], least)
	}
	problems, ok := got["problems"].([]any)
	assert.True(t, ok && len(problems) == 0, "problems are %v, want none", got["problems"])
	if t.Failed() {
		t.Logf("%s", text)
	}
}

// Guarantee: an end from outside leaves no process and no file behind.
func TestDemoEndsWhenTold(t *testing.T) {
	opts, temp := testOptions(t, ServerAuto), t.TempDir()
	t.Setenv("TMPDIR", temp)
	opts.Duration = 5 * time.Second
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	opts.Progress = writerFunc(func(text string) {
		if strings.Contains(text, "SIGKILL") { // in the middle of everything
			cancel(enough)
		}
	})
	assert.Is(t, assert.Err(Run(ctx, opts)), enough)
	left, err := os.ReadDir(temp)
	assert.False(t, err != nil || len(left) > 0, "the run left %v behind, %v", left, err)
}

type writerFunc func(string)

func (f writerFunc) Write(b []byte) (int, error) {
	f(string(b))
	return len(b), nil
}

func TestDemoSaysWhyAWorkerFailed(t *testing.T) {
	opts := testOptions(t, ServerEmbedded)
	opts.Worker = []string{"/bin/sh", "-c", "echo out of luck >&2; exit 3"}
	_, err := Run(t.Context(), opts)
	assert.True(t, err != nil && strings.Contains(err.Error(), "exit status 3; its last message: out of luck"),
		"a worker that ends at once: %v", err)
}

func TestMissingServerIsNamed(t *testing.T) {
	opts := testOptions(t, ServerValkey)
	t.Setenv("PATH", t.TempDir())
	if _, err := Run(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "valkey-server is not on PATH") {
		t.Errorf("without valkey-server: %v", err)
	}
}

func TestServerThatEndsAtOnceIsExplained(t *testing.T) {
	dir := t.TempDir()
	program := "#!/bin/sh\necho no memory\nexit 1\n"
	assert.Must(t, os.WriteFile(filepath.Join(dir, ServerRedis), []byte(program), 0o700))
	opts := testOptions(t, ServerRedis)
	t.Setenv("PATH", dir)
	_, err := Run(t.Context(), opts)
	want := "redis-server: the server ended at once; its last message: no memory"
	assert.False(t, err == nil || !strings.Contains(err.Error(), want), "a server that ends at once: %v", err)
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Workers: 4, Duration: 5 * time.Second, Server: ServerAuto}
	assert.NoError(t, good.Check())
	for want, change := range map[string]func(*Options){
		"--workers 1:":     func(o *Options) { o.Workers = 1 },
		"--workers 65:":    func(o *Options) { o.Workers = 65 },
		"--duration 10ms:": func(o *Options) { o.Duration = 10 * time.Millisecond },
		"--duration 1h":    func(o *Options) { o.Duration = time.Hour },
		`--server "etcd"`:  func(o *Options) { o.Server = "etcd" },
		"--duration -1ns":  func(o *Options) { o.Duration = -1 },
	} {
		o := good
		change(&o)
		err := o.Check()
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "Check: %v, want %q", err, want)
	}
}

func TestVerdictNamesWhatMustNotBe(t *testing.T) {
	res := &Result{
		Workers: 4, Acquisitions: 10, Overlaps: 2, LostUpdates: 3, Killed: 1, Paused: 1,
		till: 1_000_000,
	}
	res.Problems = res.problems()
	text := res.Text(Look{})
	for _, want := range []string{
		"Something went wrong:", "2 times the server had two holders at once", "3 updates were lost despite fencing",
		"late write was not refused",
	} {
		assert.Contains(t, text, want)
	}
	assert.True(t, !strings.Contains(text, "Shown:") && !strings.Contains(text, "\x1b"),
		"a failed run without colour is written as\n%s", text)
	for _, r := range text {
		assert.MustTrue(t, r <= 0x7e, "%q in a text that is ASCII only", r)
	}
}

func TestProgressWithoutTerminalIsALineASecond(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b}
	for ms := 0; ms <= 2500; ms += 100 {
		p.status(time.Duration(ms)*time.Millisecond, 5*time.Second, ms, 1)
	}
	want := "   1.0s  1000 holds so far\n   2.0s  2000 holds so far\n"
	assert.Equal(t, b.String(), want, "progress")
}

func TestProgressOnATerminalIsOneLine(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b, live: true}
	p.status(time.Second, 5*time.Second, 7, 0)
	p.event(1100*time.Millisecond, "news")
	p.clear() // nothing is shown: nothing to clear
	want := toLineStart + "   1.0s  of 5s   7 holds so far   now: free" + toLineStart + "   1.1s  news\n"
	assert.Equal(t, b.String(), want, "progress")
}
