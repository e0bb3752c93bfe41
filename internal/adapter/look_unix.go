//go:build unix

package adapter

import (
	"errors"
	"syscall"
	"time"
)

// look is [Looks.Look] with a limit.
func look(raw syscall.RawConn, d time.Duration, goesOn func() bool) (readable bool) {
	var first [1]byte
	end := time.Now().Add(d)
	_ = raw.Control(func(fd uintptr) {
		for time.Now().Before(end) && goesOn() {
			_, _, err := syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK)
			if readable = !errors.Is(err, syscall.EAGAIN); readable {
				return
			}
		}
	})
	return readable
}
