//go:build unix

package childproc

import (
	"os"
	"syscall"
)

// Supported reports whether this system can stop and kill processes.
func Supported() error { return nil }

func stop(p *os.Process) error   { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
