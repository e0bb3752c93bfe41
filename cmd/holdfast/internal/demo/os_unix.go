//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package demo

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// supported says whether this system can do what the demo does.
func supported() error { return nil }

// machineClock reads a clock that all processes of this machine share and that
// nobody sets, in ns. Unlike [time.Time], its readings can be compared between
// processes.
func machineClock() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic("BUG: no monotonic clock: " + err.Error())
	}
	return now.Nano()
}

// ownGroup keeps Ctrl-C from a process: the terminal sends it to the whole
// group in front, but it is for the demo alone, which then ends its processes.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

// pause stops a process where it stands; it cannot refuse, nor notice.
func pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// unpause lets it go on.
func unpause(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
