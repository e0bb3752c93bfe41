package adapter

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// grace is how long stop waits for the server to confirm that it has let go.
const stopTimeout = time.Second

// Wire is how a store subscribes with its client library.
type Driver struct {
	// Session connects to f's node, says f.Changes to it whenever f.Wake
	// receives, and tells f what the node says, until the connection breaks
	// or f.Context is done. It reports whether the node has said anything.
	Session func(f *Feed) (worked bool, err error)

	// Place names the node of each channel, "" for one that nobody knows.
	// stale says that what was known before has proved wrong. Without Place
	// there is one node, named "".
	Nodes func(ctx context.Context, channels []string, stale bool) ([]string, error)

	// Patient makes Listen wait for a connection as long as it may, instead of
	// failing with the first that cannot be made.
	WaitsToConnect bool

	// Keeps says that the session does not unsubscribe: a channel that nobody
	// listens to any more stays subscribed to until the connection ends. When
	// the feed is worn the session puts another connection in the place of that
	// one, see [Feed.Worn].
	KeepsChannels bool
}

// Hub knows who listens to what, and has a [Feed] for each node that somebody
// listens at.
//
// A channel that moves to another node, or whose node is lost, is without a
// home until its new place is known; who listens to it then is told that the
// subscription stands again, like after any break.
type Hub struct {
	Driver Driver

	mu            sync.Mutex // guards what follows; no I/O and no callback while it is held
	channels      map[string]*channel
	unsubscribing map[string]*pendingUnsubscribe // channels to unsubscribe from, unless they come back
	feeds         map[string]*Feed               // by node; each has channels, or unsubscribes that are awaited
	unrouted      map[string]*channel            // Invariant: the channels without a feed
	router        *router                        // Invariant: not nil while there are homeless channels
}

// channel is one that somebody listens to.
type channel struct {
	subs          []*subscription // replaced, never changed in place: readers keep it without mu
	feed          *Feed           // nil: its place is not known
	subscribeSent bool            // SUBSCRIBE was sent on the present connection
	confirmed     bool            // and the server has confirmed it

	// What follows is about the search for its place.
	movedTo  string    // where it is said to be; may be empty
	stale    bool      // what was known of its place is wrong
	failures int       // in a row
	retryAt  time.Time // of the next try
	lastErr  error     // of the last failure
}

// farewell is a channel that nobody listens to any more.
type pendingUnsubscribe struct {
	feed *Feed
	sent bool          // UNSUBSCRIBE was sent
	done chan struct{} // closed when the server has let go; nil if nobody waits for that
}

// subscription is one call of Listen.
type subscription struct {
	listener store.Listener
	outcome  chan error // gets one value: how Listen went
	live     bool       // outcome was nil; guarded by Hub.mu

	calls   sync.Mutex // held while a function of listener runs
	stopped bool       // guarded by calls
}

// Listen does what [store.Store] says of Listen. stop returns when the
// server has confirmed that it no longer counts us among those who hear: a
// grant is not pushed to somebody who has stopped. A server that does not
// answer is waited for no longer than a second.
//
// Where the session keeps channels, stop waits as long for the end of the connection.
func (h *Hub) Listen(ctx context.Context, name string, l store.Listener) (stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		// Done need not follow Deadline, see store.Store.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	sub := &subscription{listener: l, outcome: make(chan error, 1)}
	h.add(name, sub)
	select {
	case err = <-sub.outcome:
	case <-ctx.Done():
		err = ctx.Err()
		if why := h.lastError(name); why != nil {
			err = fmt.Errorf("%w, after %w", err, why)
		}
	}
	if err != nil {
		h.remove(name, sub)
		return nil, fmt.Errorf("subscribe to %s: %w", name, err)
	}
	return func() {
		left := h.remove(name, sub)
		if left == nil {
			return
		}
		late := time.NewTimer(stopTimeout)
		defer late.Stop()
		select {
		case <-left:
		case <-late.C:
		}
	}, nil
}

// why is what keeps a channel from being subscribed, nil if nothing is known.
func (h *Hub) lastError(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.channels[name]; c != nil && !c.confirmed {
		return c.lastErr
	}
	return nil
}

func (h *Hub) add(name string, sub *subscription) {
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
	switch {
	case c.confirmed:
		sub.report(nil)
	case c.feed != nil: // asked for already
	case h.Driver.Nodes == nil:
		h.assign(name, c, "")
	default:
		h.startRouting(name, c)
	}
}

