package request

import (
	"context"
	"time"
)

// timeLimit is a context with an earlier deadline and nothing else: no timer
// runs for it and its Done channel is its parent's, nil if that can not be
// cancelled. It costs one allocation where context.WithTimeout costs four and
// a timer, which counts in a request that takes some ten microseconds. Only
// stores see it, see [store.Store].
type timeLimit struct {
	context.Context
	at time.Time
}

// Within is ctx for at most limit from now.
func Within(ctx context.Context, limit time.Duration) context.Context {
	at := time.Now().Add(limit)
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(at) {
		return ctx
	}
	return &timeLimit{Context: ctx, at: at}
}

// Lasting is ctx without its cancellation: all that is left of it is a deadline
// that is still ahead. It is for what must be sent although the work is over,
// and also spares the store a goroutine that would watch for the cancellation.
func Lasting(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx
	}
	free := context.WithoutCancel(ctx)
	if at, ok := ctx.Deadline(); ok && ctx.Err() == nil {
		return &timeLimit{Context: free, at: at}
	}
	return free
}

func (l *timeLimit) Deadline() (time.Time, bool) { return l.at, true }

// Err keeps to the contract of Context: an error once the deadline has passed.
func (l *timeLimit) Err() error {
	if err := l.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(l.at) {
		return context.DeadlineExceeded
	}
	return nil
}
