// Package proc starts one command, passes signals on to it and ends it. It
// knows nothing of locks, or why a command has to end.
//
//   - The command runs in a process group of its own, and signals go to the
//     group. If it shares a terminal with the wrapper, it stays in the wrapper's
//     group, because another group could not read from the terminal.
//   - Between the wrapper and the command stands a guardian, a small process
//     that ends the command if the wrapper dies or misses a deadline
//     ([StartGuarded], guardian.go). On Linux it also ends what the command has
//     started. Windows has no guardian.
package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// Exit codes that shells give to commands that could not be started, or that a
// signal ended.
const (
	CodeNotExecutable = 126
	CodeNotFound      = 127
	CodeSignal        = 128 // to which the signal's number is added
)

// Spec says what to start.
type Spec struct {
	Path  string   // the file to execute, from [Look]
	Args  []string // the whole argument list, the command's own name first
	Env   []string
	Stdin *os.File // nil: the null device

	// Group gives the command a process group of its own; signals go to all
	// of it.
	Group bool

	// DieWithParent has the kernel kill the command when this process ends,
	// however it ends. Only on Linux, and only the command itself: not what
	// it has started.
	DieWithParent bool
}

// Guard says when a guardian ends a command. Its times are those of
// internal/clock in this process.
type Guard struct {
	Limits
	Grace  time.Duration // from the signal to KILL, if the wrapper dies
	Signal os.Signal     // asks the command to end
	Format string        // of the guardian's message, as given to the function that prints it
	Keep   *os.File      // the guardian keeps it open, and with it its lock; nil: none
	All    bool          // the limits are for what the command leaves behind, too
}

// Limits are the instants at which a guardian acts, unless it gets later ones.
type Limits struct {
	Tell time.Duration // it sends the signal
	Kill time.Duration // it kills
}

// Command is a command that runs or has ended: a [Child], or guarded.
type Command interface { //nolint:interfacebloat // two kinds of one thing
	// PID is the command's process id.
	PID() int
	// Done is closed when the command has ended.
	Done() <-chan struct{}
	// Code is the exit code of a command that has ended, as a shell reports it:
	// its own, or CodeSignal + n if signal n ended it.
	Code() int
	// Signal sends sig to the command, or to its group. A command that has ended
	// is no error.
	Signal(sig os.Signal) error
	// Tell begins to end the command: it sends sig and wakes a command that is
	// stopped, so that it can act on it.
	Tell(sig os.Signal) error
	// Kill ends the command, and what is left of it even after its end.
	Kill()
	// Gone reports whether the command has ended, and all that was to end with it.
	Gone() bool
	// Rest is closed when the command has ended, and all that it has started; without a guardian, when the
	// command has ended.
	Rest() <-chan struct{}
	// Left are the processes that a command which has ended leaves behind, as far as that is known.
	Left() []Process
	// Until gives the guardian later limits.
	Until(l Limits)
	// Stopped reports whether the guardian has begun to end the command by itself.
	Stopped() bool
	// Err tells that the guardian died before the command had ended. Then the
	// command was killed.
	Err() error
	// Close ends the guardian. It does not end what the command has left behind.
	Close()
}

// Child is a running or ended command that has no guardian.
type Child struct {
	cmd   *exec.Cmd
	group bool
	done  chan struct{} // closed once the command was waited for

	mu    sync.Mutex // guards ended against signals to a process id that is free for others
	ended bool
}

// Process is a process that a command has left behind, or its process group.
type Process struct {
	PID   int // 0: it is a group
	group int
	name  string
	began string // a process id alone may be another's by the time it is used
}

func (p Process) String() string {
	if p.PID == 0 {
		return fmt.Sprintf("process group %d", p.group)
	}
	return fmt.Sprintf("%s (%d)", p.name, p.PID)
}

// Runs reports whether it still runs.
func (p Process) Runs() bool {
	if p.PID == 0 {
		return !groupEmpty(p.group)
	}
	return runs(p.PID, p.began)
}

