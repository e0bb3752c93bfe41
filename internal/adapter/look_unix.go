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

// Doze returns when there is something to read, when goesOn reports false, or after a while. It looks and sleeps in
// turns. If others use up the processor, a goroutine that a timer wakes runs next, while one that waits for its socket
// runs after all of them. What arrives meanwhile is read a millisecond or a quarter of the time too late.
func Doze(raw syscall.RawConn, goesOn func() bool) {
	for slept := time.Duration(0); slept < longestDoze; {
		if look(raw, 0, goesOn) || !goesOn() {
			return
		}
		nap := min(max(time.Millisecond, slept/4), longestNap)
		time.Sleep(nap)
		slept += nap
	}
}
