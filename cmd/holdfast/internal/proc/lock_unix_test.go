//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// The lock of a wrapper that has died lasts as long as its guardian. Neither the command nor
// what it leaves behind has it.
func TestAGuardianKeepsTheLockUntilItEnds(t *testing.T) {
	dir := t.TempDir()
	open := func() *os.File {
		f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
		assert.Must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	ours, theirs := open(), open()
	if mine, err := Lock(ours); !mine || err != nil {
		t.Fatalf("a free file: %t, %v", mine, err)
	}
	rest := filepath.Join(dir, "rest")
	g, _ := guardedKeeping(t, ours, nil, time.Hour, "sleep 1000 <&- & echo $! > "+rest+"; echo up >&0; exec sleep 1000")
	ours.Close()
	if mine, err := Lock(theirs); mine || err != nil {
		t.Errorf("the guardian still runs: %t, %v", mine, err)
	}
	assert.Must(t, syscall.Kill(g.PID(), syscall.SIGKILL))
	awaitEnd(t, g)
	g.Close()
	<-g.left
	if mine, err := Lock(theirs); !mine || err != nil {
		t.Errorf("the guardian has ended: %t, %v", mine, err)
	}
	text, err := os.ReadFile(rest)
	assert.Must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	assert.Must(t, err)
	assert.True(t, Runs(pid), "what the command has left behind does not run, so the test shows nothing")
	assert.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

func TestAProcessThatNobodyWaitedForDoesNotRun(t *testing.T) {
	assert.True(t, Runs(os.Getpid()), "this test does not run")
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "exit 0"}, &os.ProcAttr{})
	assert.Must(t, err)
	defer p.Wait()
	if !adopts {
		return // nothing tells it here
	}
	for late := time.Now().Add(patience); Runs(p.Pid); {
		assert.MustTrue(t, !time.Now().After(late), "a process that has ended runs")
	}
}
