package clock

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// world has the clocks of a machine. Each reading takes time.
type world struct {
	mono, suspended, set time.Duration // set: how far somebody has moved the wall clock
	took                 func() time.Duration
	between              func() // runs after the wall clock was read, before the monotonic clock is
	boots                int    // how often the boot clock was read
	broken               bool
}

func (w *world) truth() time.Duration { return w.mono + w.suspended }

func (w *world) clocks() (wall, mono time.Duration) {
	w.mono += w.took()
	wall = w.truth() + w.set
	if w.between != nil {
		w.between()
	}
	return wall, w.mono
}

func (w *world) boot() (time.Duration, bool) {
	w.boots++
	w.mono += w.took()
	now := w.truth()
	w.mono += w.took()
	return now, !w.broken
}

func newWorld() (*world, *mixed) {
	w := &world{mono: time.Hour, took: func() time.Duration { return 50 }}
	return w, &mixed{goClocks: w.clocks, boot: w.boot}
}

// want checks that a reading lies in the call, but for the error that now allows.
func want(t *testing.T, got, before, after time.Duration) {
	t.Helper()
	assert.MustTrue(t, got >= before-tolerance-apart && got <= after,
		"the clock shows %v, and the boot clock %v before and %v after", got, before, after)
}

func TestASuspensionCountsAtOnce(t *testing.T) {
	w, m := newWorld()
	for _, slept := range []time.Duration{0, time.Second, time.Millisecond, 24 * time.Hour} {
		m.now()
		w.suspended += slept
		before := w.truth()
		want(t, m.now(), before, w.truth())
	}
}

func TestTheBootClockIsReadWhenGosClocksHaveMovedApart(t *testing.T) {
	w, m := newWorld()
	m.now()
	for range 100 {
		m.now()
	}
	assert.True(t, w.boots == 1, "read %d times, while nothing happened", w.boots)
	for n, set := range []time.Duration{time.Minute, -time.Hour} {
		w.set += set
		before := w.truth()
		want(t, m.now(), before, w.truth())
		assert.True(t, w.boots == 2+n, "the wall clock was set by %v: read %d times", set, w.boots)
	}
	w.mono += fresh
	m.now()
	assert.True(t, w.boots == 4, "read %d times, and the last time is %v ago", w.boots, fresh)
}

// The goroutine may be stopped between the two readings for as long as the machine was suspended
// before. The result is then a time within the call all the same.
func TestAStopThatHidesASuspensionIsHarmless(t *testing.T) {
	w, m := newWorld()
	m.now()
	w.suspended += fresh / 2
	w.between = func() { w.between = nil; w.mono += fresh / 2 }
	before := w.truth()
	want(t, m.now(), before, w.truth())
	assert.True(t, w.boots == 1, "it was not hidden")
}

// Only a wall clock that is set back by the length of a suspension hides it, and not for long.
func TestAWallClockThatHidesASuspensionHidesItBriefly(t *testing.T) {
	w, m := newWorld()
	m.now()
	w.suspended += time.Hour
	w.set -= time.Hour
	w.mono += fresh
	before := w.truth()
	want(t, m.now(), before, w.truth())
}

// If the first reading took long, the next ones correct it, and the clock does not go back.
func TestASlowReadingIsRepeated(t *testing.T) {
	w, m := newWorld()
	slow := 3
	w.took = func() time.Duration {
		if slow--; slow >= 0 {
			return time.Second
		}
		return 50
	}
	before := w.truth()
	got := m.now()
	want(t, got, before, w.truth())
	assert.True(t, w.truth()-got <= apart, "%v behind", w.truth()-got)
}

// A goroutine is slow after it has read the boot clock, so the suspended time seems shorter by that. The
// clock does not go back for those that come after another goroutine, which has read it meanwhile.
func TestASlowReadingSetsNothingBack(t *testing.T) {
	w, m := newWorld()
	m.now()
	w.between = func() { w.between = nil; w.mono += fresh / 4 } // so that it reads the boot clock
	var other time.Duration
	calls := 0
	w.took = func() time.Duration {
		if calls++; calls == 4 { // those of now, read and boot are over, and the boot clock is read
			w.mono += apart / 2
			other = m.now()
		}
		return 50
	}
	m.now()
	got := m.now()
	assert.True(t, w.boots == 2 && other > 0, "no goroutine was slow")
	assert.True(t, got >= other, "it shows %v, and showed %v before", got, other)
}

func TestWithoutABootClockThereIsTheFallback(t *testing.T) {
	w, m := newWorld()
	w.broken = true
	got := m.now()
	assert.True(t, got < time.Hour, "got %v, not the time of this process", got)
}

// TestTheClockInARandomWorld checks every reading against the boot clock, whatever happens
// between the readings of a call.
func TestTheClockInARandomWorld(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	w, m := newWorld()
	happens := func() {
		switch r.IntN(40) {
		case 0:
			w.suspended += time.Duration(r.Int64N(int64(time.Hour)))
		case 1:
			w.set += time.Duration(r.Int64N(int64(2*time.Hour))) - time.Hour
		case 2:
			w.mono += time.Duration(r.Int64N(int64(time.Second)))
		}
	}
	w.took = func() time.Duration { happens(); return time.Duration(r.Int64N(1000)) }
	w.between = happens
	var last time.Duration
	for range 200_000 {
		happens()
		before := w.truth()
		got := m.now()
		// Within one call a suspension may lie between the readings: then the error is as long as the
		// reading of the boot clock, and the next call corrects it.
		if got > w.truth() || got < last {
			t.Fatalf("seed %d: %v after %v, and the boot clock shows %v", seed, got, last, w.truth())
		}
		if calm := w.truth()-before < apart; calm {
			want(t, got, before, w.truth())
		}
		last = got
	}
}

func TestGoroutinesReadOneClock(t *testing.T) {
	var mu sync.Mutex
	var highest time.Duration
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20_000 {
				mu.Lock()
				floor := highest
				mu.Unlock()
				got := Now()
				if got < floor {
					t.Errorf("%v, and another goroutine had read %v before", got, floor)
					return
				}
				mu.Lock()
				highest = max(highest, got)
				mu.Unlock()
			}
		})
	}
	group.Wait()
}

// TestNowIsTheBootClock: other processes compare with it, see instant in cmd/holdfast.
func TestNowIsTheBootClock(t *testing.T) {
	for range 1000 {
		before, ok := boot()
		got := Now()
		after, _ := boot()
		if ok && (got < before-time.Second || got > after) {
			t.Fatalf("%v, and the boot clock shows %v before and %v after", got, before, after)
		}
	}
}
