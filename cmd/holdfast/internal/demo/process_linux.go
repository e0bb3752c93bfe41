package demo

import (
	"os/exec"
	"syscall"
)

// detach keeps Ctrl-C at a terminal from a process. The kernel ends the process when the
// thread that started it ends.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
