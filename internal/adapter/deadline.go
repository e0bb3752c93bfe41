package adapter

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/yield"
)

// granularity is how late the end of a deadline may be noticed if no socket's deadline tells
// it exactly: while connecting, or while waiting for a connection.
const granularity = 50 * time.Millisecond

// FinalWait is how long a request past its deadline may take to report that it was not sent.
const FinalWait = 5 * time.Millisecond

// Deadlines tells when deadlines have passed, late by at most granularity. A context with a
// timer costs four allocations and must be stopped; successive requests with the same timeout
// share a [Deadline].
//
// A timer that fires has a goroutine for a moment. So Deadlines keeps no timer without a
// waiting request, except the newest; Stop ends that one too. A program that has ended its
// requests and called Stop has none of its goroutines, now or later.
type Deadlines struct {
	mu   lockorder.Mutex[Deadlines]
	next *Deadline // the newest; nil before the first, and after Stop

	endings sync.Pool // that have not ended
}

// Deadline is the end of a request's time. A nil Deadline never passes.
type Deadline struct {
	deadlines *Deadlines
	at        time.Time
	passed    chan struct{} // closed at that time, or when no request waits for it
	timer     *time.Timer
	users     int
	endings   map[*Ending]struct{} // told when it passes
}

// Of returns the Deadline of ctx, nil if ctx has none. The request calls Leave when it ends.
func (ds *Deadlines) Of(ctx context.Context) *Deadline {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.next
	if d == nil || d.at.Before(deadline) || d.at.Sub(deadline) > granularity {
		ds.retire()
		d = &Deadline{deadlines: ds, at: deadline.Add(granularity), passed: make(chan struct{})}
		d.timer = time.AfterFunc(time.Until(d.at), func() {
			<-settled() // an answer that has arrived is better than none
			d.pass()
		})
		ds.next = d
	}
	d.users++
	return d
}

// Stop ends the timer that is kept for the next request.
func (ds *Deadlines) Stop() {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.retire()
}

// Stopped reports whether no timer is kept for the next request.
func (ds *Deadlines) Stopped() bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.next == nil
}

// retire leaves the newest Deadline to the requests that wait for it. a.mu is held.
func (ds *Deadlines) retire() {
	d := ds.next
	ds.next = nil
	if d != nil && d.users == 0 {
		d.stop()
	}
}

// Passed is closed within granularity after the deadline.
func (d *Deadline) Passed() <-chan struct{} {
	if d == nil {
		return nil
	}
	return d.passed
}

// pass ends the requests that wait.
func (d *Deadline) pass() {
	close(d.passed)
	d.deadlines.mu.Lock()
	defer d.deadlines.mu.Unlock()
	for e := range d.endings {
		e.end()
	}
}

// tell makes e end when d passes.
func (d *Deadline) tell(e *Ending) {
	if d == nil {
		return
	}
	d.deadlines.mu.Lock()
	defer d.deadlines.mu.Unlock()
	if d.endings == nil {
		d.endings = make(map[*Ending]struct{})
	}
	d.endings[e] = struct{}{}
	select {
	case <-d.passed:
		e.end()
	default:
	}
}

// forget undoes tell.
func (d *Deadline) forget(e *Ending) {
	if d == nil {
		return
	}
	d.deadlines.mu.Lock()
	defer d.deadlines.mu.Unlock()
	delete(d.endings, e)
}

// Leave says that the request has ended.
func (d *Deadline) Leave() {
	if d == nil {
		return
	}
	d.deadlines.mu.Lock()
	defer d.deadlines.mu.Unlock()
	d.users--
	if d.users == 0 && d.deadlines.next != d {
		d.stop()
	}
}

// stop ends the timer. Whatever a request has left behind stops waiting, too.
func (d *Deadline) stop() {
	if d.timer.Stop() {
		close(d.passed)
	}
}

// settled is yield.All. Tests replace it.
var settled = yield.All

// Bounded is a context that nobody can cancel, with a deadline: its Done follows its Deadline,
// which in a context of the library need not be so.
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

// Left is a context for a request that runs in a goroutine of its own. It ends when the caller of that request has
// left, with left. That is later than the end of ctx by as long as the caller waits for an answer that has arrived.
func Left(ctx context.Context, left <-chan struct{}) context.Context { return abandoned{ctx, left} }

type abandoned struct {
	context.Context
	left <-chan struct{}
}

func (a abandoned) Done() <-chan struct{} { return a.left }

func (a abandoned) Err() error {
	select {
	case <-a.left:
		return cmp.Or(a.Context.Err(), context.Canceled)
	default:
		return nil
	}
}

// LingerTime is how long a connection may go on waiting for an answer after its caller has
// stopped.
const LingerTime = time.Second

// Lingering is [Left] for a request that uses a socket of its own. When its caller has left, nothing
// new is begun. But its deadline, for what has begun, is later than that of ctx.
//
// A client drops the connection of a request whose deadline passes, and one that it was about
// to log in. Making a connection may take longer than a request may, because of a slow
// network, a TLS handshake or a busy machine. Without Lingering no connection would ever be
// made then, and every try would add to the load.
func Lingering(ctx context.Context, left <-chan struct{}) context.Context {
	return lingering{abandoned{ctx, left}}
}

type lingering struct{ abandoned }

func (l lingering) Deadline() (time.Time, bool) {
	deadline, ok := l.Context.Deadline()
	if !ok {
		return deadline, false
	}
	return deadline.Add(LingerTime), true
}

// Ended reports whether ctx has ended, even if only its deadline says so.
func Ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// Timeout returns the context's error instead of a socket's timeout if the context caused the
// timeout: the two happen at the same instant, in any order.
func Timeout(ctx context.Context, err error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if Ended(ctx) {
		return context.DeadlineExceeded
	}
	return err
}
