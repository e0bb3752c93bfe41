//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd && !windows

package proc

import (
	"errors"
	"os"
)

// Lock is not possible here.
func Lock(*os.File) (bool, error) { return false, errors.New("this system cannot lock files") }

// Runs is of no use without locks.
func Runs(int) bool { return true }
