//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package demo

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// errUnsupported is a refusal, so the functions below are never called.
var errUnsupported = errors.New("the demo pauses and kills processes in ways that this system does not have; " +
	"run it on Linux, macOS or BSD")

func supported() error { return errUnsupported }

func machineClock() int64       { return time.Now().UnixNano() }
func ownGroup(*exec.Cmd)        {}
func pause(*os.Process) error   { return errUnsupported }
func unpause(*os.Process) error { return errUnsupported }
