package servertest

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"

	"github.com/holdfast-go/holdfast/internal/childproc"
)

// startTied starts cmd, as owner if there is one, so that the kernel sends it end with this
// process.
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
	return childproc.StartTied(cmd)
}
