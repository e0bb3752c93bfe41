//go:build !unix

package demo

import (
	"errors"
	"os/exec"
	"time"
)

var errUnsupported = errors.New("this system cannot stop and kill processes as the demo must: " +
	"use Linux, macOS or BSD")

// supported reports whether this system can stop and kill processes.
func supported() error { return errUnsupported }

// detach does nothing here.
func detach(*exec.Cmd) {}

func (p *process) pause() error { return errUnsupported }
func (p *process) wake() error  { return errUnsupported }

func now() int64 { return time.Now().UnixNano() }
