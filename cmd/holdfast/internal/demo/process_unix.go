//go:build unix

package demo

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// supported reports whether this system can stop and kill processes.
func supported() error { return nil }

// pause is SIGSTOP: the process cannot refuse it, or notice.
func (p *process) pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// wake is SIGCONT.
func (p *process) wake() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// now reads a clock that all processes of this machine share and that nobody sets, in ns.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("BUG: no monotonic clock: " + err.Error())
	}
	return t.Nano()
}
