//go:build unix

package goredis

import (
	"errors"
	"syscall"
	"time"
)

// look returns when there is something to read, or after d. Meanwhile the goroutine keeps its processor.
func look(raw syscall.RawConn, d time.Duration) {
	var first [1]byte
	end := time.Now().Add(d)
	_ = raw.Read(func(fd uintptr) bool {
		for time.Now().Before(end) {
			_, _, err := syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK)
			if !errors.Is(err, syscall.EAGAIN) {
				break
			}
		}
		return true
	})
}
