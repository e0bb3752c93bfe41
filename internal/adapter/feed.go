package adapter

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/slot"
)

// Feed receives what one node pushes, over one connection at a time. It lasts while the node
// has channels that somebody listens to.
type Feed struct {
	Node    string
	Context context.Context // done when the last channel is gone
	Wake    chan struct{}   // buffers one signal: the subscriptions may have changed

	hub    *Hub
	cancel context.CancelFunc

	// Guarded by hub.mu.
	channels            int            // channels
	awaitedUnsubscribes int            // unsubscribes that somebody waits for
	toSubscribe         []string       // if they still have listeners
	toUnsubscribe       []string       // if they have no new listeners
	unsubscribesSent    map[string]int // how many confirmations of UNSUBSCRIBE are to come on this connection
	restored            bool           // a channel was confirmed on this connection

	// kept has the channels that stay subscribed on this connection without listeners, if the
	// driver keeps channels. Each is closed when its subscription ends.
	kept map[string]chan struct{}
}

// listenersPerKept is how many listeners of a Cluster's node justify one kept channel: after a
// new connection each of them polls the node.
const listenersPerKept = 8

var feedLabel = label.New("subscription")

func startFeed(h *Hub, node string) *Feed {
	f := &Feed{Node: node, Wake: make(chan struct{}, 1), hub: h, kept: make(map[string]chan struct{})}
	f.Context, f.cancel = context.WithCancel(context.Background())
	go func() {
		feedLabel.Set()
		f.run()
	}()
	return f
}

// wake says that the subscriptions may have changed.
func (f *Feed) wake() {
	select {
	case f.Wake <- struct{}{}:
	default:
	}
}

// run keeps the feed connected until it is cancelled.
func (f *Feed) run() {
	failures := 0
	for f.Context.Err() == nil {
		worked, err := f.hub.Driver.Session(f)
		if f.disconnected(worked, err) {
			failures = 0
		}
		failures++
		timer := time.NewTimer(Backoff(failures))
		select {
		case <-timer.C:
		case <-f.Context.Done():
			timer.Stop()
		}
	}
}

// Changes returns which channels to subscribe to, and which to unsubscribe from.
func (f *Feed) Changes() (subscribe, unsubscribe []string) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range f.toSubscribe {
		if c := h.channels[name]; c != nil && c.feed == f && !c.subscribeSent {
			c.subscribeSent = true
			f.endKept(name)
			subscribe = append(subscribe, name)
		}
	}
	for _, name := range f.toUnsubscribe {
		pending, c := h.unsubscribing[name], h.channels[name]
		switch {
		case pending == nil || pending.feed != f || pending.sent:
		case c != nil && c.feed == f:
			h.endUnsubscribe(name) // it has a listener again
		default:
			pending.sent = true
			if f.unsubscribesSent == nil {
				f.unsubscribesSent = make(map[string]int)
			}
			f.unsubscribesSent[name]++
			unsubscribe = append(unsubscribe, name)
		}
	}
	f.toSubscribe, f.toUnsubscribe = nil, nil
	return subscribe, unsubscribe
}

// disconnected forgets what was sent and confirmed on a broken connection. With one node,
// listeners that wait for their first confirmation get err if the connection never worked; the
// others wait for the next connection. With several nodes the channels may belong to other
// nodes by now.
//
// It reports whether the connection has restored a subscription.
func (f *Feed) disconnected(worked bool, err error) (restored bool) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	restored, f.restored = f.restored, false
	f.unsubscribesSent, f.toUnsubscribe = nil, nil
	for name := range f.kept {
		f.endKept(name)
	}
	for name, c := range h.channels {
		if c.feed != f {
			continue
		}
		c.lastErr = err
		if !worked && !h.Driver.WaitsToConnect {
			c.refuse(err)
		}
		if h.Driver.Nodes != nil {
			h.unassign(name, c, "")
			continue
		}
		c.subscribeSent, c.confirmed = false, false
		f.toSubscribe = append(f.toSubscribe, name)
		h.remindLater()
	}
	for name, pending := range h.unsubscribing {
		if pending.feed == f {
			h.endUnsubscribe(name)
		}
	}
	h.closeIfUnused(f)
	return restored
}

// SubscribeRefused records that the node refused to subscribe to a channel; name is empty if
// the answer names none. It reports whether a listener that was subscribed before has no
// subscription now. Then the session must end.
func (f *Feed) SubscribeRefused(name string, err error) (liveListener bool) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	refuse := func(c *channel) (refused bool) {
		if c == nil || c.feed != f || !c.subscribeSent || c.confirmed {
			return false
		}
		c.refuse(err)
		liveListener = liveListener || c.hasLiveListener()
		return true
	}
	if name != "" {
		if c := h.channels[name]; refuse(c) && !liveListener {
			// The server has no such subscription, so none has to end. The next listener
			// asks again.
			f.channels--
			c.feed, c.subscribeSent = nil, false
			h.closeIfUnused(f)
		}
		return liveListener
	}
	for _, c := range h.channels {
		refuse(c)
	}
	return liveListener
}

// Moved records that a requested channel belongs to the node to; name is empty if only its
// slot is known.
func (f *Feed) Moved(name string, n int, to string) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if name != "" {
		if c := h.channels[name]; c != nil && c.feed == f {
			h.unassign(name, c, to)
		}
		return
	}
	for name, c := range h.channels {
		if c.feed == f && c.subscribeSent && !c.confirmed && slot.Of(name) == n {
			h.unassign(name, c, to)
		}
	}
}

