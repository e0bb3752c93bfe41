package demo

import (
	"fmt"
	"io"
	"time"
)

// progress shows a run while it goes on: what happens stands there to stay, how
// far it is in one line that is kept up to date on a terminal, and in a line a
// second elsewhere.
type progress struct {
	w    io.Writer // nil: nothing is shown
	live bool

	shown bool // the status line is on the screen
	next  time.Duration
}

const (
	statusEvery = time.Second
	toLineStart = "\r\x1b[K" // and clears the line
)

func (p *progress) say(text string) {
	if p.w != nil {
		_, _ = io.WriteString(p.w, text) // nobody looks: no reason to end the run
	}
}

// event is something worth a line.
func (p *progress) event(at time.Duration, text string) {
	p.clear()
	p.say(fmt.Sprintf("  %4.1fs  %s\n", at.Seconds(), text))
}

// status says how far the run is.
func (p *progress) status(at, whole time.Duration, turns, holder int) {
	if p.w == nil {
		return
	}
	who := "free"
	if holder > 0 {
		who = fmt.Sprintf("held by worker %d", holder)
	}
	if p.live {
		p.say(fmt.Sprintf("%s  %4.1fs  of %.0fs   %d holds so far   now: %s", toLineStart,
			at.Seconds(), whole.Seconds(), turns, who))
		p.shown = true
		return
	}
	if at >= p.next {
		if p.next > 0 {
			p.event(at, fmt.Sprintf("%d holds so far", turns))
		}
		p.next = at.Truncate(statusEvery) + statusEvery
	}
}

// clear takes the status line off the screen.
func (p *progress) clear() {
	if p.shown {
		p.say(toLineStart)
		p.shown = false
	}
}

// What the reader is told, and when.

func intro(o Options) string {
	return fmt.Sprintf("%d processes compete for one lock for %v.\nThe demo kills one holder and pauses another.\n\n",
		o.Workers, o.Duration)
}

func setting(s *server, o Options) string {
	text := fmt.Sprintf("  server  %s on %s", s.title(), s.Addr)
	switch {
	case s.Embedded && o.Server == ServerAuto:
		text += " (embedded: no server on PATH)"
	case s.Embedded:
		text += " (embedded)"
	default:
		text += " (from PATH)"
	}
	return text + fmt.Sprintf("\n  work    read a counter from a file, wait %v to %v, write it plus one\n"+
		"  lock    a lease of %v, renewed while the process runs\n\n",
		thinkLeast, thinkMost, o.lease())
}

func (s *server) title() string {
	if s.Version == "" {
		return s.Name
	}
	return s.Name + " " + s.Version
}

func standsText(scene scene, worker int, value int64) string {
	if scene == aimingToKill {
		return fmt.Sprintf("worker %d holds the lock: killed (SIGKILL)", worker)
	}
	return fmt.Sprintf("worker %d holds the lock and is about to write %d: paused (SIGSTOP)", worker, value)
}

func takenOverText(worker int) string {
	return fmt.Sprintf("its lease expired: worker %d holds the lock now", worker)
}

func wokenText(worker int, after time.Duration) string {
	return fmt.Sprintf("its lease expired, others wrote %d times: worker %d continues, %.2fs late",
		enoughTurns, worker, after.Seconds())
}

func refusedText(worker int, value, stands int64) string {
	return fmt.Sprintf("worker %d writes %d over %d with an old token: refused", worker, value, stands)
}
