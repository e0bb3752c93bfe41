//go:build unix

package proc

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// KnowsRest says that a guardian knows what a command leaves behind.
const KnowsRest = true

// withoutPath is where commands are if PATH is not set, as for execvp.
var withoutPath = []string{"/usr/bin", "/bin"}

// KeepIgnored ignores QUIT if INT was ignored when we were started: a shell without job control ignores both for
// what it starts in the background. By itself, Go keeps only HUP and INT ignored, and does not tell of the others.
func KeepIgnored() {
	if signal.Ignored(syscall.SIGINT) {
		signal.Ignore(syscall.SIGQUIT)
	}
}

// Signals are the ones that a command is sent on our account. If HUP, or INT and QUIT, were ignored when we were
// started, they stay ignored, for us and the command: nohup and shells without job control rely on it.
func Signals() []os.Signal {
	all := []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
	}
	var list []os.Signal
	for _, sig := range all {
		if !signal.Ignored(sig) {
			list = append(list, sig)
		}
	}
	return list
}

// StopSignal is what Ctrl-Z sends. Its default stops a process, which is right
// for a wrapper without a command: so it is caught only while one runs.
func StopSignal() (os.Signal, bool) { return syscall.SIGTSTP, !signal.Ignored(syscall.SIGTSTP) }

// Ends reports whether sig ends a process that does not expect it. USR1 and
// USR2 would too; they are for a command, and there is none yet.
func Ends(sig os.Signal) bool {
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
		return true
	}
	return false
}

// FromTerminal reports whether a terminal sends sig to everybody in its
// foreground group by itself, so that passing it on would send it twice.
func FromTerminal(sig os.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGWINCH, syscall.SIGCONT:
		return true
	}
	return false
}

// Continues reports whether sig is what wakes a stopped process.
func Continues(sig os.Signal) bool { return sig == syscall.SIGCONT }

// Stops reports whether sig is what Ctrl-Z sends.
func Stops(sig os.Signal) bool { return sig == syscall.SIGTSTP }

// Number is the signal's number, for exit codes.
func Number(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return int(s)
	}
	return 0
}

// Named answers the signal of a name such as TERM.
func Named(name string) (os.Signal, bool) {
	switch name {
	case "TERM":
		return syscall.SIGTERM, true
	case "INT":
		return syscall.SIGINT, true
	case "KILL":
		return syscall.SIGKILL, true
	}
	return nil, false
}

// StopSelf stops this process until somebody continues it. SIGSTOP, since it
// has stopped us when the call returns; SIGTSTP might come later.
func StopSelf() error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// ReadInBackground makes a read from a terminal in the background fail. By default it stops the process.
func ReadInBackground() { signal.Ignore(syscall.SIGTTIN) }

// HasTerminal reports whether this process has a controlling terminal, and so
// perhaps a shell that waits for us to stop when the user presses Ctrl-Z.
func HasTerminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	tty.Close() //nolint:errcheck // nothing was written
	return true
}

// Foreground reports whether this process is in the foreground of its terminal, whatever its standard input is: then
// what it starts may ask for a password or draw there. A process of another group would be stopped for that.
func Foreground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close() //nolint:errcheck // nothing was written
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// Inherited reports whether fd was open when this process began, and can be written to. What
// the runtime has opened since is marked to be closed by exec; what came through an exec
// cannot be.
func Inherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	mode, bad := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0 && bad == nil && mode&unix.O_ACCMODE != unix.O_RDONLY
}

// CloseOnExec keeps fd from being inherited by commands.
func CloseOnExec(fd int) { syscall.CloseOnExec(fd) }

func attributes(spec Spec) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: spec.Group}
	if spec.DieWithParent {
		dieWithParent(attr)
	}
	return attr
}

func (c *Child) send(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return errors.New("no such signal here: " + sig.String())
	}
	to := c.PID()
	if c.group {
		to = -to
	}
	return syscall.Kill(to, s)
}

func (c *Child) wake() { c.Signal(syscall.SIGCONT) } //nolint:errcheck // it may have ended

func killGroup(pid int) { syscall.Kill(-pid, syscall.SIGKILL) } //nolint:errcheck // it may be empty

func groupEmpty(pid int) bool { return errors.Is(syscall.Kill(-pid, 0), syscall.ESRCH) }

func code(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return CodeSignal + int(status.Signal())
	}
	return state.ExitCode()
}

// ContinueSignal is what wakes a stopped process.
func ContinueSignal() (os.Signal, bool) { return syscall.SIGCONT, true }

// Name is the signal's name without SIG, as in TERM.
func Name(sig os.Signal) string {
	if s, ok := sig.(syscall.Signal); ok {
		if name := unix.SignalName(s); name != "" {
			return name[len("SIG"):]
		}
	}
	return sig.String()
}

// Become replaces this process by another program. It returns only if that failed.
func Become(path string, args, env []string) (code int, err error) {
	return 0, syscall.Exec(path, args, env)
}
