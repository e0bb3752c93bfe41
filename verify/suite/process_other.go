//go:build !unix

package suite

import (
	"errors"
	"os"
	"os/exec"
)

var errUnsupported = errors.New("the suite stops and kills processes in ways that this system does not have: " +
	"run it on Linux, macOS or BSD")

func supported() error         { return errUnsupported }
func apart(*exec.Cmd)          {}
func stop(*os.Process) error   { return errUnsupported }
func resume(*os.Process) error { return errUnsupported }
