//go:build unix

package proc

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// TestMain makes this program its own guardian, as the tool does.
func TestMain(m *testing.M) {
	if IsGuardian(os.Args) {
		os.Exit(RunGuardian(os.Args, func(_, text string) { sayLate(os.Getenv(envSays), text) }))
	}
	os.Exit(m.Run())
}

// envSays names the file for a guardian's message. The id of the command is in the file .pid beside it.
const envSays = "HOLDFAST_TEST_GUARDIAN_SAYS"

// sayLate writes a message after the command has ended.
func sayLate(file, text string) {
	if file == "" {
		return
	}
	pid, _ := os.ReadFile(file + ".pid")
	command, _ := strconv.Atoi(strings.TrimSpace(string(pid)))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if errors.Is(syscall.Kill(command, 0), syscall.ESRCH) {
			os.WriteFile(file, []byte(text), 0o600)
			return
		}
	}
}

// patience is when a test gives up waiting for the end of processes.
const patience = time.Minute

// within are limits that no test reaches.
func within() Limits { return Limits{Tell: clock.Now() + time.Hour, Kill: clock.Now() + time.Hour} }

// guarded runs a shell script under a guardian. The script says that it is ready by a
// line to its standard input. The function returns what that descriptor says after it:
// reading ends when no process has the descriptor any more.
func guarded(t *testing.T, waiting *Guardian, grace time.Duration, script string) (*Guarded, *bufio.Reader) {
	t.Helper()
	return guardedKeeping(t, nil, waiting, grace, script)
}

// guardedKeeping is guarded, with a file that the guardian keeps open.
func guardedKeeping(
	t *testing.T, keep *os.File, waiting *Guardian, grace time.Duration, script string,
) (*Guarded, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	assert.Must(t, err)
	t.Cleanup(func() { r.Close() })
	assert.Must(t, r.SetReadDeadline(time.Now().Add(patience)))
	// Below a guardian, the command has this process's standard input.
	before := os.Stdin
	os.Stdin = w
	defer func() { os.Stdin = before }()
	if waiting == nil {
		waiting, err = Prepare(keep)
		assert.MustTrue(t, err == nil, "%v", err)
	}
	c, err := StartGuarded(waiting,
		Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ(), Stdin: w, Group: true},
		Guard{Limits: within(), Grace: grace, Signal: syscall.SIGTERM})
	w.Close() // the command has its own
	assert.Must(t, err)
	g := c.(*Guarded)
	t.Cleanup(func() { g.Kill(); awaitEnd(t, g); g.Close(); killBelow(os.Getpid()) })
	lines := bufio.NewReader(r)
	line, err := lines.ReadString('\n')
	assert.MustTrue(t, err == nil, "the command did not come up: %q, %v", line, err)
	return g, lines
}

// awaitEnd waits until the command has ended.
func awaitEnd(t *testing.T, g *Guarded) {
	t.Helper()
	select {
	case <-g.Done():
	case <-time.After(patience):
		t.Fatal("the command still runs")
	}
}

// nobodyLeft waits until no process has the command's standard input any more.
func nobodyLeft(t *testing.T, lines *bufio.Reader) {
	t.Helper()
	assert.Must(t, assert.Err(io.Copy(io.Discard, lines)))
}

func TestAGuardedCommandHasItsOwnCode(t *testing.T) {
	for script, want := range map[string]int{
		"echo up >&0; exit 0":        0,
		"echo up >&0; exit 200":      200,
		"echo up >&0; kill -TERM $$": 143,
	} {
		g, _ := guarded(t, nil, time.Hour, script)
		awaitEnd(t, g)
		if got := g.Code(); got != want || g.Err() != nil || g.Stopped() {
			t.Errorf("%s: code %d, want %d; error %v, stopped %t", script, got, want, g.Err(), g.Stopped())
		}
	}
}

func TestAGuardianTellsWhyItCannotStart(t *testing.T) {
	_, err := StartGuarded(nil, Spec{Path: "/no/such/file", Args: []string{"x"}, Group: true},
		Guard{Limits: within(), Signal: syscall.SIGTERM})
	if !errors.Is(err, fs.ErrNotExist) || StartCode(err) != CodeNotFound {
		t.Errorf("%v, code %d, want %d", err, StartCode(err), CodeNotFound)
	}
}

// slowToRead is a guardian that reads its order only once it was woken three times: by the order, and by
// keepAwake twice.
const slowToRead = `trap 'n=$((n+1))' CONT
echo up >&4
n=0
while [ $n -lt 3 ]; do sleep 0.02; done
trap '' CONT
if read -r line <&3 && [ ${#line} -gt 200000 ]; then echo '{"Did":"failed","Errno":2}' >&4; fi`

