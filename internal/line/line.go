// Package line is the waiting line inside a process: who of its goroutines
// has the seat, that is the right to speak to the server about one lock, and
// who comes next. It is pure: the caller holds a mutex and does the waking.
package line

import "time"

// Line is the goroutines of one process that want one lock. The zero value
// has a free seat and nobody waiting.
type Line[H any] struct {
	first, last *Place[H]
	length      int32
	taken       bool
}

// Place is where one goroutine stands. It is woken when Given is closed.
type Place[H any] struct {
	Given chan struct{} // closed once the seat is this place's
	Hold  H             // what came with the seat; set before Given is closed

	seated     bool
	prev, next *Place[H]
}

// Take takes the seat if it is free.
func (l *Line[H]) Take() bool {
	if l.taken {
		return false
	}
	l.taken = true
	return true
}

// Join stands at the end of the line.
func (l *Line[H]) Join() *Place[H] {
	p := &Place[H]{Given: make(chan struct{}), prev: l.last}
	if l.last == nil {
		l.first = p
	} else {
		l.last.next = p
	}
	l.last = p
	l.length++
	return p
}

// Leave gives up a place. It reports false if the seat was given to it
// already: then the leaver has the seat and must pass it on.
func (l *Line[H]) Leave(p *Place[H]) bool {
	if p.seated {
		return false
	}
	l.unlink(p)
	return true
}

// Give hands the seat, and hold with it, to the first in line. It reports
// false, and the seat is free, when nobody waits.
func (l *Line[H]) Give(hold H) bool {
	p := l.first
	if p == nil {
		l.taken = false
		return false
	}
	l.unlink(p)
	p.seated = true
	p.Hold = hold
	close(p.Given)
	return true
}

// Waiting is how many stand in the line.
func (l *Line[H]) Waiting() int { return int(l.length) }

// Idle reports whether nobody sits or waits.
func (l *Line[H]) Idle() bool { return !l.taken && l.first == nil }

func (l *Line[H]) unlink(p *Place[H]) {
	if p.prev == nil {
		l.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
	l.length--
}

// Bounds limit how often and how long a hold is passed inside the process
// before it goes back to the server, so that no process starves another.
type Bounds struct {
	Passes int
	Time   time.Duration
}

// The bounds. A fencing token has room for 1,023 passes. A waiter of another
// process that came after the grant is not known before the next renewal, so
// the time is bounded also when nobody else is known to wait.
var (
	alone   = Bounds{Passes: 1023, Time: 10 * time.Millisecond}
	wanted  = Bounds{Passes: 32, Time: 2 * time.Millisecond}
	ceiling = 1023
)

// MayPass decides whether a hold that was passed so often, for so long since
// its grant, may be passed once more while so many wait in other processes.
// limit is the user's own bound on passes.
func MayPass(passes int, since time.Duration, elsewhere, limit int) bool {
	b := alone
	if elsewhere > 0 {
		b = wanted
	}
	return passes < min(b.Passes, limit, ceiling) && since < b.Time
}
