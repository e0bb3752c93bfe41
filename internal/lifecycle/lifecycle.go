// Package lifecycle counts the calls and the background work of one owner, such as a client,
// and ends them in order. First, no new call begins. Then the calls under way return. Then
// the background work that they started ends.
package lifecycle

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/lockorder"
)

// Group has the calls and the background work of one owner. It is safe for use by many
// goroutines.
type Group struct {
	life    context.Context // of requests in the background
	end     context.CancelFunc
	closing chan struct{} // closed when no call may begin
	calls   atomic.Int64
	quiet   chan struct{} // receives when the last call returns while the group closes

	begun atomic.Bool // no call may begin; set before closing is closed

	mu     lockorder.Mutex[Group] // guards the fields below
	closed bool                   // no background work may begin
	tasks  sync.WaitGroup         // Add only while not closed
}

// New makes an empty group.
func New() *Group {
	g := &Group{closing: make(chan struct{}), quiet: make(chan struct{}, 1)}
	g.life, g.end = context.WithCancel(context.Background())
	return g
}

// BeginCall counts a call, which EndCall ends. If the group is closing, BeginCall returns false and
// counts nothing.
func (g *Group) BeginCall() bool {
	g.calls.Add(1)
	return !g.IsClosing() || g.refuse()
}

// refuse ends the call that has just been counted.
func (g *Group) refuse() bool {
	g.EndCall()
	return false
}

// EndCall ends a call that BeginCall has counted.
func (g *Group) EndCall() {
	if g.calls.Add(-1) == 0 && g.IsClosing() {
		g.tell()
	}
}

// Calls returns how many calls are under way.
func (g *Group) Calls() int { return int(g.calls.Load()) }

// tell wakes Wait, because no call is left.
func (g *Group) tell() {
	select {
	case g.quiet <- struct{}{}:
	default:
	}
}

// Go runs f in a goroutine with the label, and Wait waits for it. A call may start work while
// the group is closing. Once Wait waits only for background work, Go returns false and does not run f.
func (g *Group) Go(l label.Label, f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.tasks.Go(func() {
		l.Set()
		f()
	})
	return true
}

// Sleep waits for d. It returns false if ctx ends or the group closes before.
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

// Closing returns a channel that is closed when no call may begin any more.
func (g *Group) Closing() <-chan struct{} { return g.closing }

// IsClosing reports whether Close has been called.
func (g *Group) IsClosing() bool { return g.begun.Load() }

// Context returns the context of background work. It ends when Wait's context ends, or when
// no work is left.
func (g *Group) Context() context.Context { return g.life }

// Close refuses new calls from now on. It reports whether it was the first Close.
func (g *Group) Close() (first bool) {
	if g.begun.Swap(true) {
		return false
	}
	close(g.closing)
	return true
}

// Wait waits, after Close, until no call and no background work is left. When ctx ends, Wait
// stops waiting for calls and ends the context of the background work.
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

// Stop closes the group, ends the context of the background work, and returns when that work
// has ended. It does not wait for calls.
func (g *Group) Stop() {
	g.Close()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	g.Wait(ended)
}
