//go:build unix

package proc

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// start runs a shell script that says when it is ready by writing a line.
func start(t *testing.T, group bool, script string) *Child {
	t.Helper()
	r, w, err := os.Pipe()
	assert.Must(t, err)
	defer r.Close()
	// The child's standard input is the pipe's other end: it writes to it.
	c, err := Start(Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ(), Stdin: w, Group: group,
		DieWithParent: true})
	w.Close() // the child has its own
	assert.Must(t, err)
	t.Cleanup(func() { c.Kill(); <-c.Done() })
	line, err := bufio.NewReader(r).ReadString('\n')
	assert.MustTrue(t, err == nil, "the child did not come up: %q, %v", line, err)
	return c
}

func TestCodesAreThoseOfAShell(t *testing.T) {
	for script, want := range map[string]int{
		"echo up >&0; exit 0":        0,
		"echo up >&0; exit 200":      200,
		"echo up >&0; kill -TERM $$": 143,
		"echo up >&0; kill -KILL $$": 137,
	} {
		c := start(t, true, script)
		<-c.Done()
		assert.Equal(t, c.Code(), want, "%s", script)
	}
}

func TestWhatCannotBeStartedHasACode(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o755); err != nil { // it must look executable
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"/no/such/file": CodeNotFound, "/": CodeNotExecutable, plain: CodeNotExecutable,
	} {
		_, err := Start(Spec{Path: path, Args: []string{"x"}})
		if err == nil || StartCode(err) != want {
			t.Errorf("%s: %v, code %d, want %d", path, err, StartCode(err), want)
		}
	}
	_, err := Look("no-such-command")
	assert.True(t, StartCode(err) == CodeNotFound && errors.Is(err, exec.ErrNotFound), "no-such-command: %v", err)
}

// As with env -i: execvp, and with it flock, finds the commands of the system.
func TestWithoutPathTheCommandsOfTheSystemAreFound(t *testing.T) {
	t.Setenv("PATH", "") // it is set back at the end
	_, err := Look("sh")
	assert.Is(t, err, exec.ErrNotFound)
	assert.Must(t, os.Unsetenv("PATH"))
	path, err := Look("sh")
	assert.True(t, err == nil && filepath.IsAbs(path), "sh is at %q: %v", path, err)
	_, err = Look("no-such-command")
	assert.Is(t, err, exec.ErrNotFound)
}

func TestASignalReachesTheWholeGroup(t *testing.T) {
	c := start(t, true, "sleep 1000 <&- & echo up >&0; wait")
	assert.Must(t, c.Signal(syscall.SIGTERM))
	<-c.Done()
	assert.Equal(t, c.Code(), 143, "code")
	c.Kill() // harmless, whether the sleep is gone already or not
	assert.NoError(t, c.Signal(syscall.SIGTERM))
}

func TestASharedGroupIsOurs(t *testing.T) {
	c := start(t, false, "echo up >&0; exec sleep 1000 <&-")
	group, err := syscall.Getpgid(c.PID())
	if err != nil || group != syscall.Getpgrp() {
		t.Errorf("process group %d (%v), want ours, %d", group, err, syscall.Getpgrp())
	}
	c.Kill()
	<-c.Done()
}

func TestAStoppedCommandCanBeTold(t *testing.T) {
	c := start(t, true, "trap 'exit 9' TERM; echo up >&0; sleep 1000 & wait")
	assert.Must(t, c.Signal(syscall.SIGSTOP))
	assert.Must(t, c.Tell(syscall.SIGTERM))
	<-c.Done()
	assert.Equal(t, c.Code(), 9, "code")
}

// The kernel ends a command with the thread that started it. Go ends threads:
// one whose goroutine returns while locked to it, for example.
func TestAThreadThatEndsDoesNotTakeTheCommandAlong(t *testing.T) {
	c := start(t, true, "echo up >&0; exec sleep 1000 <&-")
	for range 50 {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			runtime.LockOSThread() // and never unlocked: the thread ends
		}()
		<-ended
	}
	select {
	case <-c.Done():
		t.Fatalf("the command ended, code %d", c.Code())
	default:
	}
}

func TestDescriptorsOfTheRuntimeAreNotInherited(t *testing.T) {
	f, err := os.Open(os.DevNull)
	assert.Must(t, err)
	defer f.Close()
	assert.False(t, Inherited(int(f.Fd())), "a file that we have opened counts as inherited")
	assert.True(t, Inherited(2) && !Inherited(1000),
		"standard error does not count as inherited, or a closed descriptor does")
}
