// Package yield lets goroutines that are ready to run go first.
//
// A process that gets too little of its processor reads answers late. For example, 200 goroutines compute on one
// processor. An answer arrives, and the goroutine that waits for it is ready, but its turn comes four seconds later. A
// goroutine that a timer wakes does not queue like that. So without this package the time limit of a request would
// win against an answer that has been there for seconds.
package yield

import (
	"cmp"
	"context"
	"runtime"
)

// All returns a channel that is closed when the goroutines that are ready to run now have run. On an idle machine that
// takes microseconds. The Go scheduler promises no order, so a few goroutines may be overtaken.
func All() <-chan struct{} {
	over := make(chan struct{})
	go func() {
		runtime.Gosched() // to the end of the queue of all processors
		close(over)
	}()
	return over
}

// all is All. Tests replace it.
var all = All

// Await waits for an answer until done is closed, or passed, which closes only after [All]. Either may be nil.
// An answer that was there before counts, even if a busy process reads it late: of two channels that are ready,
// select takes any.
func Await[T any](answers <-chan T, done, passed <-chan struct{}) (answer T, answered bool) {
	select {
	case answer = <-answers:
		return answer, true
	case <-passed:
	case <-done:
		select {
		case answer = <-answers:
			return answer, true
		case <-all():
		}
	}
	select {
	case answer = <-answers:
		return answer, true
	default:
		return answer, false
	}
}

// Context returns ctx with a Done that is closed only when the goroutines that were ready at the end of ctx, or at its
// deadline, have run. So an answer that has arrived before wins. stop must be called after use.
func Context(ctx context.Context) (_ context.Context, stop func()) {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if at, ok := ctx.Deadline(); ok {
		limited, cancel = context.WithDeadline(ctx, at) // Done need not follow the deadline, see store.Store
	}
	settled, end := context.WithCancel(context.WithoutCancel(limited))
	unhook := context.AfterFunc(limited, func() {
		<-All()
		end()
	})
	return late{limited, settled}, func() {
		unhook()
		cancel()
		end()
	}
}

// late is a context that ends after the one that it stands for. That one is the embedded one: if it were settled, a
// child would be cancelled by settled directly, and have its error, "canceled", also if a deadline has passed.
type late struct {
	context.Context
	settled context.Context
}

func (l late) Done() <-chan struct{} { return l.settled.Done() }

func (l late) Err() error {
	if err := l.settled.Err(); err != nil {
		return cmp.Or(l.Context.Err(), err)
	}
	return nil
}
