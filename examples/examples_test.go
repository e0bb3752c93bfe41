// Package examples_test builds every example, runs it against a real server, and checks
// its output.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// binaries builds all examples once, without debug information.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "examples")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir+string(os.PathSeparator), "./...")
	out, err := build.CombinedOutput()
	if err != nil {
		err = &buildError{string(out), err}
	}
	return dir, err
})

type buildError struct {
	output string
	cause  error
}

func (e *buildError) Error() string { return e.cause.Error() + "\n" + e.output }

func TestMain(m *testing.M) {
	status := m.Run()
	if dir, err := binaries(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(status)
}

// run runs an example against its own server, and returns its output.
func run(t *testing.T, name string, env ...string) string {
	t.Helper()
	dir, err := binaries()
	assert.Must(t, err)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, name))
	cmd.Env = append(os.Environ(), "HOLDFAST_REDIS="+redistest.Start(t).URL())
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	assert.MustTrue(t, err == nil, "%v\n%s", err, out)
	t.Logf("\n%s", out)
	return string(out)
}

// says checks that the output has matching lines, in this order.
func says(t *testing.T, out string, patterns ...string) {
	t.Helper()
	rest := out
	for _, pattern := range patterns {
		at := regexp.MustCompile(`(?m)` + pattern).FindStringIndex(rest)
		assert.MustTrue(t, at != nil, "it does not say %q after what it said before:\n%s", pattern, out)
		rest = rest[at[1]:]
	}
}

// times checks the number of matching lines in the output.
func times(t *testing.T, out, pattern string, want int) {
	t.Helper()
	got := 0
	for line := range strings.Lines(out) {
		if regexp.MustCompile(pattern).MatchString(strings.TrimSuffix(line, "\n")) {
			got++
		}
	}
	assert.True(t, got == want, "%q is said %d times, not %d:\n%s", pattern, got, want, out)
}

func TestFenced(t *testing.T) {
	t.Parallel()
	out := run(t, "fenced")
	says(t, out,
		`^first: has the lock, and has written 100$`, `^second has the lock, and has written 250$`,
		`^first: writes 175: refused`, `^first: releases: .*no longer held`, `^the balance is 250$`)
	times(t, out, `has written \d+$`, 2)
}
