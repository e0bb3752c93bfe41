//go:build !linux

package servertest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
)

// startTied starts cmd. Only Linux can end it with this process.
func startTied(cmd *exec.Cmd, owner *user.User, _ os.Signal) error {
	if owner != nil {
		return errors.New("these servers refuse to run as root: run the tests as an ordinary user")
	}
	return cmd.Start()
}
