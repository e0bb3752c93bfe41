// Package clock reads a clock that goes on while the machine sleeps.
//
// Go's monotonic clock stands still during suspension on Linux, so a lease
// measured with it looks alive on a laptop that was closed for an hour. A
// lease's trust is therefore judged by [Now]; timers still run on Go's clock,
// and whoever sets one asks Now again when it fires.
package clock

import "time"

var start = time.Now()

// Now is the time elapsed since some fixed instant in this process's past,
// suspension included. It never goes back.
func Now() time.Duration { return now() }

// fallback is the larger of monotonic and wall time elapsed: suspension moves
// only the wall clock, and a wall clock that is set back must not revive a
// lease. A wall clock that is set forward ends leases early, the safe side.
func fallback() time.Duration {
	t := time.Now()
	return max(t.Sub(start), t.Round(0).Sub(start.Round(0)))
}
