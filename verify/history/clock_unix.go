//go:build unix

package history

import "golang.org/x/sys/unix"

// Now reads a clock that all processes of this machine share and that nobody
// sets, in ns. Unlike those of [time.Time], its readings can be compared
// between processes.
func Now() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic("BUG: no monotonic clock: " + err.Error())
	}
	return now.Nano()
}
