package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// A command whose guardian is killed dies with it. What the command has started, in
// groups and sessions of its own too, becomes ours and is killed.
func TestAKilledGuardianLeavesNothingBehind(t *testing.T) {
	g, lines := guarded(t, nil, time.Hour,
		`exec 3<&0; trap '' TERM; setsid sh -c 'trap "" TERM; echo up >&3; sleep 1000 & wait; wait' & wait; wait`)
	assert.Must(t, g.process.Process.Kill())
	awaitEnd(t, g)
	nobodyLeft(t, lines)
	if g.Code() != 137 || g.Err() == nil || !g.Gone() {
		t.Errorf("code %d, want 137; error %v, gone %t", g.Code(), g.Err(), g.Gone())
	}
}

// A guardian may be killed before it can tell that the command runs. The command was started then, and is not started
// a second time.
func TestACommandIsStartedOnceAlsoIfItsGuardianIsKilledAtOnce(t *testing.T) {
	begun := filepath.Join(t.TempDir(), "begun")
	waiting, err := Prepare(nil)
	assert.Must(t, err)
	reports, end, err := os.Pipe() // what the guardian tells is lost
	assert.Must(t, err)
	defer waiting.reports.Close()
	waiting.reports = reports
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		defer end.Close()
		for late := time.Now().Add(patience); time.Now().Before(late); <-tick.C {
			if text, _ := os.ReadFile(begun); len(text) > 0 {
				return
			}
		}
	}()
	c, err := StartGuarded(waiting, Spec{Path: "/bin/sh",
		Args: []string{"sh", "-c", "echo begun >>" + begun + "; sleep 1000"}, Env: os.Environ(), Group: true},
		Guard{Limits: within(), Grace: time.Hour, Signal: syscall.SIGTERM})
	assert.Must(t, err)
	t.Cleanup(func() { c.Kill(); c.Close() })
	awaitEnd(t, c.(*Guarded))
	text, err := os.ReadFile(begun)
	assert.True(t, err == nil && string(text) == "begun\n", "it has begun: %q, %v", text, err)
	assert.True(t, c.Code() == 137 && c.Err() != nil && c.Gone(),
		"code %d, error %v, gone %t", c.Code(), c.Err(), c.Gone())
}

// The wrapper's Kill looks below the guardian itself. At a limit, the guardian is alone.
func TestPastItsLastLimitOtherSessionsAreKilled(t *testing.T) {
	g, lines := guarded(t, nil, time.Hour,
		`exec 3<&0; trap '' TERM; setsid sh -c 'trap "" TERM; echo up >&3; sleep 1000; :' & wait; wait`)
	g.Until(Limits{Tell: clock.Now(), Kill: clock.Now()})
	awaitEnd(t, g)
	nobodyLeft(t, lines)
}

// Kill reaches what has left the command's group, also after the command's end.
func TestKillReachesOtherSessions(t *testing.T) {
	g, lines := guarded(t, nil, time.Hour, `exec 3<&0; setsid sh -c 'trap "" TERM; echo up >&3; sleep 1000; :' &`)
	awaitEnd(t, g)
	assert.False(t, g.Gone(), "the guardian counts a process as gone that lives in another session")
	g.Kill()
	nobodyLeft(t, lines)
}

// What a command leaves to the first process of a container does not stay a zombie when it has ended.
func TestWhatWasLeftBehindIsReaped(t *testing.T) {
	adopt(true)
	defer adopt(false)
	c, err := Start(Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 1000 >/dev/null 2>&1 &"}, Env: os.Environ(), Group: true,
	})
	assert.Must(t, err)
	<-c.Done()
	left := func() (ours []process) {
		for _, p := range strays() {
			if group, err := syscall.Getpgid(p.pid); err == nil && group == c.PID() {
				ours = append(ours, p)
			}
		}
		return ours
	}
	reapLeft()
	list := left()
	assert.MustEqual(t, len(list), 1, "processes that the command has left, and that run")
	list[0].signal(syscall.SIGKILL)
	for tick := time.Tick(time.Millisecond); len(left()) > 0; <-tick {
		reapLeft()
	}
}

func TestBothWaysToListProcessesAgree(t *testing.T) {
	c := start(t, true, "exec 3<&0; sh -c 'sleep 1000 & echo up >&3; wait' & wait")
	all := byParent()
	var want []int
	for next := []int{c.PID()}; len(next) > 0; next = next[1:] {
		want = append(want, all[next[0]]...)
		next = append(next, all[next[0]]...)
	}
	var got []int
	for _, p := range below(c.PID()) {
		got = append(got, p.pid)
	}
	slices.Sort(got)
	slices.Sort(want)
	assert.True(t, len(got) == 2 && slices.Equal(got, want),
		"below: %v; by all processes' parents: %v; want the shell and its sleep", got, want)
}

// The kernel writes a process's name as it is, spaces and parentheses too.
func TestANameMayLookLikeTheRestOfTheLine(t *testing.T) {
	shell, err := os.ReadFile("/bin/sh")
	assert.Must(t, err)
	odd := filepath.Join(t.TempDir(), "a) Z 1 (b")
	if err := os.WriteFile(odd, shell, 0o755); err != nil { // it must be executable
		t.Fatal(err)
	}
	c := start(t, true, "exec 3<&0; '"+odd+"' -c 'echo up >&3; kill -STOP $$' & wait")
	list := below(c.PID())
	if len(list) != 1 || list[0].parent != c.PID() || list[0].zombie {
		t.Fatalf("below: %+v, want one process that runs, with the parent %d", list, c.PID())
	}
	name, err := os.ReadFile("/proc/" + strconv.Itoa(list[0].pid) + "/comm")
	assert.False(t, err != nil || !strings.Contains(string(name), ") Z 1 ("), "its name is %q (%v)", name, err)
}

func TestASignalSparesALaterProcessOfTheSameID(t *testing.T) {
	c := start(t, true, "trap 'exit 9' USR1; echo up >&0; sleep 1000 & wait")
	p, ok := look(c.PID())
	assert.MustTrue(t, ok, "the process is not there")
	before := p
	before.began = "1"
	before.signal(syscall.SIGKILL)
	p.signal(syscall.SIGUSR1)
	<-c.Done()
	assert.Equal(t, c.Code(), 9, "code: the signal for the process before must not reach it")
}