// groupOf is a process group, if any process is in it.
func groupOf(id int) []Process {
	if groupEmpty(id) {
		return nil
	}
	return []Process{{group: id}}
}

// Look finds the file that a command's name stands for, as a shell does. The
// current directory counts if PATH names it: the user said so. An environment
// without PATH does not mean that there are no commands.
func Look(name string) (string, error) {
	path, err := exec.LookPath(name)
	if _, set := os.LookupEnv("PATH"); !set && filepath.Base(name) == name {
		for _, dir := range withoutPath {
			if found, missing := exec.LookPath(filepath.Join(dir, name)); missing == nil {
				return found, nil
			}
		}
	}
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	return path, err
}

// StartCode is the exit code for an error of [Look] or [Start]: 127 for a
// command that does not exist, 126 for one that cannot be executed.
func StartCode(err error) int {
	if errors.Is(err, ErrNoGuardian) {
		return CodeNotExecutable
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return CodeNotFound
	}
	return CodeNotExecutable
}

// ErrNoGuardian means that the guardian of the command could not be started.
var ErrNoGuardian = errors.New("its guardian cannot be started")

// Start runs the command with this process's standard output and error.
func Start(spec Spec) (*Child, error) {
	cmd := &exec.Cmd{Path: spec.Path, Args: spec.Args, Env: spec.Env, Stdout: os.Stdout, Stderr: os.Stderr}
	if spec.Stdin != nil {
		cmd.Stdin = spec.Stdin
	}
	cmd.SysProcAttr = attributes(spec)

	c := &Child{cmd: cmd, group: spec.Group, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel ties the command's life to the thread that started it,
		// and Go ends threads at will. So this one is kept until the command
		// has ended: it waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := ours.start(cmd)
		started <- err
		if err != nil {
			return
		}
		cmd.Wait() //nolint:errcheck // the status is read from ProcessState
		ours.forget(cmd.Process.Pid)
		c.mu.Lock()
		c.ended = true
		c.mu.Unlock()
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// children are the processes that this one has started itself. All others below it
// were left to it by a guardian that died.
type children struct {
	mu      sync.Mutex
	pids    map[int]bool
	leaving <-chan struct{} // closed once the last guardian that was told to end has ended
}

var ours = children{pids: map[int]bool{}}

func (c *children) start(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := cmd.Start()
	if err == nil {
		c.pids[cmd.Process.Pid] = true
	}
	return err
}

func (c *children) forget(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pids, pid)
}

// PID is the command's process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done is closed when the command has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Code is the exit code of a command that has ended, as a shell reports it:
// its own, or CodeSignal + n if signal n ended it.
func (c *Child) Code() int { return code(c.cmd.ProcessState) }

// Rest is closed when the command has ended.
func (c *Child) Rest() <-chan struct{} { return c.done }

// Left is what is in the command's process group.
func (c *Child) Left() []Process {
	if !c.group {
		return nil
	}
	return groupOf(c.PID())
}

// Until does nothing: there is no guardian.
func (c *Child) Until(Limits) {}

// Stopped is never true: there is no guardian.
func (c *Child) Stopped() bool { return false }

// Err is always nil: there is no guardian.
func (c *Child) Err() error { return nil }

// Close does nothing: there is no guardian.
func (c *Child) Close() {}

// Signal sends sig to the command, or to its group. A command that has ended
// is no error.
func (c *Child) Signal(sig os.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	return c.send(sig)
}

// Tell sends sig and wakes a command that is stopped, so that it can act on it.
func (c *Child) Tell(sig os.Signal) error {
	err := c.Signal(sig)
	c.wake()
	return err
}

// Kill ends the command, and what is left of its group even after its end.
func (c *Child) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.ended:
		c.send(os.Kill) //nolint:errcheck // it may end at this moment
	case c.group:
		killGroup(c.PID())
	}
}

// Gone reports whether the command has ended and its group is empty.
func (c *Child) Gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended && (!c.group || groupEmpty(c.PID()))
}
