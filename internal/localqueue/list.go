package localqueue

import "context"

// waiter is one goroutine that waits.
type waiter[H comparable] struct {
	ready chan struct{} // receives when the waiter has its answer
	hold  H             // the answer: a hold; written before ready receives
	err   error         // or that the lock was refused, or that the queue is closed

	prev, next *waiter[H] // nil when the waiter is in no list
}

// list has the goroutines that wait for the same thing, in order of arrival. It is a ring, so
// it needs one word: a process may hold a million locks without waiters. The zero value is
// empty.
type list[H comparable] struct{ last *waiter[H] }

// newWaiter makes a waiter that is in no list.
func newWaiter[H comparable]() *waiter[H] { return &waiter[H]{ready: make(chan struct{}, 1)} }

// await waits until the waiter has its answer.
func (w *waiter[H]) await(ctx context.Context) error {
	end := ctx.Done()
	if end == nil { // a plain receive is cheaper
		<-w.ready
		return nil
	}
	select {
	case <-w.ready:
		return nil
	case <-end:
		return ctx.Err()
	}
}

// enqueue puts a waiter at the end.
func (l *list[H]) enqueue(w *waiter[H]) *waiter[H] {
	if l.last == nil {
		w.prev, w.next = w, w
	} else {
		w.prev, w.next = l.last, l.last.next
		w.prev.next, w.next.prev = w, w
	}
	l.last = w
	return w
}

// remove removes a waiter that gives up. It returns false if the waiter has its answer
// already.
func (l *list[H]) remove(w *waiter[H]) bool {
	if w.next == nil {
		return false
	}
	if l.last == w {
		l.last = w.prev
	}
	if l.last == w {
		l.last = nil
	}
	w.prev.next, w.next.prev = w.next, w.prev
	w.prev, w.next = nil, nil
	return true
}

// give answers the first waiter, which leaves the list. The list is not empty.
func (l *list[H]) give(hold H, err error) {
	first := l.last.next
	l.remove(first)
	first.hold, first.err = hold, err
	first.ready <- struct{}{}
}

// giveAll answers all waiters.
func (l *list[H]) giveAll(hold H, err error) {
	for l.last != nil {
		l.give(hold, err)
	}
}
