package localqueue

import "context"

// pendingCall is a call of TakeTurn that waits. A waiter is something else: an attempt in the wait
// queue of the server.
type pendingCall[H comparable] struct {
	ready chan struct{} // receives when the call has its answer
	hold  H             // the answer: a hold; written before ready receives
	err   error         // or that the lock was refused, or that the queue is closed

	prev, next *pendingCall[H] // nil when the call is in no list
}

// list has the goroutines that wait for the same thing, in order of arrival. It is a ring, so
// it needs one word: a process may hold a million locks that nobody waits for. The zero value is
// empty.
type list[H comparable] struct{ last *pendingCall[H] }

// newPendingCall makes a call that is in no list.
func newPendingCall[H comparable]() *pendingCall[H] {
	return &pendingCall[H]{ready: make(chan struct{}, 1)}
}

// await waits until the call has its answer.
func (p *pendingCall[H]) await(ctx context.Context) error {
	end := ctx.Done()
	if end == nil { // a plain receive is cheaper
		<-p.ready
		return nil
	}
	select {
	case <-p.ready:
		return nil
	case <-end:
		return ctx.Err()
	}
}

// enqueue puts a call at the end.
func (l *list[H]) enqueue(p *pendingCall[H]) *pendingCall[H] {
	if l.last == nil {
		p.prev, p.next = p, p
	} else {
		p.prev, p.next = l.last, l.last.next
		p.prev.next, p.next.prev = p, p
	}
	l.last = p
	return p
}

// remove removes a call that gives up. It returns false if the call has its answer
// already.
func (l *list[H]) remove(p *pendingCall[H]) bool {
	if p.next == nil {
		return false
	}
	if l.last == p {
		l.last = p.prev
	}
	if l.last == p {
		l.last = nil
	}
	p.prev.next, p.next.prev = p.next, p.prev
	p.prev, p.next = nil, nil
	return true
}

// give answers the first call, which leaves the list. The list is not empty.
func (l *list[H]) give(hold H, err error) {
	first := l.last.next
	l.remove(first)
	first.hold, first.err = hold, err
	first.ready <- struct{}{}
}

// giveAll answers all calls.
func (l *list[H]) giveAll(hold H, err error) {
	for l.last != nil {
		l.give(hold, err)
	}
}
