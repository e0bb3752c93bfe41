package adapter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/pushes"
	"github.com/holdfast-go/holdfast/store"
)

// remindAfter is how often a listener is told that its subscription is missing.
const remindAfter = time.Second

// stopTimeout is how long stop waits for the server to confirm the end of a subscription.
const stopTimeout = time.Second

// Driver is how a store subscribes with its client library.
type Driver struct {
	// Session connects to f's node. It sends f.Changes whenever f.Wake receives, and calls f's
	// methods for what the node says, until the connection breaks or f.Context is done. It
	// reports whether the node has said anything.
	Session func(f *Feed) (worked bool, err error)

	// Nodes returns the node of each channel, "" for an unknown one. stale says that earlier
	// answers have proved wrong. Without Nodes there is one node, named "".
	Nodes func(ctx context.Context, channels []string, stale bool) ([]string, error)

	// WaitsToConnect makes Listen wait for a connection as long as it may. Otherwise Listen
	// fails with the first connection that cannot be made.
	WaitsToConnect bool

	// KeepsChannels says that the session does not unsubscribe: a channel without listeners
	// stays subscribed until the connection ends. If the feed needs it, the session replaces
	// that connection, see [Feed.NeedsReplacement].
	KeepsChannels bool
}

// Hub knows who listens to which channel. It has a [Feed] for each node with a channel.
//
// If a channel moves to another node, or its node is lost, it is unrouted until its new node
// is known. Then its listeners' Look is called, as after any break.
type Hub struct {
	Driver Driver

	mu            lockorder.Mutex[Hub] // guards the fields below; no I/O and no callback while it is held
	channels      map[string]*channel
	unsubscribing map[string]*pendingUnsubscribe // channels to unsubscribe from, unless they get new listeners
	feeds         map[string]*Feed               // by node; each has channels, or unsubscribes that are awaited
	unrouted      map[string]*channel            // the channels without a feed
	router        *router                        // not nil while there are unrouted channels
	reminder      *time.Timer                    // calls remind; nil: there is nobody to remind
}

// channel is a channel with listeners.
type channel struct {
	subs          []*subscription // replaced, never changed in place: readers keep it without mu
	feed          *Feed           // nil: its node is not known
	subscribeSent bool            // SUBSCRIBE was sent on the present connection
	confirmed     bool            // the server has confirmed it

	// The fields below are about the search for its node.
	movedTo  string    // the node that a redirection named; may be empty
	stale    bool      // what was known of its node is wrong
	failures int       // in a row
	retryAt  time.Time // earliest time of the next try
	lastErr  error     // of the last failure
}

// pendingUnsubscribe is the end of a subscription to a channel without listeners.
type pendingUnsubscribe struct {
	feed *Feed
	sent bool          // UNSUBSCRIBE was sent
	done chan struct{} // closed when the server has confirmed; nil if nobody waits for that
}

// subscription is one call of Listen.
type subscription struct {
	*pushes.Listener
	awaited func() bool // nil: always
	outcome chan error  // gets one value: the result of Listen
	live    bool        // outcome was nil; guarded by Hub.mu
}

// Listen implements Listen of [store.Store]. stop returns when the server has confirmed the
// end of the subscription, so no grant is pushed to a listener that has stopped. It waits at
// most a second for a server that does not answer.
//
// If the session keeps channels, stop waits as long for the end of the connection.
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
	sub := &subscription{Listener: pushes.NewListener(l), awaited: l.Awaited, outcome: make(chan error, 1)}
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

// lastError is what keeps a channel from being subscribed, nil if nothing is known.
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
	case c.feed != nil: // requested already
	case h.Driver.Nodes == nil:
		h.assign(name, c, "")
	default:
		h.startRouting(name, c)
	}
}

// assign gives a channel to the feed of a node. mu is held.
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

// remove ends a subscription and waits until none of its functions runs. If it was the
// channel's last one, left is closed when the server has ended its subscription, or after
// stopTimeout. remove may be called again.
func (h *Hub) remove(name string, sub *subscription) (left <-chan struct{}) {
	h.mu.Lock()
	if c := h.channels[name]; c != nil {
		c.subs = slices.DeleteFunc(slices.Clone(c.subs), func(s *subscription) bool { return s == sub })
		if len(c.subs) == 0 {
			left = h.removeChannel(name, c)
		}
	}
	h.mu.Unlock()
	sub.End()
	return left
}

// removeChannel ends the subscription to a channel. mu is held.
func (h *Hub) removeChannel(name string, c *channel) (left <-chan struct{}) {
	delete(h.channels, name)
	if len(h.channels) == 0 && h.reminder != nil {
		h.reminder.Stop()
		h.reminder = nil
	}
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

// unsubscribe makes the feed unsubscribe from a channel. mu is held.
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

// endUnsubscribe removes a pending unsubscribe. mu is held.
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

// closeIfUnused ends a feed if its node has no channels and nobody waits for an unsubscribe.
// mu is held.
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

// unassign takes a channel from its feed and begins to look for its node. mu is held.
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
	h.remindLater()
	h.closeIfUnused(f)
}

// remindLater makes the hub remind listeners whose subscription has ended. mu is held.
func (h *Hub) remindLater() {
	if h.reminder == nil {
		h.reminder = time.AfterFunc(remindAfter, h.remind)
	}
}

// remind tells all listeners whose subscription is not restored yet, and does so again later. They must not rely on
// messages: the server may refuse the subscription for long, or every new connection.
func (h *Hub) remind() {
	h.mu.Lock()
	var missing []*subscription
	for _, c := range h.channels {
		for _, sub := range c.subs {
			if sub.live && !c.confirmed {
				missing = append(missing, sub)
			}
		}
	}
	if h.reminder = nil; len(missing) > 0 {
		h.remindLater()
	}
	h.mu.Unlock()
	for _, sub := range missing {
		sub.Look(false)
	}
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

// report gives Listen its result. The first one counts, because a subscription that was given
// up remains until its Listen has removed it.
func (sub *subscription) report(err error) {
	select {
	case sub.outcome <- err:
		sub.live = err == nil
	default:
	}
}
