//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// terminal is a process under a terminal of its own.
type terminal struct {
	t     *testing.T
	cmd   *exec.Cmd
	keys  io.Writer
	size  func(columns, rows int)
	shown vt10x.Terminal
	news  chan struct{} // something was written
	ended chan struct{}
}

// onTerminal runs the tool under a terminal.
func onTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	self, err := os.Executable()
	assert.Must(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Args[0] = "holdfast" // TestMain runs the tool under this name
	cmd.Env = append(os.Environ(), env...)
	const columns, rows = 160, 24
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: columns, Rows: rows})
	assert.Must(t, err)
	x := &terminal{t: t, cmd: cmd, keys: file, shown: vt10x.New(vt10x.WithSize(columns, rows)),
		news: make(chan struct{}, 1), ended: make(chan struct{})}
	x.size = func(columns, rows int) {
		x.shown.Resize(columns, rows)
		assert.Must(t, pty.Setsize(file, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)}))
	}
	go func() {
		defer close(x.ended)
		buffer := make([]byte, 4096)
		for {
			n, err := file.Read(buffer)
			if err != nil {
				return // the process has ended
			}
			x.shown.Write(buffer[:n]) // it takes everything
			select {
			case x.news <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() // it may have ended
		<-x.ended
		cmd.Wait()   // how it ended was judged before
		file.Close() // nothing is written any more
	})
	return x
}

// press types keys.
func (x *terminal) press(keys string) {
	x.t.Helper()
	assert.Must(x.t, assert.Err(io.WriteString(x.keys, keys)))
}

// await waits until the screen matches.
func (x *terminal) await(pattern string) {
	x.t.Helper()
	want := regexp.MustCompile(pattern)
	late := time.After(redistest.Patience)
	for !want.MatchString(x.shown.String()) {
		select {
		case <-x.news:
		case <-x.ended:
			x.t.Fatalf("ended before %q:\n%s", pattern, x.shown)
		case <-late:
			x.t.Fatalf("not after %v: %q\n%s", redistest.Patience, pattern, x.shown)
		}
	}
}

// awaitEnd waits for the end and returns the exit code.
func (x *terminal) awaitEnd() int {
	x.t.Helper()
	select {
	case <-x.ended:
	case <-time.After(redistest.Patience):
		x.t.Fatalf("still there after %v:\n%s", redistest.Patience, x.shown)
	}
	x.cmd.Wait() // the code says it
	return x.cmd.ProcessState.ExitCode()
}

// top on a real server, with locks that are held and waited for by other processes.
func TestTopShowsTheLocksOfAServer(t *testing.T) {
	server := redistest.Start(t, redistest.Tenant(target.DefaultPrefix), listing)
	env := []string{
		"HOLDFAST_REDIS=" + scheme() + server.Addr(), "SSL_CERT_FILE=" + server.CAFile(),
		"LC_ALL=C.UTF-8", "TERM=xterm", "GORACE=atexit_sleep_ms=0",
	}
	hold := func(args ...string) *terminal { return onTerminal(t, env, append([]string{"run"}, args...)...) }
	first := hold("--app", "report", "--tag", "order=42", "nightly", "--", "cat")
	hold("--app", "pool", "--permits", "3", "--weight", "2", "api", "--", "cat")

	x := onTerminal(t, env, "top", "--interval", "50ms")
	x.await(`(?m)^nightly +exclusive +report@\S+ +\S+ +█+░* +\S+s +0 `)
	x.await(`(?m)^api +permits +pool@\S+ .* 2 of 3 +\d+ *$`)
	x.await(`2 held, 0 waiting  \d\d:\d\d:\d\d UTC`)
	x.await(`(?m)^q quit  ↑↓ select  enter detail  / filter  s sort \(name\)  r reverse  p pause *$`)

	// A waiter comes, and is in the details of the lock.
	second := hold("--app", "patience", "--tag", "by=ann lee", "nightly", "--", "cat")
	x.await(`(?m)^nightly .* 1 +▁*▂`)
	x.press("\x1b[B\r")
	x.await(`(?s)nightly is held *\n.*tags +order=42 *\n.*waiting +1 *\n +1\. patience@[^\n]*, tags by="ann lee"`)

	// The holder ends: the waiter is the holder now.
	first.press("\x04")
	assert.Equal(t, first.awaitEnd(), 0, "the first holder ended with")
	x.await(`(?m)^nightly +exclusive +patience@`)

	// A filter, and another order.
	x.press("\x1b")
	x.press("/pa")
	x.await(`(?m)^/pa_   enter keep   esc clear *$`)
	x.press("t\r")
	x.await(`(?s)TOKEN *\nnightly .*\n *\n.*filter "pat"`)
	x.press("\x1bss")
	x.await(`s sort \(lease\)`)

	// A smaller screen still has its last line.
	x.size(60, 10)
	x.await(`(?m)^q quit  ↑↓ select .*… *$`)
	x.size(160, 24)
	x.await(`p pause`)

	// The server goes away: the last state stays, and the screen says so.
	server.Kill()
	x.await(`no server answers at .*: connection refused .*2 held`)
	x.await(`(?m)^nightly +exclusive +patience@`)

	// q gives the terminal back.
	x.press("q")
	assert.Equal(t, x.awaitEnd(), 0, "top ended with")
	if text := strings.TrimSpace(x.shown.String()); text != "" || !x.shown.CursorVisible() {
		t.Errorf("the terminal is not as it was: %q, a cursor: %v", text, x.shown.CursorVisible())
	}
	second.cmd.Process.Kill() // its server is gone
}

// A signal ends top, and the terminal is as it was.
func TestASignalEndsTop(t *testing.T) {
	server := redistest.Start(t, redistest.Tenant(target.DefaultPrefix), listing)
	x := onTerminal(t, []string{
		"HOLDFAST_REDIS=" + scheme() + server.Addr(), "SSL_CERT_FILE=" + server.CAFile(), "TERM=xterm",
	}, "top")
	x.await(`no lock is held, and none is waited for`)
	assert.Must(t, x.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, x.awaitEnd(), exit.CodeSignal+15, "exit code")
	assert.True(t, x.shown.CursorVisible(), "the cursor is still hidden")
}

// A terminal that can only print lines gets no screen and no colour.
func TestTopNeedsMoreThanADumbTerminal(t *testing.T) {
	x := onTerminal(t, []string{"TERM=dumb"}, "top")
	assert.Equal(t, x.awaitEnd(), exit.CodeUsage, "exit code")
	assert.True(t, strings.Contains(x.shown.String(), "TERM is dumb"), "%s", x.shown)
	for env, want := range map[string]bool{"TERM=xterm": true, "TERM=dumb": false, "NO_COLOR=1": false} {
		name, value, _ := strings.Cut(env, "=")
		got := screen.Colors(func(asked string) string { return map[string]string{name: value}[asked] })
		assert.Equal(t, got, want, "colours with %s", env)
	}
}

// On a terminal of 160 columns, a flag's text is not broken as it is on one of 80.
func TestTheHelpIsAsWideAsTheTerminal(t *testing.T) {
	x := onTerminal(t, []string{"TERM=xterm"}, "extend", "-h")
	x.await(`--owner NAME +the owner name, if acquire had one \(default: HOLDFAST_LOCK_OWNER\)`)
	assert.Equal(t, x.awaitEnd(), 0, "exit code")
}
