// Package lifecycle counts what runs for one owner, such as a client, and ends it in
// order: first no call begins, then the calls under way return, then the background
// work that they left behind ends.
package lifecycle

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Group is what runs for one owner: calls, which the owner's callers make, and
// background work. It is safe for use by many goroutines.
type Group struct {
	life    context.Context // of requests in the background
	end     context.CancelFunc
	closing chan struct{} // closed when no call may begin
	calls   atomic.Int64
	quiet   chan struct{} // told when the last call returns while the group closes

	begun atomic.Bool // no call may begin; set before closing is closed

	mu     sync.Mutex     // guards the fields below
	closed bool           // no background work may begin
	tasks  sync.WaitGroup // Add only while not closed
}

// New makes an empty group.
func New() *Group {
	g := &Group{closing: make(chan struct{}), quiet: make(chan struct{}, 1)}
	g.life, g.end = context.WithCancel(context.Background())
	return g
}

// Enter counts a call, which Exit ends. It reports false if the group is closing: then
// there is nothing to end.
func (g *Group) Enter() bool {
	g.calls.Add(1)
	return !g.IsClosing() || g.refuse()
}

// refuse ends the call that has just been counted.
func (g *Group) refuse() bool {
	g.Exit()
	return false
}

// Exit ends a call that Enter has counted.
func (g *Group) Exit() {
	if g.calls.Add(-1) == 0 && g.IsClosing() {
		g.tell()
	}
}

// tell wakes Wait: no call is left.
func (g *Group) tell() {
	select {
	case g.quiet <- struct{}{}:
	default:
	}
}

// Go runs f in a goroutine that Wait waits for. Calls may leave work behind while the
// group is closing. It reports false, and f does not run, once Wait waits for
// nothing but the background.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.tasks.Go(f)
	return true
}

// Sleep waits for d. It reports false if ctx ends or the group closes before.
func (g *Group) Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-g.closing:
	}
	return false
}

// Closing is closed when no call may begin.
func (g *Group) Closing() <-chan struct{} { return g.closing }

// IsClosing reports whether Close has been called.
func (g *Group) IsClosing() bool { return g.begun.Load() }

// Context ends when background work is to stop: at the end of Wait's context, or
// when nothing runs any more.
func (g *Group) Context() context.Context { return g.life }

// Close lets no call begin from now on. It reports whether it was the first to do so.
func (g *Group) Close() (first bool) {
	if g.begun.Swap(true) {
		return false
	}
	close(g.closing)
	return true
}

// Wait waits, after Close, until no call and no background work is left. When ctx
// ends, it waits for calls no longer and ends the background work's context.
func (g *Group) Wait(ctx context.Context) {
	for g.calls.Load() > 0 && ctx.Err() == nil {
		select {
		case <-g.quiet:
		case <-ctx.Done():
		}
	}
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		g.tasks.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	g.end()
	<-idle
}

// Stop closes the group, ends the context of the background work, and returns when
// that is over. It waits for no call.
func (g *Group) Stop() {
	g.Close()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	g.Wait(ended)
}
