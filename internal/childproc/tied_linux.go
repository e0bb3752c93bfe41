package childproc

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starter passes commands to the one thread that starts them all.
var starter struct {
	once sync.Once
	todo chan func()
}

// StartTied starts cmd so that the kernel ends it when this process dies, even by SIGKILL:
// no server outlives a test binary that timed out. The signal is SIGKILL unless
// cmd says otherwise.
//
// The kernel ties the child to the *thread* that forked it. Go may end any thread, which would
// kill the server in the middle of a test. So one goroutine keeps one thread for ever and
// starts every server on it.
func StartTied(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	starter.once.Do(func() {
		starter.todo = make(chan func())
		go func() {
			runtime.LockOSThread()
			for f := range starter.todo {
				f()
			}
		}()
	})
	err := make(chan error, 1)
	starter.todo <- func() { err <- cmd.Start() }
	return <-err
}
