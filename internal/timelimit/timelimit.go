// Package timelimit bounds a context without a timer, and frees one from its cancellation.
package timelimit

import (
	"context"
	"time"
)

// limited is its parent context with an earlier deadline. It has no timer, and its Done
// channel is that of its parent: nil if the parent cannot be cancelled. It costs one
// allocation; context.WithTimeout costs four and a timer. That matters in a request of some
// ten microseconds. Only stores see it, see [store.Store].
type limited struct {
	context.Context
	at time.Time
}

// Within returns ctx with a deadline of at most limit from now.
func Within(ctx context.Context, limit time.Duration) context.Context {
	at := time.Now().Add(limit)
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(at) {
		return ctx
	}
	return &limited{Context: ctx, at: at}
}

// Lasting returns ctx without its cancellation; only a deadline that has not passed remains.
// It is for requests that the client must send although the caller's work has ended. It also
// saves the store a goroutine that would watch for the cancellation.
func Lasting(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx
	}
	free := context.WithoutCancel(ctx)
	if at, ok := ctx.Deadline(); ok && ctx.Err() == nil {
		return &limited{Context: free, at: at}
	}
	return free
}

func (l *limited) Deadline() (time.Time, bool) { return l.at, true }

// Err returns an error once the deadline has passed, as the contract of Context says.
func (l *limited) Err() error {
	if err := l.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(l.at) {
		return context.DeadlineExceeded
	}
	return nil
}
