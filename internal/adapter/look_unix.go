//go:build unix

package adapter

import (
	"errors"
	"syscall"
	"time"
)

// look is [Looks.Look] with a limit. It looks once more after that: another process may have had the processor.
func look(raw syscall.RawConn, d time.Duration, goesOn func() bool) (readable bool) {
	var first [1]byte
	end := time.Now().Add(d)
	err := raw.Control(func(fd uintptr) {
		for more := true; more && !readable; {
			more = time.Now().Before(end) && goesOn()
			_, _, err := syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK)
			readable = !errors.Is(err, syscall.EAGAIN)
		}
	})
	return readable || err != nil // whoever reads a closed socket is told so
}
