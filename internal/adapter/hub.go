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
const grace = time.Second

// Wire is how a store subscribes with its client library.
type Wire struct {
	// Session connects to f's node, says f.Changes to it whenever f.Wake
	// receives, and tells f what the node says, until the connection breaks
	// or f.Context is done. It reports whether the node has said anything.
	Session func(f *Feed) (worked bool, err error)

	// Place names the node of each channel, "" for one that nobody knows.
	// stale says that what was known before has proved wrong. Without Place
	// there is one node, named "".
	Place func(ctx context.Context, channels []string, stale bool) ([]string, error)

	// Patient makes Listen wait for a connection as long as it may, instead of
	// failing with the first that cannot be made.
	Patient bool

	// Keeps says that the session does not unsubscribe: a channel that nobody
	// listens to any more stays subscribed to until the connection ends. When
	// the feed is worn the session puts another connection in the place of that
	// one, see [Feed.Worn].
	Keeps bool
}

// Hub knows who listens to what, and has a [Feed] for each node that somebody
// listens at.
//
// A channel that moves to another node, or whose node is lost, is without a
// home until its new place is known; who listens to it then is told that the
// subscription stands again, like after any break.
type Hub struct {
	Wire Wire

	mu       sync.Mutex // guards what follows; no I/O and no callback while it is held
	channels map[string]*channel
	gone     map[string]*farewell // channels to unsubscribe from, unless they come back
	feeds    map[string]*Feed     // by node. Invariant: each has channels, or farewells that somebody waits for
	homeless map[string]*channel  // Invariant: the channels without a feed
	placer   *placer              // Invariant: not nil while there are homeless channels
}

// channel is one that somebody listens to.
type channel struct {
	subs      []*subscription // replaced, never changed in place: readers keep it without mu
	feed      *Feed           // nil: its place is not known
	asked     bool            // SUBSCRIBE was sent on the present connection
	confirmed bool            // and the server has confirmed it

	// What follows is about the search for its place.
	hint     string    // where it is said to be; may be empty
	stale    bool      // what was known of its place is wrong
	failures int       // in a row
	due      time.Time // of the next try
	why      error     // of the last failure
}

// farewell is a channel that nobody listens to any more.
type farewell struct {
	feed *Feed
	told bool          // UNSUBSCRIBE was sent
	left chan struct{} // closed when the server has let go; nil if nobody waits for that
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
		if why := h.why(name); why != nil {
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
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case <-left:
		case <-late.C:
		}
	}, nil
}

// why is what keeps a channel from being subscribed, nil if nothing is known.
func (h *Hub) why(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.channels[name]; c != nil && !c.confirmed {
		return c.why
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
		sub.settle(nil)
	case c.feed != nil: // asked for already
	case h.Wire.Place == nil:
		h.house(name, c, "")
	default:
		h.seek(name, c)
	}
}

// house gives a channel to the feed of a node. mu is held.
func (h *Hub) house(name string, c *channel, node string) {
	f := h.feeds[node]
	if f == nil {
		if h.feeds == nil {
			h.feeds = make(map[string]*Feed)
		}
		f = startFeed(h, node)
		h.feeds[node] = f
	}
	delete(h.homeless, name)
	c.feed, c.asked, c.confirmed = f, false, false
	c.hint, c.stale = "", false
	f.uses++
	f.came = append(f.came, name)
	f.poke()
}

// remove ends a subscription and waits until none of its functions runs.
// If it was the channel's last, left is closed when the server has let go, or
// after a grace. remove may be called again.
func (h *Hub) remove(name string, sub *subscription) (left <-chan struct{}) {
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
func (h *Hub) drop(name string, c *channel) (left <-chan struct{}) {
	delete(h.channels, name)
	f := c.feed
	if f == nil {
		h.found(name)
		return nil
	}
	f.uses--
	h.forget(name)
	switch {
	case !c.asked:
	case h.Wire.Keeps:
		left = f.keep(name)
	default:
		left = h.bid(name, c)
	}
	h.rest(f)
	return left
}

// bid has the feed unsubscribe from a channel. mu is held.
func (h *Hub) bid(name string, c *channel) (left <-chan struct{}) {
	f := c.feed
	bye := &farewell{feed: f}
	if c.confirmed {
		bye.left = make(chan struct{})
		time.AfterFunc(grace, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.gone[name] == bye {
				h.forget(name)
			}
		})
	}
	if h.gone == nil {
		h.gone = make(map[string]*farewell)
	}
	h.gone[name] = bye
	if bye.left != nil {
		f.byes++
	}
	f.went = append(f.went, name)
	f.poke()
	return bye.left
}

// forget ends a farewell. mu is held.
func (h *Hub) forget(name string) {
	bye := h.gone[name]
	if bye == nil {
		return
	}
	delete(h.gone, name)
	if bye.left != nil {
		close(bye.left)
		bye.feed.byes--
	}
	h.rest(bye.feed)
}

// rest ends a feed if there is nothing to listen to at its node and nobody
// waits for a farewell. mu is held.
func (h *Hub) rest(f *Feed) {
	if f.uses > 0 || f.byes > 0 || h.feeds[f.Node] != f {
		return
	}
	f.cancel()
	delete(h.feeds, f.Node)
	for name, bye := range h.gone {
		if bye.feed == f {
			delete(h.gone, name)
		}
	}
}

// evict takes a channel from its feed and begins the search for its place.
// mu is held.
func (h *Hub) evict(name string, c *channel, to string) {
	f := c.feed
	f.uses--
	c.feed, c.asked, c.confirmed = nil, false, false
	c.hint, c.stale = to, to == ""
	c.failures++
	c.due = time.Now()
	if c.failures > 1 {
		c.due = c.due.Add(Backoff(c.failures))
	}
	h.seek(name, c)
	h.rest(f)
}

func (c *channel) refuse(err error) {
	for _, sub := range c.subs {
		if !sub.live {
			sub.settle(err)
		}
	}
}

func (c *channel) bereft() bool {
	return slices.ContainsFunc(c.subs, func(s *subscription) bool { return s.live })
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
