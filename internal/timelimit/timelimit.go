// Package timelimit bounds a context without a timer, and frees one from its cancellation.
package timelimit

import (
	"context"
	"time"
)

// Limited is its parent context with another end: an earlier deadline, or none at its cancellation. It has no timer,
// and its Done channel is that of its parent, or nil if it cannot be cancelled. It costs at most one
// allocation; context.WithTimeout costs four and a timer. That matters in a request of some
// ten microseconds. Only stores see it, see [store.Store]. The zero value is not used yet.
type Limited struct {
	context.Context
	at      time.Time // the deadline; zero: none
	lasting bool      // the end of the parent does not count
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
func Lasting(ctx context.Context) context.Context { return new(Limited).Lasting(ctx) }

// Lasting is the function Lasting for a caller that has allocated the context, as Within is.
// context.WithoutCancel costs one allocation, and one more for each value that is looked up.
func (l *Limited) Lasting(ctx context.Context) context.Context {
	at, bounded := ctx.Deadline()
	ahead := bounded && time.Now().Before(at) // the timer of Done may be late
	if ctx.Done() == nil && ahead == bounded {
		return ctx
	}
	l.Context, l.lasting = ctx, true
	if ahead && ctx.Err() == nil {
		l.at = at
	}
	return l
}

// Deadline returns the earlier deadline.
func (l *Limited) Deadline() (time.Time, bool) { return l.at, !l.at.IsZero() }

// Done returns nil if nothing cancels the context.
func (l *Limited) Done() <-chan struct{} {
	if l.lasting {
		return nil
	}
	return l.Context.Done()
}

// Err returns an error once the deadline has passed, as the contract of Context says.
func (l *Limited) Err() error {
	if err := l.Context.Err(); err != nil && !l.lasting {
		return err
	}
	if at, bounded := l.Deadline(); bounded && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return nil
}