// Confirmed records that the node has confirmed a subscription.
func (f *Feed) Confirmed(name string) {
	h := f.hub
	h.mu.Lock()
	c := h.channels[name]
	if c == nil || c.feed != f || !c.subscribeSent {
		h.mu.Unlock()
		return
	}
	c.confirmed, c.failures, c.lastErr, f.restored = true, 0, nil, true
	var resumed []*subscription
	for _, sub := range c.subs {
		if sub.live {
			resumed = append(resumed, sub)
		} else {
			sub.report(nil)
		}
	}
	h.mu.Unlock()
	for _, sub := range resumed {
		sub.Look(true)
	}
}

// Unsubscribed records that the node has ended a subscription: by request, or of its own
// accord when the channel's slot has moved.
func (f *Feed) Unsubscribed(name string) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.endKept(name) {
		return
	}
	if f.unsubscribesSent[name] > 0 {
		if f.unsubscribesSent[name]--; f.unsubscribesSent[name] == 0 {
			delete(f.unsubscribesSent, name)
		}
		if pending := h.unsubscribing[name]; pending != nil && pending.feed == f && pending.sent {
			h.endUnsubscribe(name)
		}
		return
	}
	if pending := h.unsubscribing[name]; pending != nil && pending.feed == f {
		h.endUnsubscribe(name) // before UNSUBSCRIBE was sent
		return
	}
	if c := h.channels[name]; c != nil && c.feed == f && c.subscribeSent && h.Driver.Nodes != nil {
		h.unassign(name, c, "")
	}
}

// UnsubscribeRefused records that the node refuses to end subscriptions, so nobody waits for
// that any more. The node goes on pushing, and nobody listens.
func (f *Feed) UnsubscribeRefused() {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, pending := range h.unsubscribing {
		if pending.feed == f && pending.sent {
			delete(f.unsubscribesSent, name)
			h.endUnsubscribe(name)
		}
	}
}

// keepSubscribed leaves a channel without listeners subscribed. The result is closed when that
// ends; nil if it may last. hub.mu is held.
func (f *Feed) keepSubscribed(name string) (left <-chan struct{}) {
	if f.kept[name] == nil {
		f.kept[name] = make(chan struct{})
	}
	f.wake()
	if f.channels > 0 && !f.needsReplacement() {
		return nil
	}
	return f.kept[name]
}

// endKept ends what keepSubscribed began, if it has. hub.mu is held.
func (f *Feed) endKept(name string) (kept bool) {
	left, kept := f.kept[name]
	if kept {
		delete(f.kept, name)
		close(left)
	}
	return kept
}

// NeedsReplacement reports whether the session should replace its connection, which is
// subscribed to channels without listeners. The server counts those subscriptions, and may
// push a grant that nobody takes.
//
// On one server such a channel belongs to a closed client, so there are few. In a Cluster it
// belongs to one lock, and a connection may keep some. Grants on them are for waiters that
// could not cancel, and last as long as any unconfirmed grant.
func (f *Feed) NeedsReplacement() bool {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	return f.needsReplacement()
}

func (f *Feed) needsReplacement() bool {
	return len(f.kept) > 0 && (f.hub.Driver.Nodes == nil || len(f.kept)*listenersPerKept >= f.channels)
}

// Subscribed returns the channels that another connection must be subscribed to before it may
// replace the present one.
func (f *Feed) Subscribed() (names []string) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, c := range h.channels {
		if c.feed == f && c.subscribeSent {
			names = append(names, name)
		}
	}
	return names
}

// Replaced records that a connection subscribed to names has replaced the one before, which is
// closed. Pushes in between are lost.
func (f *Feed) Replaced(names []string) {
	still := make(map[string]bool, len(names))
	for _, name := range names {
		still[name] = true
	}
	h := f.hub
	h.mu.Lock()
	for name := range f.kept {
		if !still[name] { // else it was dropped meanwhile, and is kept again
			f.endKept(name)
		}
	}
	h.mu.Unlock()
	for _, name := range names {
		f.Confirmed(name)
	}
}

// ConfirmedChannel returns a channel that the node has confirmed, "" if there is none.
func (f *Feed) ConfirmedChannel() string {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, c := range h.channels {
		if c.feed == f && c.confirmed {
			return name
		}
	}
	return ""
}

// HasConfirmed reports whether the node has confirmed the channel.
func (f *Feed) HasConfirmed(name string) bool {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.channels[name]
	return c != nil && c.feed == f && c.confirmed
}

// Awaited reports whether a listener waits for a message now.
func (f *Feed) Awaited() bool {
	h := f.hub
	h.mu.Lock()
	var asked []func() bool
	for _, c := range h.channels {
		if c.feed != f {
			continue
		}
		for _, sub := range c.subs {
			if sub.awaited == nil {
				h.mu.Unlock()
				return true
			}
			asked = append(asked, sub.awaited)
		}
	}
	h.mu.Unlock()
	return slices.ContainsFunc(asked, func(awaited func() bool) bool { return awaited() })
}

// Deliver passes a message to the listeners. It leaves out those whose subscription is not
// confirmed yet: the message may belong to an earlier one.
func (f *Feed) Deliver(name, payload string) {
	h := f.hub
	h.mu.Lock()
	var subs []*subscription
	if c := h.channels[name]; c != nil {
		subs = c.subs
		unconfirmed := func(sub *subscription) bool { return !sub.live }
		if slices.ContainsFunc(subs, unconfirmed) {
			subs = slices.DeleteFunc(slices.Clone(subs), unconfirmed)
		}
	}
	h.mu.Unlock()
	for _, sub := range subs {
		sub.Message(payload)
	}
}
