package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// command is the program as users build it. Its client processes are that program, too.
type command struct {
	t    *testing.T
	path string
	dir  string // it runs there
	env  []string
}

func TestTheCommand(t *testing.T) {
	t.Setenv(redistest.EnvServers, "") // its proxies cannot look into the TLS of a user's server
	path := filepath.Join(t.TempDir(), "holdfast-verify")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".").CombinedOutput()
	assert.MustTrue(t, err == nil, "%v\n%s", err, out)
	for name, test := range map[string]func(*command){
		"on its own server":                 onItsOwnServer,
		"on a server of the user's":         onAServerOfTheUsers,
		"what cannot be is refused at once": whatCannotBeIsRefusedAtOnce,
	} {
		t.Run(name, func(t *testing.T) { test(&command{t: t, path: path, dir: t.TempDir()}) })
	}
}

// run returns what the command prints, and its exit code.
func (c *command) run(args ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	var out, said strings.Builder
	cmd := exec.CommandContext(c.t.Context(), c.path, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.dir, append(os.Environ(), c.env...), &out, &said
	if err := cmd.Run(); err != nil {
		exited, ok := errors.AsType[*exec.ExitError](err)
		assert.MustTrue(c.t, ok, "%v", err)
		code = exited.ExitCode()
	}
	return out.String(), said.String(), code
}

func (c *command) read(name string) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	assert.Must(c.t, err)
	return string(text)
}

func (c *command) contains(text string, parts ...string) {
	c.t.Helper()
	for _, part := range parts {
		assert.True(c.t, strings.Contains(text, part), "no %q in %s", part, text)
	}
}

// short is a run of three seconds, or of more if a busy machine has done too little in them.
func (c *command) short(args ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	args = append(args, strings.Fields("--ttl 1s --clients 2 --works mutex,update --faults kill,cut --duration")...)
	for _, duration := range []string{"3s", "12s", "48s"} {
		assert.Must(c.t, os.RemoveAll(filepath.Join(c.dir, "kept")))
		stdout, stderr, code = c.run(append(args, duration)...)
		if !strings.Contains(stdout, "was never injected") && !strings.Contains(stdout, "never got what it wanted") {
			break
		}
	}
	return stdout, stderr, code
}

func onItsOwnServer(c *command) {
	t := c.t
	out, said, code := c.short("--json", "--html", "page.html")
	assert.MustTrue(t, code == 0, "%d: %s%s", code, out, said)
	assert.True(t, strings.HasPrefix(out, `{"ok":true,"server":"standalone, `), "%s", out)
	c.contains(out, `"setup":{"topology":"standalone",`, `"violations":0,`)
	for _, none := range []string{`"acquisitions":0,`, `"faults_injected":0,`} {
		assert.False(t, strings.Contains(out, none), "%s in %s", none, out)
	}
	c.contains(c.read("page.html"), "Every promise was kept", "<svg")
}

// On a server of the user's it uses keys under the prefix, and tells nobody the password. What it keeps can be
// judged again.
func onAServerOfTheUsers(c *command) {
	t := c.t
	server := redistest.Start(t, redistest.Password("s3cret"), redistest.Needs("for `holdfast verify`"))
	c.env = []string{"HOLDFAST_PASSWORD=s3cret"}
	out, said, code := c.short("--yes", "--redis", "redis://"+server.Addr(), "--prefix", "mine", "--keep", "--dir", "kept")
	assert.MustTrue(t, code == 0, "%d: %s%s", code, out, said)
	c.contains(out, "\nredis://"+server.Addr()+", ", "\nEvery promise was kept")
	for _, key := range server.Do(t, "KEYS", "*").([]any) {
		assert.True(t, strings.HasPrefix(key.(string), "mine:"), "it left the key %s", key)
	}

	files, err := filepath.Glob(filepath.Join(c.dir, "kept", "*.jsonl"))
	assert.MustTrue(t, err == nil && len(files) > 0, "%v: %v", files, err)
	history := ""
	for _, file := range files {
		history += c.read(strings.TrimPrefix(file, c.dir))
	}
	assert.False(t, strings.Contains(out+said+history, "s3cret"), "the password is told")
	write := func(name, text string) { assert.Must(t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600)) }
	write("history.jsonl", history)
	out, said, code = c.run("--judge", "history.jsonl")
	assert.True(t, code == 0 && strings.Contains(out, "\nEvery promise was kept"), "%d: %s%s", code, out, said)
	write("cut.jsonl", history[:1000])
	_, said, code = c.run("--judge", "cut.jsonl")
	assert.True(t, code == 1 && strings.Contains(said, "of the history"), "%d: %s", code, said)
}

// What cannot be is said before anything is started.
func whatCannotBeIsRefusedAtOnce(c *command) {
	const url = "redis://127.0.0.1:1"
	for _, r := range []struct{ args, says string }{
		{"--redis " + url, "asks before it uses your server, but standard input is not a terminal\nhint: "},
		{"--redis " + url + " --yes --faults flush-all", "would break your server"},
		{"--topology cluster --redis " + url, "leave one out"},
		{"--topology moon", "write one of standalone, durable, everysec, sentinel, cluster, quorum"},
		{"--duration 1s", "hint: "},
		{"--judge nothing.jsonl", "nothing.jsonl"},
		{"again", `"again" is one too many`},
		{"--topologie cluster", "holdfast: unknown flag: --topologie\n"},
	} {
		_, said, code := c.run(strings.Fields(r.args)...)
		assert.True(c.t, code == 64 && strings.Contains(said, r.says), "%s: %d: %s", r.args, code, said)
	}
	c.env = []string{"HOLDFAST_DURATION=soon"}
	_, said, code := c.run()
	assert.True(c.t, code == 64 && strings.Contains(said, "HOLDFAST_DURATION in the environment"), "%d: %s", code, said)
	c.env = nil
	out, _, code := c.run("--help")
	assert.True(c.t, code == 0, "%d", code)
	c.contains(out, "stop-writer", "a client is stopped")
}
