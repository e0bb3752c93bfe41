//go:build unix

package workload

import (
	"errors"
	"os"
	"syscall"
)

// lockFile waits until no other process has file locked, and locks it until it
// is closed.
func lockFile(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
