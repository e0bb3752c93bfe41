package suite

import (
	"os"
	"os/exec"
	"syscall"
)

// apart keeps Ctrl-C at a terminal from a process, and has the kernel end it
// when the suite itself is killed.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func stop(p *os.Process) error   { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

func supported() error { return nil }
