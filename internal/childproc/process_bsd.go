//go:build unix && !linux

package childproc

import (
	"os/exec"
	"syscall"
)

// Detach keeps Ctrl-C at a terminal from a process. A process ends when its input does;
// a server that was started by a killed program stays.
func Detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
