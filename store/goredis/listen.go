package goredis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// grace is how long stop waits for the server to confirm that it has let go.
const grace = time.Second

// Listen implements [holdfast.Store]. All channels of a store share one
// connection, which is opened for the first and closed after the last.
//
// stop returns when the server has confirmed that it no longer counts us among
// those who hear: a grant is not pushed to somebody who has stopped. A server
// that does not answer is waited for no longer than a second. stop must not be
// called by a function of l, for which it waits, too.
func (s *Store) Listen(
	ctx context.Context, channel string, l holdfast.Listener,
) (stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, s.explain(ctx, err, nil)
	}
	if deadline, ok := ctx.Deadline(); ok {
		// Done need not follow Deadline, see holdfast.Store.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	sub := &subscription{listener: l, outcome: make(chan error, 1)}
	s.hub.add(channel, sub)
	select {
	case err = <-sub.outcome:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		s.hub.remove(channel, sub)
		return nil, s.explain(ctx, fmt.Errorf("subscribe to %s: %w", channel, err), nil)
	}
	return func() {
		if left := s.hub.remove(channel, sub); left != nil {
			<-left
		}
	}, nil
}

// hub knows who listens to what, and has a [feed] while somebody does.
type hub struct {
	client  *redis.Client
	silence time.Duration

	mu       sync.Mutex // guards what follows; no I/O and no callback while it is held
	channels map[string]*channel
	gone     map[string]*farewell // channels to unsubscribe from, unless they come back
	feed     *feed                // Invariant: not nil while there are channels
}

// channel is one that somebody listens to.
type channel struct {
	subs      []*subscription // replaced, never changed in place: readers keep it without mu
	asked     bool            // SUBSCRIBE was sent on the present connection
	confirmed bool            // and the server has confirmed it
}

// farewell is a channel that nobody listens to any more.
type farewell struct {
	told bool          // UNSUBSCRIBE was sent
	left chan struct{} // closed when the server has let go; nil if nobody waits for that
}

// subscription is one call of Listen.
type subscription struct {
	listener holdfast.Listener
	outcome  chan error // gets one value: how Listen went
	live     bool       // outcome was nil; guarded by hub.mu

	calls   sync.Mutex // held while a function of listener runs
	stopped bool       // guarded by calls
}

func (h *hub) add(name string, sub *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.channels[name]
	if c == nil {
		if h.channels == nil {
			h.channels = make(map[string]*channel)
		}
		c = &channel{}
		h.channels[name] = c
	}
	c.subs = append(slices.Clone(c.subs), sub)
	if c.confirmed {
		sub.settle(nil)
		return
	}
	if h.feed == nil {
		h.feed = startFeed(h)
	}
	h.feed.poke()
}

// remove ends a subscription and waits until none of its functions runs.
// If it was the channel's last, left is closed when the server has let go, or
// after a grace. remove may be called again.
func (h *hub) remove(name string, sub *subscription) (left <-chan struct{}) {
	h.mu.Lock()
	if c := h.channels[name]; c != nil {
		c.subs = slices.DeleteFunc(slices.Clone(c.subs), func(s *subscription) bool { return s == sub })
		if len(c.subs) == 0 {
			left = h.drop(name, c)
		}
	}
	h.mu.Unlock()

	sub.calls.Lock()
	sub.stopped = true
	sub.calls.Unlock()
	return left
}

// drop takes leave of a channel. mu is held.
func (h *hub) drop(name string, c *channel) (left <-chan struct{}) {
	delete(h.channels, name)
	h.forget(name)
	bye := &farewell{}
	if c.confirmed {
		bye.left = make(chan struct{})
		time.AfterFunc(grace, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.gone[name] == bye {
				h.forget(name)
				h.rest()
			}
		})
	}
	if h.gone == nil {
		h.gone = make(map[string]*farewell)
	}
	h.gone[name] = bye
	h.feed.poke()
	h.rest()
	return bye.left
}

