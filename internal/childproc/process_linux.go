package childproc

import (
	"os/exec"
	"syscall"
)

// Detach keeps Ctrl-C at a terminal from a process that [StartTied] starts.
func Detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
