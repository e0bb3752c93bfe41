package demo

import "syscall"

// dieWithParent leaves nothing running if the demo itself is killed. The
// kernel looks at the thread that started the process: see the caller of
// runtime.LockOSThread.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
