package childproc

import (
	"os/exec"
	"syscall"
)

// Detach keeps Ctrl-C at a terminal from a process. The kernel ends the process when
// the thread that started it ends.
func Detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
