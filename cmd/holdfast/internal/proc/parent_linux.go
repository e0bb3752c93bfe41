package proc

import "syscall"

// dieWithParent asks for SIGKILL: the wrapper that could have given a command
// time to end, and ended it before the lease, is gone.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
