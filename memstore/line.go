package memstore

import "slices"

// line is where attempts wait: one line for all modes, in order of arrival.
//
// A waiter that goes leaves a hole: places are never given again while
// anybody waits. An empty line starts over at place 1.
type line struct {
	waiters   []*waiter // by place
	tail      int64     // the last place given
	head      int64     // no place before this one is taken
	cursor    int64     // where a walk goes on behind those near head
	pollAt    int64     // when the waiter at pollPlace looks, told by hint; ms
	pollPlace int64

	// missedPollAt is what watched was before this step, if who was to look has left in it.
	missedPollAt int64
	silent       []string // clients that did not confirm what was pushed to them; they are passed over
}

// waiter stands in the line. It must be heard of before its place expires.
type waiter struct {
	request
	place  int64
	expiry int64 // when its place in the line ends unless it is heard of
	joined int64
}

func (l *line) len() int64 { return int64(len(l.waiters)) }

// seat finds the waiter of an attempt, nil if it does not wait.
func (l *line) seat(attempt string) *waiter {
	for _, w := range l.waiters {
		if w.attempt == attempt {
			return w
		}
	}
	return nil
}

// join gives the next place.
func (l *line) join(w *waiter) {
	if len(l.waiters) == 0 {
		l.head, l.tail = 1, 0
	}
	l.tail++
	w.place = l.tail
	l.waiters = append(l.waiters, w)
}

// leave takes an attempt out of the line and says whether it stood there. Who has left
// looks no more.
func (l *line) leave(attempt string) bool {
	was := len(l.waiters)
	if w := l.seat(attempt); w != nil && w.place == l.pollPlace {
		l.missedPollAt, l.pollAt, l.pollPlace = l.pollAt, 0, 0
	}
	l.waiters = slices.DeleteFunc(l.waiters, func(w *waiter) bool { return w.attempt == attempt })
	if len(l.waiters) == 0 {
		l.silent, l.pollAt, l.pollPlace, l.cursor = nil, 0, 0, 0
	}
	return len(l.waiters) < was
}

// A step looks at so many places from head on, and at so many from cursor on: it costs
// the same however long the line is.
const (
	headWindow   = 64
	cursorWindow = 256
)

// within are those whom one step looks at, and the place behind them: those near head,
// and those from cursor on, behind others who were passed over and have not asked since.
func (l *line) within() (some []*waiter, end int64) {
	from := max(l.head+headWindow, l.cursor)
	for _, w := range l.waiters {
		if w.place < l.head+headWindow || from <= w.place && w.place < from+cursorWindow {
			some = append(some, w)
		}
	}
	if l.tail < l.head+headWindow-1 {
		return some, l.tail + 1
	}
	return some, max(from, min(from+cursorWindow, l.tail+1))
}

// mostSilent is how many silent clients a line remembers.
const mostSilent = 16

// markSilent notes that a client is silent.
func (l *line) markSilent(client string) {
	if len(l.waiters) == 0 || slices.Contains(l.silent, client) {
		return
	}
	if l.silent = append(l.silent, client); len(l.silent) > mostSilent {
		l.silent = l.silent[1:]
	}
}

// clearSilent takes that note away: the client asks.
func (l *line) clearSilent(client string) {
	l.silent = slices.DeleteFunc(l.silent, func(other string) bool { return other == client })
}

// ahead is an upper bound of the waiters up to and including w: holes count.
func (l *line) ahead(w *waiter) int64 { return w.place - l.head + 1 }

func (l *line) clone() line {
	c := *l
	c.missedPollAt = 0
	c.silent = slices.Clone(l.silent)
	c.waiters = make([]*waiter, len(l.waiters))
	for i, w := range l.waiters {
		copied := *w
		c.waiters[i] = &copied
	}
	return c
}
