//go:build !unix

package childproc

import (
	"errors"
	"os"
	"os/exec"
)

var errUnsupported = errors.New("this system cannot stop and kill processes as needed here: " +
	"use Linux, macOS or BSD")

// Supported reports whether this system can stop and kill processes.
func Supported() error { return errUnsupported }

// Detach does nothing here.
func Detach(*exec.Cmd) {}

func stop(*os.Process) error   { return errUnsupported }
func resume(*os.Process) error { return errUnsupported }
