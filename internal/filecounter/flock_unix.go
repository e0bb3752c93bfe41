//go:build unix

package filecounter

import (
	"errors"
	"os"
	"syscall"
)

// lock waits until no other process has file locked, and locks it until it
// is closed.
func lock(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
