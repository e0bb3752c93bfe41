package adapter

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"
)

// Ending is a context for a client library that follows Done and not the deadline. It ends with the context that it
// stands for, or when a [Deadline] passes, but not before the goroutines that were ready then have run: such a
// library prefers the end of a context to an answer that has arrived.
//
// A context.WithDeadline would do that too, for five allocations and a timer. An Ending costs two, because it serves
// the next request unless it has ended.
type Ending struct {
	context.Context
	deadlines *Deadlines
	deadline  *Deadline
	done      chan struct{}
	ended     atomic.Bool
	settle    func() // made once
	unhook    func() bool
}

// Until returns the Ending of ctx and of its deadline, which may be nil. Stop must be called after the request.
func (ds *Deadlines) Until(ctx context.Context, deadline *Deadline) *Ending {
	e, _ := ds.endings.Get().(*Ending)
	if e == nil {
		e = &Ending{deadlines: ds, done: make(chan struct{})}
		e.settle = func() {
			<-settled()
			e.end()
		}
	}
	e.Context, e.deadline = ctx, deadline
	deadline.tell(e)
	e.unhook = context.AfterFunc(ctx, e.settle)
	return e
}

// Stop says that the request has its answer, or was given up.
func (e *Ending) Stop() {
	unhooked := e.unhook()
	e.deadline.forget(e)
	if unhooked && !e.ended.Load() {
		e.Context = nil
		e.deadlines.endings.Put(e)
	}
}

func (e *Ending) end() {
	if e.ended.CompareAndSwap(false, true) {
		close(e.done)
	}
}

// Deadline implements [context.Context]: rueidis does not follow Done if there is a deadline.
func (e *Ending) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context].
func (e *Ending) Done() <-chan struct{} { return e.done }

// Err implements [context.Context].
func (e *Ending) Err() error {
	if e.ended.Load() {
		return cmp.Or(e.Context.Err(), context.DeadlineExceeded)
	}
	return nil
}
