package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tolerance is how far the wall clock may have moved against the monotonic clock before the
	// boot clock is read again. A suspension of a machine takes longer than this.
	tolerance = 100 * time.Microsecond
	// fresh is how long, by the monotonic clock, a reading of the boot clock serves.
	fresh = 10 * time.Millisecond
	// apart is how long a reading of the boot clock may take, and tries how often it is repeated
	// if it takes longer.
	apart, tries = 20 * time.Microsecond, 5
)

// mixed is a boot clock that is seldom read: a system call takes several times as long as Go's
// two clocks. Between two readings it adds the suspended time, as it was then, to the monotonic
// clock.
//
// Why it misses no suspension. A suspension moves the wall clock and the boot clock forward by
// the same time, in one step of the kernel, and the monotonic clock not at all. Nothing else moves
// wall and monotonic clock apart but somebody who sets the wall clock: what NTP slews, it slews
// in both. So while the two are as far apart as they were (within tolerance), the machine was not
// suspended. If they are not, for whatever reason, the boot clock is read.
//
// The two are read one after the other, and the goroutine may be stopped in between. Let there be
// a suspension of S before the wall clock was read, and a stop of D after. It is missed only if S
// and D differ by less than tolerance. The result is then the time at which the wall clock was
// read, which lies within this call. A suspension after the wall clock was read is one after this
// call as far as its caller can tell.
//
// One case is left: the wall clock is set back by the length of a suspension, to a tenth of a
// millisecond, before any goroutine has read the clock. So a reading serves for a hundredth of a
// second, and the error lasts no longer.
type mixed struct {
	goClocks func() (wall, mono time.Duration) // reads the wall clock first
	boot     func() (now time.Duration, ok bool)

	last atomic.Pointer[reading]
	mu   sync.Mutex // only one goroutine reads the boot clock
}

// goClocks reads Go's wall clock, and then its monotonic clock. Neither costs a system call.
func goClocks() (wall, mono time.Duration) {
	t := time.Now()
	return time.Duration(t.UnixNano()), t.Sub(start)
}

// reading is the last reading of the boot clock.
type reading struct {
	mono      time.Duration // when it was
	gap       time.Duration // wall clock − monotonic clock
	suspended time.Duration // boot clock − monotonic clock, or a little less; it never falls
}

// now is the boot clock, or up to tolerance and apart less. If a call begins after another one has
// returned, its result is not less: neither is its monotonic time, nor the suspended time.
func (m *mixed) now() time.Duration {
	wall, mono := m.goClocks()
	if r := m.last.Load(); r != nil && mono-r.mono < fresh && (wall-mono-r.gap).Abs() <= tolerance {
		return mono + r.suspended
	}
	return m.read()
}

// read reads the boot clock, between two readings of Go's clocks. So the suspended time lies
// between boot − after and boot − before. It takes the lower bound, if that is more than before:
// then a lease that lasted through the suspension seems longer by the rest of the error at most.
func (m *mixed) read() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var next reading
	var now time.Duration
	for n, best := 0, time.Duration(-1); n < tries && (best < 0 || best > apart); n++ {
		wall, before := m.goClocks()
		at, ok := m.boot()
		_, after := m.goClocks()
		if !ok {
			return fallback()
		}
		now = after
		if took := after - before; best < 0 || took < best {
			best, next = took, reading{mono: before, gap: wall - before, suspended: at - after}
		}
	}
	if r := m.last.Load(); r != nil {
		next.suspended = max(next.suspended, r.suspended)
	}
	m.last.Store(&next)
	return now + next.suspended
}
