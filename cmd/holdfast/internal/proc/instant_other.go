//go:build unix && !linux && !darwin && !dragonfly && !freebsd && !openbsd

package proc

import "time"

// instant is the wall clock: it is the one that all processes read alike here. If it is set
// back, the guardian is late; the wrapper is not.
func instant() time.Duration { return time.Duration(time.Now().UnixNano()) }
