// Package timelimit bounds a context without a timer, and frees one from its cancellation.
package timelimit

import (
	"context"
	"time"
)

// Limited is its parent context with an earlier deadline. It has no timer, and its Done
// channel is that of its parent: nil if the parent cannot be cancelled. It costs at most one
// allocation; context.WithTimeout costs four and a timer. That matters in a request of some
// ten microseconds. Only stores see it, see [store.Store]. The zero value is not used yet.
type Limited struct {
	context.Context
	at time.Time
}

// Within returns ctx with a deadline of at most limit from now.
func Within(ctx context.Context, limit time.Duration) context.Context {
	return new(Limited).Within(ctx, limit)
}

// Within is the function Within for a caller that has allocated the context. It may be called
// once: code that got the context may still look at it after the request.
func (l *Limited) Within(ctx context.Context, limit time.Duration) context.Context {
	at := time.Now().Add(limit)
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(at) {
		return ctx
	}
	l.Context, l.at = ctx, at
	return l
}

// Lasting returns ctx without its cancellation; only a deadline that has not passed remains.
// It is for requests that the client must send although the caller's work has ended. It also
// saves the store a goroutine that would watch for the cancellation.
func Lasting(ctx context.Context) context.Context {
	at, bounded := ctx.Deadline()
	ahead := bounded && time.Now().Before(at) // the timer of Done may be late
	switch {
	case ctx.Done() == nil && ahead == bounded:
		return ctx
	case ahead && ctx.Err() == nil:
		return &Limited{Context: context.WithoutCancel(ctx), at: at}
	}
	return context.WithoutCancel(ctx)
}

// Deadline returns the earlier deadline.
func (l *Limited) Deadline() (time.Time, bool) { return l.at, true }

// Err returns an error once the deadline has passed, as the contract of Context says.
func (l *Limited) Err() error {
	if err := l.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(l.at) {
		return context.DeadlineExceeded
	}
	return nil
}
