//go:build !unix

package suite

import (
	"errors"
	"os"
	"os/exec"
)

var errUnsupported = errors.New("this system cannot stop and kill processes as the suite needs it: " +
	"run it on Linux, macOS or BSD")

func supported() error         { return errUnsupported }
func apart(*exec.Cmd)          {}
func stop(*os.Process) error   { return errUnsupported }
func resume(*os.Process) error { return errUnsupported }
