package main

import "time"

// action is what has to be done to the command at some moment.
type action int

const (
	goOn action = iota
	tell        // send the signal that asks it to stop
	kill        // send KILL
)

// lookAgain bounds the time between two looks at the lease: timers stand
// still while a machine sleeps, and after that the lease may be over.
const lookAgain = time.Second

// plan decides when a command must be told to stop and when it is killed, so
// that it has ended before its lease can end. It is pure: its times are those
// of a clock that counts suspension.
//
//	running ──(lease has grace left)──▶ stopping ──(grace over)──▶ killed
//	   └──────(maxRun has passed)──────────▲
//
// Invariant: killAt is never after deadline − margin while the lease is
// believed, so that the command is dead when the lease ends.
type plan struct {
	grace  time.Duration // from telling to killing
	margin time.Duration // from killing to the lease's end: what the kernel needs
	ignore bool          // a lost lease does not stop the command
	maxAt  time.Duration // when the command has run for too long; 0: never

	deadline time.Duration // the lease's last known end
	killAt   time.Duration
	stopping bool
	killed   bool
	lost     bool // the lease ended, or would have
	overtime bool // stopped because of maxAt
}

func newPlan(grace time.Duration) plan {
	return plan{grace: grace, margin: min(max(grace/10, 5*time.Millisecond), 200*time.Millisecond)}
}

// step judges the moment now, at which the lease has left to go or is gone. It
// answers what to do and after how long to ask again at the latest.
func (p *plan) step(now, left time.Duration, gone bool) (action, time.Duration) {
	if !gone {
		p.deadline = now + left
	}
	if gone || left <= 0 {
		p.lost = true
	}
	ending := p.lost || p.deadline-now <= max(p.grace, p.margin)
	switch {
	case p.killed:
		return goOn, lookAgain
	case p.stopping:
		if !p.ignore {
			p.killAt = min(p.killAt, p.deadline-p.margin)
		}
	case ending && !p.ignore:
		p.lost = true
		return p.stop(now, min(now+p.grace, p.deadline-p.margin))
	case p.maxAt > 0 && now >= p.maxAt:
		p.overtime = true
		return p.stop(now, now+p.grace)
	default:
		again := lookAgain
		if !p.ignore {
			again = min(again, p.deadline-now-max(p.grace, p.margin))
		}
		if p.maxAt > 0 {
			again = min(again, p.maxAt-now)
		}
		return goOn, max(again, time.Millisecond)
	}
	if now >= p.killAt {
		p.killed = true
		return kill, lookAgain
	}
	return goOn, min(lookAgain, p.killAt-now)
}

// stop begins to end the command; if there is no time left it ends it.
func (p *plan) stop(now, killAt time.Duration) (action, time.Duration) {
	p.stopping, p.killAt = true, killAt
	if now >= killAt {
		p.killed = true
		return kill, lookAgain
	}
	return tell, min(lookAgain, killAt-now)
}
