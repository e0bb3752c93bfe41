package adapter

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/slot"
)

// Feed receives what one node pushes, from the first channel's coming to the
// last one's going, over one connection at a time.
type Feed struct {
	Node    string
	Context context.Context // done when the last channel has gone
	Wake    chan struct{}   // has room for one: there may be changes

	hub    *Hub
	cancel context.CancelFunc

	// Guarded by hub.mu.
	channels            int            // channels
	awaitedUnsubscribes int            // farewells that somebody waits for
	toSubscribe         []string       // to be subscribed to, if they are still here
	toUnsubscribe       []string       // to be unsubscribed from, if they did not come back
	unsubscribesSent    map[string]int // confirmations of UNSUBSCRIBE to come on this connection

	// kept is the channels that are subscribed to on this connection though nobody
	// listens to them any more; only where the session keeps channels. Each is closed
	// when that is over.
	kept map[string]chan struct{}
}

// burden is to how many listeners of a Cluster's node another connection may be
// worth a channel that nobody listens to: each of them asks the node then.
const listenersPerKept = 8

func startFeed(h *Hub, node string) *Feed {
	f := &Feed{Node: node, Wake: make(chan struct{}, 1), hub: h, kept: make(map[string]chan struct{})}
	f.Context, f.cancel = context.WithCancel(context.Background())
	go f.run()
	return f
}

// poke says that there may be changes.
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
		if worked {
			failures = 0
		}
		f.disconnected(worked, err)
		failures++
		timer := time.NewTimer(Backoff(failures))
		select {
		case <-timer.C:
		case <-f.Context.Done():
			timer.Stop()
		}
	}
}

// Changes returns what to tell the node: channels that came and channels that
// went.
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
			h.endUnsubscribe(name) // it came back
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

// disconnected forgets what was asked and confirmed on a connection that is
// no more. Where there is one node, those who still wait for their first
// confirmation are told why if it never worked; the others wait for the next
// connection. Where there are several the channels may live elsewhere by now.
func (f *Feed) disconnected(worked bool, err error) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
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
	}
	for name, pending := range h.unsubscribing {
		if pending.feed == f {
			h.endUnsubscribe(name)
		}
	}
	h.closeIfUnused(f)
}

// Refused is told that the node refused to subscribe to a channel; name is
// empty if it does not say which. It reports whether somebody who had listened
// before is now without a subscription: then the session is to end.
func (f *Feed) SubscribeRefused(name string, err error) (liveListener bool) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	refuse := func(c *channel) {
		if c != nil && c.feed == f && c.subscribeSent && !c.confirmed {
			c.refuse(err)
			liveListener = liveListener || c.hasLiveListener()
		}
	}
	if name != "" {
		refuse(h.channels[name])
		return liveListener
	}
	for _, c := range h.channels {
		refuse(c)
	}
	return liveListener
}

// Moved is told that a channel which was asked for lives at the node to; name
// is empty if only its slot is known.
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

// Confirmed is told that the node has confirmed a subscription.
func (f *Feed) Confirmed(name string) {
	h := f.hub
	h.mu.Lock()
	c := h.channels[name]
	if c == nil || c.feed != f || !c.subscribeSent {
		h.mu.Unlock()
		return
	}
	c.confirmed, c.failures, c.lastErr = true, 0, nil
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
		sub.call(sub.listener.Resumed)
	}
}

// Ended is told that the node has ended a subscription: because it was asked
// to, or of its own accord, when the channel's slot has moved.
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
		h.endUnsubscribe(name) // before we could ask for it
		return
	}
	if c := h.channels[name]; c != nil && c.feed == f && c.subscribeSent && h.Driver.Nodes != nil {
		h.unassign(name, c, "")
	}
}

// Kept is told that the node refuses to end subscriptions: nobody has to wait
// for that any more. It goes on pushing to us, and nobody listens.
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

// keep leaves a channel subscribed to that nobody listens to any more. left is
// closed when that is over; nil if it may last. hub.mu is held.
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

// let ends what keep began, if it has. hub.mu is held.
func (f *Feed) endKept(name string) (kept bool) {
	left, kept := f.kept[name]
	if kept {
		delete(f.kept, name)
		close(left)
	}
	return kept
}

// Worn reports that the session should put another connection in the place of the
// present one, which is subscribed to what nobody listens to. The server counts us
// among those who hear it, and may push a grant that nobody takes.
//
// On one server such a channel is that of a client that was closed, and there are
// few. In a Cluster it is that of one lock. There a connection keeps some of them:
// grants on it are for waiters that could not cancel, and last as long as any that
// nobody confirms.
func (f *Feed) NeedsReplacement() bool {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	return f.needsReplacement()
}

func (f *Feed) needsReplacement() bool {
	return len(f.kept) > 0 && (f.hub.Driver.Nodes == nil || len(f.kept)*listenersPerKept >= f.channels)
}

// Subscribed returns the channels that another connection must be subscribed to
// before it may take the place of the present one.
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

// Replaced is told that a connection which is subscribed to names has taken the
// place of the one before, which is closed. What was pushed in between is lost.
func (f *Feed) Replaced(names []string) {
	still := make(map[string]bool, len(names))
	for _, name := range names {
		still[name] = true
	}
	h := f.hub
	h.mu.Lock()
	for name := range f.kept {
		if !still[name] { // else it has gone meanwhile, and is kept again
			f.endKept(name)
		}
	}
	h.mu.Unlock()
	for _, name := range names {
		f.Confirmed(name)
	}
}

// Sample returns a channel that the node has confirmed, "" if there is none.
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

// Listens reports whether the node has confirmed the channel.
func (f *Feed) HasConfirmed(name string) bool {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.channels[name]
	return c != nil && c.feed == f && c.confirmed
}

// Deliver hands a message to those who listen. Those who still wait for the
// confirmation do not yet: it may be from an earlier subscription.
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
		if sub.listener.Message != nil {
			sub.call(func() { sub.listener.Message(payload) })
		}
	}
}