func TestALargeOrderToStartWaitsForASlowGuardian(t *testing.T) {
	toRead, orders, err := os.Pipe()
	assert.Must(t, err)
	reports, toWrite, err := os.Pipe()
	assert.Must(t, err)
	w := &Guardian{orders: orders, reports: reports, left: make(chan struct{})}
	w.process = exec.Command("/bin/sh", "-c", slowToRead)
	w.process.ExtraFiles = []*os.File{toRead, toWrite}
	assert.Must(t, ours.start(w.process))
	toRead.Close()
	toWrite.Close()
	go func() {
		w.process.Wait()
		ours.forget(w.process.Process.Pid)
		close(w.left)
	}()
	assert.Must(t, assert.Err(io.ReadFull(reports, make([]byte, len("up\n")))))
	_, err = w.begin(Spec{Path: "x", Env: []string{"BIG=" + strings.Repeat("x", 200_000)}, Group: true},
		Guard{Limits: Limits{Tell: clock.Now() + patience, Kill: clock.Now() + patience}, Signal: syscall.SIGTERM})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want what the guardian reported", err)
	}
}

func TestPastItsFirstLimitACommandIsToldToEnd(t *testing.T) {
	g, _ := guarded(t, nil, time.Hour, "trap 'exit 9' TERM; echo up >&0; sleep 1000 & wait")
	g.Until(Limits{Tell: clock.Now(), Kill: clock.Now() + time.Hour})
	awaitEnd(t, g)
	if g.Code() != 9 || !g.Stopped() {
		t.Errorf("code %d, want 9; stopped by the guardian: %t", g.Code(), g.Stopped())
	}
}

func TestPastItsLastLimitACommandIsKilled(t *testing.T) {
	g, lines := guarded(t, nil, time.Hour, "exec 3<&0; trap '' TERM; sleep 1000 & echo up >&3; wait; wait")
	g.Until(Limits{Tell: clock.Now(), Kill: clock.Now()})
	awaitEnd(t, g)
	nobodyLeft(t, lines)
	if g.Code() != 137 || !g.Stopped() {
		t.Errorf("code %d, want 137; stopped by the guardian: %t", g.Code(), g.Stopped())
	}
}

// The end of its orders tells a guardian that the wrapper is dead.
func TestWithoutAWrapperACommandIsToldToEnd(t *testing.T) {
	g, _ := guarded(t, nil, time.Hour, "trap 'exit 9' TERM; echo up >&0; sleep 1000 & wait")
	assert.Must(t, g.orders.Close())
	awaitEnd(t, g)
	assert.Equal(t, g.Code(), 9, "code")
}

// A command may end sooner than its guardian has written why.
func TestAGuardianEndsAfterItsMessage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "said")
	guardianEnvironment = []string{envSays + "=" + file}
	defer func() { guardianEnvironment = []string{} }()
	g, _ := guarded(t, nil, time.Hour, "trap 'exit 9' TERM; echo $$ > "+file+".pid; echo up >&0; "+
		"while :; do sleep 0.05; done") // a long sleep that has not begun yet would miss the signal
	assert.Must(t, g.orders.Close())
	awaitEnd(t, g)
	<-g.left
	said, err := os.ReadFile(file)
	assert.Must(t, err)
	assert.Contains(t, string(said), "holdfast was killed")
}

func TestWithoutAWrapperACommandIsKilledAfterItsGrace(t *testing.T) {
	g, lines := guarded(t, nil, 0, "exec 3<&0; trap '' TERM; sleep 1000 & echo up >&3; wait; wait")
	assert.Must(t, g.orders.Close())
	awaitEnd(t, g)
	nobodyLeft(t, lines)
	assert.Equal(t, g.Code(), 137, "code")
}

func TestLaterLimitsCount(t *testing.T) {
	g, _ := guarded(t, nil, time.Hour, "trap 'exit 9' USR1; echo up >&0; sleep 1000 & wait")
	g.Until(within())
	if err := g.Signal(syscall.SIGUSR1); err != nil { // orders are obeyed one after the other
		t.Fatal(err)
	}
	awaitEnd(t, g)
	if g.Code() != 9 || g.Stopped() {
		t.Errorf("code %d, want 9; stopped by the guardian: %t", g.Code(), g.Stopped())
	}
}

func TestAGuardianThatDiedWhileItWaitedIsReplaced(t *testing.T) {
	waiting, err := Prepare(nil)
	assert.Must(t, err)
	assert.Must(t, waiting.process.Process.Kill())
	<-waiting.left
	g, _ := guarded(t, waiting, time.Hour, "echo up >&0; exit 7")
	awaitEnd(t, g)
	assert.True(t, g.Code() == 7 && g.Err() == nil, "code %d, want 7; error %v", g.Code(), g.Err())
}

func TestAStoppedGuardianStillEndsTheCommand(t *testing.T) {
	g, lines := guarded(t, nil, time.Hour, "exec 3<&0; trap '' TERM; sleep 1000 & echo up >&3; wait; wait")
	assert.Must(t, g.process.Process.Signal(syscall.SIGSTOP))
	g.Kill()
	awaitEnd(t, g)
	nobodyLeft(t, lines)
	assert.Equal(t, g.Code(), 137, "code")
}
