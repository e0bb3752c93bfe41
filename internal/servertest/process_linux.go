package servertest

import (
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

// starter passes commands to the one thread that starts them all.
var starter struct {
	once sync.Once
	todo chan func()
}

// startTied starts cmd, as owner if there is one, so that the kernel sends it end with this process. The
// kernel ties it to the thread that started it, so one goroutine keeps a thread for that.
func startTied(cmd *exec.Cmd, owner *user.User, end os.Signal) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: end.(syscall.Signal), Setpgid: true}
	if owner != nil {
		uid, err := strconv.ParseUint(owner.Uid, 10, 32)
		if err != nil {
			return err
		}
		gid, err := strconv.ParseUint(owner.Gid, 10, 32)
		if err != nil {
			return err
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
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
