//go:build !unix

package proc

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// KnowsRest says that a guardian knows what a command leaves behind.
const KnowsRest = false

func runs(int, string) bool { return false }

// Signals are the ones that reach us; here it is Ctrl-C alone, and the console
// sends it to the command as well.
func Signals() []os.Signal { return []os.Signal{os.Interrupt} }

// StopSignal does not exist here.
func StopSignal() (os.Signal, bool) { return nil, false }

// Ends reports whether sig ends a process that does not expect it.
func Ends(sig os.Signal) bool { return sig == os.Interrupt }

// FromTerminal reports whether the console sends sig to the command by itself.
func FromTerminal(sig os.Signal) bool { return sig == os.Interrupt }

// Continues is never true: nothing stops a process here.
func Continues(os.Signal) bool { return false }

// Stops is never true: nothing stops a process here.
func Stops(os.Signal) bool { return false }

// Number is the signal's number, for exit codes.
func Number(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return int(s)
	}
	return 0
}

// Named answers the signal of a name such as TERM. A command cannot be asked
// to end here, so that each of them kills.
func Named(name string) (os.Signal, bool) {
	switch name {
	case "TERM", "INT", "KILL":
		return os.Kill, true
	}
	return nil, false
}

// StopSelf does nothing here.
func StopSelf() error { return nil }

// ReadInBackground does nothing: nothing is stopped here.
func ReadInBackground() {}

// HasTerminal matters only where a shell can stop us.
func HasTerminal() bool { return false }

var withoutPath []string // the system says it

// Foreground matters only where a shell can stop us.
func Foreground() bool { return false }

// Inherited is taken on trust.
func Inherited(int) bool { return true }

// CloseOnExec is not needed: nothing is inherited unless it is named.
func CloseOnExec(int) {}

func attributes(Spec) *syscall.SysProcAttr { return nil }

func (c *Child) send(sig os.Signal) error { return c.cmd.Process.Signal(sig) }

func (c *Child) wake() {}

func killGroup(int) {}

func groupEmpty(int) bool { return true }

func code(state *os.ProcessState) int { return state.ExitCode() }

// ContinueSignal does not exist here.
func ContinueSignal() (os.Signal, bool) { return nil, false }

// Name is the signal's name without SIG, as in TERM.
func Name(sig os.Signal) string {
	switch sig {
	case os.Interrupt:
		return "INT"
	case os.Kill:
		return "KILL"
	}
	return sig.String()
}

// Become runs another program in place of this one, and returns its exit code.
func Become(path string, args, env []string) (code int, err error) {
	cmd := exec.Command(path, args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	signal.Ignore(os.Interrupt) // the console sends it to the program as well
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// IsGuardian is never true: there is no guardian here.
func IsGuardian([]string) bool { return false }

// KeepIgnored does nothing here.
func KeepIgnored() {}

// RunGuardian does nothing here.
func RunGuardian([]string, func(format, text string)) int { return CodeNotExecutable }

// Guardian does not exist here.
type Guardian struct{}

// Prepare does nothing here.
func Prepare(*os.File) (*Guardian, error) { return nil, nil } //nolint:nilnil // StartGuarded takes none

// Dismiss does nothing here.
func (*Guardian) Dismiss() {}

// StartGuarded starts the command without a guardian.
func StartGuarded(_ *Guardian, spec Spec, _ Guard) (Command, error) {
	c, err := Start(spec)
	if err != nil {
		return nil, err
	}
	return c, nil
}
