// Package pushes delivers pushes to the waiters of this process.
//
// [Channels] share subscriptions: one for each channel, however many waiters it has. A [Hub]
// knows which attempt of a client each push is for. Neither guarantees that a push arrives, so
// every waiter also polls by a timer. When a broken subscription is restored, its waiters are
// told to poll at once.
package pushes

import (
	"context"
	"sync/atomic"
	"time"
)

// Listen subscribes to a channel, as Store.Listen does.
type Listen func(ctx context.Context, channel string, message func(string), look func()) (stop func(), err error)

// Grant is the content of a push: the lock is granted, or it was released and will be free
// later.
type Grant struct {
	Token   uint64
	Waiting int
	Now     uint64        // the server's time of the grant, in ms; 0 if the push has none
	Lease   time.Duration // the lease that was granted at Now
	Later   bool          // not granted yet
	Left    time.Duration // until it is free, if Later
}

// Read parses a push. number is the number of the attempt that it is for.
type Read func(payload string) (number uint64, g Grant, ok bool)

// Hub delivers pushes to waiters, each by the number of its attempt.
type Hub struct {
	channels *Channels[uint64, *Waiter]
	read     Read
	stray    func(number uint64)
	active   atomic.Bool // there was a subscription, perhaps one that failed
}

// Waiter is one attempt that waits.
type Waiter struct {
	Granted chan Grant         // receives the push, at most one
	Resumed chan struct{}      // receives when it has a subscription, anew or again: the waiter should poll
	FreeIn  chan time.Duration // receives how long the lock is still held, when that has changed
	number  uint64
	channel string
}

func newWaiter(channel string, number uint64) *Waiter {
	return &Waiter{
		Granted: make(chan Grant, 1), Resumed: make(chan struct{}, 1), FreeIn: make(chan time.Duration, 1),
		number: number, channel: channel,
	}
}

// New makes a hub. timeout limits how long one subscription may take to be made. The hub
// ends a subscription that has had no waiter for idleTimeout. If idleTimeout is 0, a
// subscription lasts until Stop. The hub calls stray for a push whose attempt does not
// wait; stray must return at once.
func New(listen Listen, read Read, stray func(number uint64), timeout, idleTimeout time.Duration) *Hub {
	h := &Hub{read: read, stray: stray}
	h.channels = NewChannels[uint64](ChannelsConfig[*Waiter]{
		Listen: func(ctx context.Context, channel string, look func()) (func(), error) {
			return listen(ctx, channel, func(payload string) { h.message(channel, payload) }, look)
		},
		Tell: func(waiters []*Waiter) {
			for _, w := range waiters {
				select {
				case w.Resumed <- struct{}{}:
				default: // told already
				}
			}
		},
		Timeout: timeout, Linger: idleTimeout,
	})
	return h
}

// Active reports whether a goroutine of this process has ever asked for a subscription. If
// not, there is nothing to [Hub.Await].
func (h *Hub) Active() bool { return h.active.Load() }

// Awaited reports whether an attempt waits for a push.
func (h *Hub) Awaited() bool { return h.channels.Awaited() }

// Await registers a waiter if the channel's subscription is confirmed; otherwise it returns
// nil. Register the waiter before you send the request that may queue it: a push can
// overtake the answer.
func (h *Hub) Await(channel string, number uint64) *Waiter {
	w, _ := h.channels.Standing(channel, number, func() *Waiter { return newWaiter(channel, number) })
	return w
}

// Subscribe is Await for a subscription that may not exist yet: it returns once the
// subscription is confirmed. If many callers ask at once, they share one subscription. The
// ctx of a caller limits only the wait of that caller. After an error the next caller tries
// again.
func (h *Hub) Subscribe(ctx context.Context, channel string, number uint64) (*Waiter, error) {
	h.active.Store(true)
	for {
		if err := h.channels.Subscribe(ctx, channel); err != nil {
			return nil, err
		}
		if w := h.Await(channel, number); w != nil { // else it has ended meanwhile, for nobody waited
			return w, nil
		}
	}
}

// Prepare starts to make the channel's subscription and does not wait. It calls told with
// the result, unless the hub is stopped.
func (h *Hub) Prepare(channel string, told func(error)) {
	h.active.Store(true)
	h.channels.Prepare(channel, told)
}

// Count returns how many waiters there are, and how many subscriptions stand.
func (h *Hub) Count() (waiters, subscriptions int) { return h.channels.Count() }

// Unsubscribed registers a waiter that does not wait for a subscription. It must poll until
// the subscription is confirmed; then its Resumed receives.
func (h *Hub) Unsubscribed(channel string, number uint64) *Waiter {
	w := newWaiter(channel, number)
	h.channels.Join(channel, number, w)
	return w
}

// Reaches reports whether w has a subscription, so that a push reaches it.
func (h *Hub) Reaches(w *Waiter) bool { return h.channels.Stands(w.channel) }

// Replace registers a waiter and forgets w. The new waiter has the subscription of w.
func (h *Hub) Replace(w *Waiter, number uint64) *Waiter {
	defer h.Forget(w) // only then, so that the channel is never without a waiter
	return h.Unsubscribed(w.channel, number)
}

// Forget removes a waiter. A later push for it is a stray.
func (h *Hub) Forget(w *Waiter) { h.channels.Leave(w.channel, w.number) }

// Drain drops what the waiter was told and has not taken, but for a grant. The waiter calls
// it before it polls: the answer says more.
func (w *Waiter) Drain() {
	select {
	case <-w.Resumed:
	default:
	}
	select {
	case <-w.FreeIn:
	default:
	}
}

// Stop ends all subscriptions. It returns when no goroutine of the hub runs.
func (h *Hub) Stop() { h.channels.Stop() }

func (h *Hub) message(channel, payload string) {
	number, g, ok := h.read(payload)
	if !ok {
		return
	}
	w, waits := h.channels.Waiter(channel, number)
	if !waits {
		h.stray(number) // the attempt gave up, or has its grant already
		return
	}
	if g.Later {
		select {
		case w.FreeIn <- g.Left:
		default: // the waiter polls anyway after the first of them
		}
		return
	}
	select {
	case w.Granted <- g:
	default: // a repeated push
	}
}
