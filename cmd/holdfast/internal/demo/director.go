package demo

import (
	"fmt"
	"time"
)

// The demo does two cruel things in each run, and it does them on purpose: the
// director decides when and to whom. It is told what happens and answers what
// is to be done next; it does nothing itself.
//
//	calmBeforeKill  ──time──▶ aimingToKill  ──it stands──▶ afterKill ──another's turn──▶
//	calmBeforePause ──time──▶ aimingToPause ──it stands──▶ whilePaused ──others' turns──▶
//	afterWaking ──its own turn──▶ over
//
// A victim is told to stand still before its write, with the lock in its hands,
// and hit only when it says that it does: so both blows always meet a holder.
// That others take turns with higher tokens afterwards proves that the victim's
// lease is over.
type director struct {
	killAt, pauseAt time.Duration // since the beginning, not before
	killed, paused  int           // numbers of the workers that are hit

	scene  scene
	token  uint64 // of the victim's hold
	others int    // turns of others since the blow
}

type scene int

const (
	calmBeforeKill scene = iota
	aimingToKill
	afterKill
	calmBeforePause
	aimingToPause
	whilePaused
	afterWaking
	over
)

// act is something that the director wants done to a worker.
type act int

const (
	actNone act = iota
	actStand
	actKill
	actPause
	actWake
)

// enoughTurns is how many turns others take while one is paused: so many
// updates a late write could overwrite.
const enoughTurns = 10

// newDirector casts the victims and sets the times: the kill soon, so that
// there is time to see the work go on, the pause in the middle.
func newDirector(workers int, duration time.Duration) *director {
	d := &director{killAt: duration / 5, pauseAt: duration / 2, killed: 2, paused: 3}
	if workers < 3 {
		d.killed, d.paused = 1, 2
	}
	return d
}

// clock is told how long the run is under way.
func (d *director) clock(elapsed time.Duration) (act, int) {
	switch {
	case d.scene == calmBeforeKill && elapsed >= d.killAt:
		d.scene = aimingToKill
		return actStand, d.killed
	case d.scene == calmBeforePause && elapsed >= d.pauseAt:
		d.scene = aimingToPause
		return actStand, d.paused
	}
	return actNone, 0
}

// stands is told that a worker has the lock and waits before its write.
func (d *director) stands(worker int, token uint64) (act, int) {
	switch {
	case d.scene == aimingToKill && worker == d.killed:
		d.scene, d.token = afterKill, token
		return actKill, worker
	case d.scene == aimingToPause && worker == d.paused:
		d.scene, d.token, d.others = whilePaused, token, 0
		return actPause, worker
	}
	return actNone, 0
}

// awaited names what the next step of the run needs.
func (d *director) awaited() string {
	switch d.scene {
	case calmBeforeKill, calmBeforePause, over:
		return "the time"
	case aimingToKill:
		return fmt.Sprintf("worker %d to hold the lock", d.killed)
	case afterKill:
		return fmt.Sprintf("another worker to take over from worker %d", d.killed)
	case aimingToPause:
		return fmt.Sprintf("worker %d to hold the lock", d.paused)
	case whilePaused:
		return fmt.Sprintf("others to hold the lock while worker %d is paused", d.paused)
	case afterWaking:
		return fmt.Sprintf("worker %d to write after its pause", d.paused)
	}
	return "nothing"
}

// turn is told that a worker has ended a hold.
func (d *director) turn(worker int, token uint64) (act, int) {
	switch {
	case d.scene == afterKill && token > d.token:
		d.scene = calmBeforePause
	case d.scene == whilePaused && token > d.token:
		if d.others++; d.others == enoughTurns {
			d.scene = afterWaking
			return actWake, d.paused
		}
	case d.scene == afterWaking && worker == d.paused && token == d.token:
		d.scene = over
	}
	return actNone, 0
}
