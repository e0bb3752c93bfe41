package memstore

import "slices"

// line is where attempts wait: one line for all modes, in order of arrival.
//
// A waiter that goes leaves a hole: places are never given again while
// anybody waits. An empty line starts over at place 1.
type line struct {
	waiters []*waiter // by place
	tail    int64     // the last place given
	head    int64     // no place before this one is taken
}

// waiter stands in the line. It must be heard of before its patience is over.
type waiter struct {
	request
	place    int64
	patience int64 // when its place lapses
	joined   int64
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

// leave takes an attempt out of the line and says whether it stood there.
func (l *line) leave(attempt string) bool {
	was := len(l.waiters)
	l.waiters = slices.DeleteFunc(l.waiters, func(w *waiter) bool { return w.attempt == attempt })
	return len(l.waiters) < was
}

// skipHoles moves head up to the first waiter.
func (l *line) skipHoles() {
	if len(l.waiters) > 0 {
		l.head = l.waiters[0].place
	}
}

// ahead is an upper bound of the waiters up to and including w: holes count.
func (l *line) ahead(w *waiter) int64 { return w.place - l.head + 1 }

func (l *line) clone() line {
	c := *l
	c.waiters = make([]*waiter, len(l.waiters))
	for i, w := range l.waiters {
		copied := *w
		c.waiters[i] = &copied
	}
	return c
}
