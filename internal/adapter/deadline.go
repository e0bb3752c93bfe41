package adapter

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// grain is how late the end of a time limit may be told where no socket's
// deadline tells it exactly: while connecting, or waiting for a connection.
const granularity = 50 * time.Millisecond

// Moment is how long a request whose time is over may take to say that it was
// not sent.
const FinalWait = 5 * time.Millisecond

// Alarm tells when deadlines have passed, up to a grain late. A context with
// a timer costs four allocations and must be stopped; requests with the same
// time limit, made one after the other, share a [Limit].
//
// A timer that runs off has a goroutine, for a moment. So an Alarm keeps no timer that no
// request waits for, but for the newest; Stop ends that one too. A program that has
// ended its requests and stopped the Alarm has no goroutine of it, now or later.
type Deadlines struct {
	mu   sync.Mutex
	next *Deadline // the newest; nil before the first, and after Stop
}

// Limit is the end of a request's time. A nil Limit never comes.
type Deadline struct {
	deadlines *Deadlines
	at        time.Time
	passed    chan struct{} // closed at that time, or when no request waits for it
	timer     *time.Timer
	users     int
}

// Of returns the Limit for ctx's deadline, nil if it has none. The request calls Leave
// when it ends.
func (a *Deadlines) Of(ctx context.Context) *Deadline {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.next
	if l == nil || l.at.Before(deadline) || l.at.Sub(deadline) > granularity {
		a.retire()
		l = &Deadline{deadlines: a, at: deadline.Add(granularity), passed: make(chan struct{})}
		l.timer = time.AfterFunc(time.Until(l.at), func() { close(l.passed) })
		a.next = l
	}
	l.users++
	return l
}

// Stop ends the timer that is kept for the next request.
func (a *Deadlines) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.retire()
}

// Stopped reports whether no timer is kept for the next request.
func (a *Deadlines) Stopped() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.next == nil
}

// retire leaves the newest Limit to the requests that wait for it. The lock is held.
func (a *Deadlines) retire() {
	l := a.next
	a.next = nil
	if l != nil && l.users == 0 {
		l.stop()
	}
}

// Passed is closed within a grain after the deadline.
func (l *Deadline) Passed() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.passed
}

// Leave says that the request has ended.
func (l *Deadline) Leave() {
	if l == nil {
		return
	}
	l.deadlines.mu.Lock()
	defer l.deadlines.mu.Unlock()
	l.users--
	if l.users == 0 && l.deadlines.next != l {
		l.stop()
	}
}

// stop ends the timer. What a request has left behind does not wait for it either.
func (l *Deadline) stop() {
	if l.timer.Stop() {
		close(l.passed)
	}
}

// Bounded is a context that nobody can cancel, with an end to its time: Done
// follows Deadline, which in a context of the library's it need not.
func Bounded(ctx context.Context, deadline *Deadline) context.Context {
	return bounded{ctx, deadline.Passed()}
}

type bounded struct {
	context.Context
	done <-chan struct{}
}

func (b bounded) Done() <-chan struct{} { return b.done }

func (b bounded) Err() error {
	if Ended(b.Context) {
		return context.DeadlineExceeded
	}
	select {
	case <-b.done: // its request has left before
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// linger is for how long a connection may still wait for an answer that its
// caller no longer does.
const lingerTime = time.Second

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
	return deadline.Add(lingerTime), true
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