// forget ends a farewell. mu is held.
func (h *hub) forget(name string) {
	if bye := h.gone[name]; bye != nil && bye.left != nil {
		close(bye.left)
	}
	delete(h.gone, name)
}

// rest ends the feed if there is nothing to listen to and nobody waits for a
// farewell. mu is held.
func (h *hub) rest() {
	if len(h.channels) > 0 || h.feed == nil {
		return
	}
	for _, bye := range h.gone {
		if bye.left != nil {
			return
		}
	}
	h.feed.cancel()
	h.feed, h.gone = nil, nil
}

// left is told that the server has confirmed the end of a subscription.
func (h *hub) left(f *feed, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if bye := h.gone[name]; h.feed == f && bye != nil && bye.told {
		h.forget(name)
		h.rest()
	}
}

// changes returns what to tell the server about: channels that came and
// channels that went.
func (h *hub) changes(f *feed) (came, went []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feed != f {
		return nil, nil
	}
	for name, c := range h.channels {
		if !c.asked {
			c.asked = true
			came = append(came, name)
		}
	}
	for name, bye := range h.gone {
		switch {
		case h.channels[name] != nil:
			h.forget(name) // it came back
		case !bye.told:
			bye.told = true
			went = append(went, name)
		}
	}
	return came, went
}

// disconnected forgets what was asked and confirmed on a connection that is
// no more. If it never worked, those who still wait for their first
// confirmation are told why; otherwise they wait for the next connection.
func (h *hub) disconnected(f *feed, worked bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feed != f {
		return
	}
	for _, c := range h.channels {
		c.asked, c.confirmed = false, false
		if !worked {
			c.refuse(err)
		}
	}
	for name := range h.gone {
		h.forget(name)
	}
	h.rest()
}

// refused is told that the server refused to subscribe to a channel, it does
// not say which. It reports whether somebody who had listened before is now
// without a subscription.
func (h *hub) refused(f *feed, err error) (bereft bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feed != f {
		return false
	}
	for _, c := range h.channels {
		if c.confirmed {
			continue
		}
		c.refuse(err)
		bereft = bereft || slices.ContainsFunc(c.subs, func(s *subscription) bool { return s.live })
	}
	return bereft
}

func (c *channel) refuse(err error) {
	for _, sub := range c.subs {
		if !sub.live {
			sub.settle(err)
		}
	}
}

// confirm is told that the server has confirmed a subscription.
func (h *hub) confirm(f *feed, name string) {
	h.mu.Lock()
	c := h.channels[name]
	if h.feed != f || c == nil {
		h.mu.Unlock()
		return
	}
	c.confirmed = true
	var resumed []*subscription
	for _, sub := range c.subs {
		if sub.live {
			resumed = append(resumed, sub)
		} else {
			sub.settle(nil)
		}
	}
	h.mu.Unlock()
	for _, sub := range resumed {
		sub.call(sub.listener.Resumed)
	}
}

// deliver hands a message to those who listen. Those who still wait for the
// confirmation do not yet: it may be from an earlier subscription.
func (h *hub) deliver(f *feed, name, payload string) {
	h.mu.Lock()
	var subs []*subscription
	if c := h.channels[name]; c != nil && h.feed == f {
		subs = c.subs
		waits := func(sub *subscription) bool { return !sub.live }
		if slices.ContainsFunc(subs, waits) {
			subs = slices.DeleteFunc(slices.Clone(subs), waits)
		}
	}
	h.mu.Unlock()
	for _, sub := range subs {
		if sub.listener.Message != nil {
			sub.call(func() { sub.listener.Message(payload) })
		}
	}
}

// settle tells Listen how it went. The first word counts: a subscription that
// is given up stays in place until its Listen has taken it out.
func (sub *subscription) settle(err error) {
	select {
	case sub.outcome <- err:
		sub.live = err == nil
	default:
	}
}

// call runs one function of the listener, unless the subscription has ended.
func (sub *subscription) call(f func()) {
	sub.calls.Lock()
	defer sub.calls.Unlock()
	if !sub.stopped && f != nil {
		f()
	}
}
