// Package wake brings pushed grants to those who wait for them.
//
// A Hub keeps the client's subscriptions, one channel for all locks of a
// server, and knows who waits. It promises nothing about delivery: a push may
// be lost, so every waiter has a timer of its own behind it; what the hub adds
// is a nudge to look again whenever a subscription was broken and stands again.
package wake

import (
	"context"
	"sync"
	"time"
)

// Listen subscribes to a channel, as Store.Listen does.
type Listen func(ctx context.Context, channel string, message func(string), resumed func()) (stop func(), err error)

// Grant is what a push says.
type Grant struct {
	Token   uint64
	Waiting int
}

// Read takes a push apart; number is that of the attempt it is for.
type Read func(payload string) (number uint64, g Grant, ok bool)

// Hub delivers pushes to waiters.
type Hub struct {
	listen  Listen
	read    Read
	timeout time.Duration
	ctx     context.Context // ends the making of subscriptions
	end     context.CancelFunc
	work    sync.WaitGroup // subscriptions being made

	// mu guards the fields below. No I/O and no callback happens under it.
	mu      sync.Mutex
	subs    map[string]*subscription
	waiters map[uint64]*Waiter
	stopped bool
}

type subscription struct {
	made chan struct{} // closed when stop and err are set
	stop func()
	err  error
}

// Waiter is one attempt that waits.
type Waiter struct {
	Granted chan Grant    // receives the push, at most one
	Nudge   chan struct{} // receives when the waiter should look by itself
	number  uint64
}

// New makes a hub. timeout bounds the making of one subscription.
func New(listen Listen, read Read, timeout time.Duration) *Hub {
	h := &Hub{
		listen: listen, read: read, timeout: timeout,
		subs: make(map[string]*subscription), waiters: make(map[uint64]*Waiter),
	}
	h.ctx, h.end = context.WithCancel(context.Background())
	return h
}

// Ready reports whether the channel's subscription has been confirmed.
func (h *Hub) Ready(channel string) bool {
	h.mu.Lock()
	s := h.subs[channel]
	h.mu.Unlock()
	if s == nil {
		return false
	}
	select {
	case <-s.made:
		return s.err == nil
	default:
		return false
	}
}

// Subscribe returns once the channel's subscription is confirmed. Many may
// ask at once: one subscription is made, and it outlives the one who asked
// first, whose ctx bounds only its own wait. After an error the next caller
// tries anew.
func (h *Hub) Subscribe(ctx context.Context, channel string) error {
	h.mu.Lock()
	if h.stopped {
		h.mu.Unlock()
		return context.Canceled
	}
	s := h.subs[channel]
	if s == nil {
		s = &subscription{made: make(chan struct{})}
		h.subs[channel] = s
		h.work.Add(1)
		go h.subscribe(channel, s)
	}
	h.mu.Unlock()
	select {
	case <-s.made:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Hub) subscribe(channel string, s *subscription) {
	defer h.work.Done()
	ctx, cancel := context.WithTimeout(h.ctx, h.timeout)
	defer cancel()
	stop, err := h.listen(ctx, channel, h.message, h.resumed)
	h.mu.Lock()
	s.stop, s.err = stop, err
	if err != nil {
		delete(h.subs, channel)
	}
	close(s.made)
	h.mu.Unlock()
}

// Await registers a waiter. It must stand before the request is sent that may
// queue: the push can overtake the answer.
func (h *Hub) Await(number uint64) *Waiter {
	w := &Waiter{Granted: make(chan Grant, 1), Nudge: make(chan struct{}, 1), number: number}
	h.mu.Lock()
	h.waiters[number] = w
	h.mu.Unlock()
	return w
}

// Forget ends the waiting. A push that comes later finds nobody.
func (h *Hub) Forget(w *Waiter) {
	h.mu.Lock()
	delete(h.waiters, w.number)
	h.mu.Unlock()
}

// Stop ends all subscriptions and returns when nothing of the hub runs any more.
func (h *Hub) Stop() {
	h.mu.Lock()
	h.stopped = true
	h.mu.Unlock()
	h.end()
	h.work.Wait()
	h.mu.Lock()
	subs := h.subs
	h.subs = make(map[string]*subscription)
	h.mu.Unlock()
	for _, s := range subs {
		s.stop()
	}
}

func (h *Hub) message(payload string) {
	number, g, ok := h.read(payload)
	if !ok {
		return
	}
	h.mu.Lock()
	w := h.waiters[number]
	h.mu.Unlock()
	if w == nil {
		return // it gave up; its cancel gives the grant on
	}
	select {
	case w.Granted <- g:
	default: // said twice
	}
}

func (h *Hub) resumed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters {
		select {
		case w.Nudge <- struct{}{}:
		default: // nudged already
		}
	}
}
