package demo

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestDirectorHitsHoldersOnly(t *testing.T) {
	d := newDirector(4, 5*time.Second)
	check := func(what string, want act, whom int) func(act, int) {
		return func(a act, number int) {
			t.Helper()
			assert.MustTrue(t, a == want && number == whom,
				"%s: act %d on worker %d, want %d on %d", what, a, number, want, whom)
		}
	}
	check("too early", actNone, 0)(d.clock(999 * time.Millisecond))
	check("time to kill", actStand, 2)(d.clock(time.Second))
	check("asked once", actNone, 0)(d.clock(1100 * time.Millisecond))
	check("another's turn", actNone, 0)(d.turn(1, 10))
	check("the victim holds", actKill, 2)(d.stands(2, 11))
	check("nothing before the lock is taken over", actNone, 0)(d.clock(4 * time.Second))
	check("a report from before the kill", actNone, 0)(d.turn(1, 10))
	check("still not taken over", actNone, 0)(d.clock(4 * time.Second))
	check("taken over", actNone, 0)(d.turn(1, 12))
	check("time to pause", actStand, 3)(d.clock(4 * time.Second))
	check("the victim holds", actPause, 3)(d.stands(3, 20))
	check("a report from before the pause", actNone, 0)(d.turn(1, 19))
	for i := range enoughTurns - 1 {
		check("others work", actNone, 0)(d.turn(1, uint64(21+i)))
	}
	check("enough", actWake, 3)(d.turn(2, 40))
	check("another's turn", actNone, 0)(d.turn(1, 41))
	assert.MustTrue(t, d.scene != over, "over before the paused one has written")
	check("its late write", actNone, 0)(d.turn(3, 20))
	assert.MustEqual(t, d.scene, over, "not over after the late write")
}

func TestDirectorCastsTwoOfTwo(t *testing.T) {
	d := newDirector(2, time.Second)
	assert.True(t, d.killed == 1 && d.paused == 2, "kills %d and pauses %d of two workers", d.killed, d.paused)
}

func TestDirectorNamesWhatItWaitsFor(t *testing.T) {
	d := newDirector(4, 5*time.Second)
	d.clock(time.Second)
	assert.Equal(t, d.awaited(), "worker 2 to hold the lock", "d.awaited")
	d.stands(2, 11)
	d.turn(1, 12)
	d.clock(4 * time.Second)
	assert.Equal(t, d.awaited(), "worker 3 to hold the lock", "d.awaited")
}
