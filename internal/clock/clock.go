// Package clock reads a clock that goes on while the machine sleeps.
//
// On Linux, Go's monotonic clock stops while the machine is suspended. If a lease
// were measured with it, the lease would look alive on a laptop that was closed for an hour.
// So trust deadlines are instants of [Now]. Timers still run on Go's clock: code that sets a
// timer reads Now again when the timer fires.
package clock

import "time"

var start = time.Now()

// Now is the time since a fixed instant before now, including suspension. It never goes
// back.
func Now() time.Duration { return now() }

// fallback is the larger of the elapsed monotonic time and the elapsed wall time. Suspension
// moves only the wall clock, and a wall clock that is set back must not revive a lease. A
// wall clock that is set forward ends leases early, which is safe.
func fallback() time.Duration {
	t := time.Now()
	return max(t.Sub(start), t.Round(0).Sub(start.Round(0)))
}
