//go:build unix && !linux

package suite

import (
	"os"
	"os/exec"
	"syscall"
)

// apart keeps Ctrl-C at a terminal from a process. It ends when its input does.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func stop(p *os.Process) error   { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

func supported() error { return nil }
