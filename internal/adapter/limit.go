package adapter

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"
)

// grain is how late the end of a time limit may be told where no socket's
// deadline tells it exactly: while connecting, or waiting for a connection.
const grain = 50 * time.Millisecond

// Moment is how long a request whose time is over may take to say that it was
// not sent.
const Moment = 5 * time.Millisecond

// Alarm tells when deadlines have passed, up to a grain late. A context with
// a timer costs four allocations and must be stopped; requests with the same
// time limit, made one after the other, share one of these.
type Alarm struct{ next atomic.Pointer[bell] }

type bell struct {
	at   time.Time
	rung chan struct{} // closed at that time
}

// After returns a channel that is closed within a grain after deadline.
func (a *Alarm) After(deadline time.Time) <-chan struct{} {
	b := a.next.Load()
	if b != nil && !b.at.Before(deadline) && b.at.Sub(deadline) <= grain {
		return b.rung
	}
	b = &bell{at: deadline.Add(grain), rung: make(chan struct{})}
	time.AfterFunc(time.Until(b.at), func() { close(b.rung) })
	a.next.Store(b) // somebody else's may be lost; it rings all the same
	return b.rung
}

// Of is After for ctx's deadline, nil if it has none.
func (a *Alarm) Of(ctx context.Context) <-chan struct{} {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	return a.After(deadline)
}

// Bounded is a context that nobody can cancel, with an end to its time: Done
// follows Deadline, which in a context of the library's it need not.
func Bounded(ctx context.Context, late <-chan struct{}) context.Context { return bounded{ctx, late} }

type bounded struct {
	context.Context
	done <-chan struct{}
}

func (b bounded) Done() <-chan struct{} { return b.done }

func (b bounded) Err() error {
	if Ended(b.Context) {
		return context.DeadlineExceeded
	}
	return nil
}

// linger is for how long a connection may still wait for an answer that its
// caller no longer does.
const linger = time.Second

// Lingering is a context for the socket of a request. It ends when its caller has
// left, with left: then nothing is begun any more. But its deadline, which what
// has begun goes by, is a while later than ctx's.
//
// A client drops the connection under a request whose deadline passes, and one
// that it was about to log in. If making one takes longer than a request
// may, by a slow network, a handshake of TLS or a busy machine, and nothing
// lingered, no connection would ever stand, and every try to make one would add
// to the load.
func Lingering(ctx context.Context, left <-chan struct{}) context.Context {
	return lingering{ctx, left}
}

type lingering struct {
	context.Context
	left <-chan struct{}
}

func (l lingering) Deadline() (time.Time, bool) {
	deadline, ok := l.Context.Deadline()
	if !ok {
		return deadline, false
	}
	return deadline.Add(linger), true
}

func (l lingering) Done() <-chan struct{} { return l.left }

func (l lingering) Err() error {
	select {
	case <-l.left:
		return cmp.Or(l.Context.Err(), context.Canceled)
	default:
		return nil
	}
}

// Ended reports whether ctx has ended, be it that only its deadline says so.
func Ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// Timeout returns the context's error in the place of a socket's timeout, if
// that is where it came from: the two fire at the same instant, in any order.
func Timeout(ctx context.Context, err error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if Ended(ctx) {
		return context.DeadlineExceeded
	}
	return err
}