// house gives a channel to the feed of a node. mu is held.
func (h *Hub) assign(name string, c *channel, node string) {
	f := h.feeds[node]
	if f == nil {
		if h.feeds == nil {
			h.feeds = make(map[string]*Feed)
		}
		f = startFeed(h, node)
		h.feeds[node] = f
	}
	delete(h.unrouted, name)
	c.feed, c.subscribeSent, c.confirmed = f, false, false
	c.movedTo, c.stale = "", false
	f.channels++
	f.toSubscribe = append(f.toSubscribe, name)
	f.wake()
}

// remove ends a subscription and waits until none of its functions runs.
// If it was the channel's last, left is closed when the server has let go, or
// after a grace. remove may be called again.
func (h *Hub) remove(name string, sub *subscription) (left <-chan struct{}) {
	h.mu.Lock()
	if c := h.channels[name]; c != nil {
		c.subs = slices.DeleteFunc(slices.Clone(c.subs), func(s *subscription) bool { return s == sub })
		if len(c.subs) == 0 {
			left = h.removeChannel(name, c)
		}
	}
	h.mu.Unlock()

	sub.calls.Lock()
	sub.stopped = true
	sub.calls.Unlock()
	return left
}

// drop takes leave of a channel. mu is held.
func (h *Hub) removeChannel(name string, c *channel) (left <-chan struct{}) {
	delete(h.channels, name)
	f := c.feed
	if f == nil {
		h.endRouting(name)
		return nil
	}
	f.channels--
	h.endUnsubscribe(name)
	switch {
	case !c.subscribeSent:
	case h.Driver.KeepsChannels:
		left = f.keepSubscribed(name)
	default:
		left = h.unsubscribe(name, c)
	}
	h.closeIfUnused(f)
	return left
}

// bid has the feed unsubscribe from a channel. mu is held.
func (h *Hub) unsubscribe(name string, c *channel) (left <-chan struct{}) {
	f := c.feed
	pending := &pendingUnsubscribe{feed: f}
	if c.confirmed {
		pending.done = make(chan struct{})
		time.AfterFunc(stopTimeout, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.unsubscribing[name] == pending {
				h.endUnsubscribe(name)
			}
		})
	}
	if h.unsubscribing == nil {
		h.unsubscribing = make(map[string]*pendingUnsubscribe)
	}
	h.unsubscribing[name] = pending
	if pending.done != nil {
		f.awaitedUnsubscribes++
	}
	f.toUnsubscribe = append(f.toUnsubscribe, name)
	f.wake()
	return pending.done
}

// forget ends a farewell. mu is held.
func (h *Hub) endUnsubscribe(name string) {
	pending := h.unsubscribing[name]
	if pending == nil {
		return
	}
	delete(h.unsubscribing, name)
	if pending.done != nil {
		close(pending.done)
		pending.feed.awaitedUnsubscribes--
	}
	h.closeIfUnused(pending.feed)
}

// rest ends a feed if there is nothing to listen to at its node and nobody
// waits for a farewell. mu is held.
func (h *Hub) closeIfUnused(f *Feed) {
	if f.channels > 0 || f.awaitedUnsubscribes > 0 || h.feeds[f.Node] != f {
		return
	}
	f.cancel()
	delete(h.feeds, f.Node)
	for name, pending := range h.unsubscribing {
		if pending.feed == f {
			delete(h.unsubscribing, name)
		}
	}
}

// evict takes a channel from its feed and begins the search for its place.
// mu is held.
func (h *Hub) unassign(name string, c *channel, to string) {
	f := c.feed
	f.channels--
	c.feed, c.subscribeSent, c.confirmed = nil, false, false
	c.movedTo, c.stale = to, to == ""
	c.failures++
	c.retryAt = time.Now()
	if c.failures > 1 {
		c.retryAt = c.retryAt.Add(Backoff(c.failures))
	}
	h.startRouting(name, c)
	h.closeIfUnused(f)
}

func (c *channel) refuse(err error) {
	for _, sub := range c.subs {
		if !sub.live {
			sub.report(err)
		}
	}
}

func (c *channel) hasLiveListener() bool {
	return slices.ContainsFunc(c.subs, func(s *subscription) bool { return s.live })
}

// settle tells Listen how it went. The first word counts: a subscription that
// is given up stays in place until its Listen has taken it out.
func (sub *subscription) report(err error) {
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
