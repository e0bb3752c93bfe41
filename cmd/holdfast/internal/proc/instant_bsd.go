//go:build darwin || dragonfly || freebsd || openbsd

package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// instant is the machine's clock, which all its processes read alike: CLOCK_MONOTONIC. On
// macOS and OpenBSD it counts the time that the machine sleeps, on the others it may not.
func instant() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(ts.Nano())
}
