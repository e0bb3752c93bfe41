//go:build unix && !linux

package demo

import (
	"os/exec"
	"syscall"
)

// detach keeps Ctrl-C at a terminal from a process. A worker ends when its input does; a
// server that was started by a killed program stays.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
