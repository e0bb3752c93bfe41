//go:build unix && !linux

package proc

import "syscall"

// dieWithParent does nothing here: only Linux tells a process that its parent
// has died.
func dieWithParent(*syscall.SysProcAttr) {}
