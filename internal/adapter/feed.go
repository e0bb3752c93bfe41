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
	uses int            // channels
	byes int            // farewells that somebody waits for
	came []string       // to be subscribed to, if they are still here
	went []string       // to be unsubscribed from, if they did not come back
	owed map[string]int // confirmations of UNSUBSCRIBE to come on this connection

	// kept is the channels that are subscribed to on this connection though nobody
	// listens to them any more; only where the session keeps channels. Each is closed
	// when that is over.
	kept map[string]chan struct{}
}

// burden is to how many listeners of a Cluster's node another connection may be
// worth a channel that nobody listens to: each of them asks the node then.
const burden = 8

func startFeed(h *Hub, node string) *Feed {
	f := &Feed{Node: node, Wake: make(chan struct{}, 1), hub: h, kept: make(map[string]chan struct{})}
	f.Context, f.cancel = context.WithCancel(context.Background())
	go f.run()
	return f
}

// poke says that there may be changes.
func (f *Feed) poke() {
	select {
	case f.Wake <- struct{}{}:
	default:
	}
}

// run keeps the feed connected until it is cancelled.
func (f *Feed) run() {
	failures := 0
	for f.Context.Err() == nil {
		worked, err := f.hub.Wire.Session(f)
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
func (f *Feed) Changes() (came, went []string) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range f.came {
		if c := h.channels[name]; c != nil && c.feed == f && !c.asked {
			c.asked = true
			f.let(name)
			came = append(came, name)
		}
	}
	for _, name := range f.went {
		bye, c := h.gone[name], h.channels[name]
		switch {
		case bye == nil || bye.feed != f || bye.told:
		case c != nil && c.feed == f:
			h.forget(name) // it came back
		default:
			bye.told = true
			if f.owed == nil {
				f.owed = make(map[string]int)
			}
			f.owed[name]++
			went = append(went, name)
		}
	}
	f.came, f.went = nil, nil
	return came, went
}

// disconnected forgets what was asked and confirmed on a connection that is
// no more. Where there is one node, those who still wait for their first
// confirmation are told why if it never worked; the others wait for the next
// connection. Where there are several the channels may live elsewhere by now.
func (f *Feed) disconnected(worked bool, err error) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	f.owed, f.went = nil, nil
	for name := range f.kept {
		f.let(name)
	}
	for name, c := range h.channels {
		if c.feed != f {
			continue
		}
		c.why = err
		if !worked && !h.Wire.Patient {
			c.refuse(err)
		}
		if h.Wire.Place != nil {
			h.evict(name, c, "")
			continue
		}
		c.asked, c.confirmed = false, false
		f.came = append(f.came, name)
	}
	for name, bye := range h.gone {
		if bye.feed == f {
			h.forget(name)
		}
	}
	h.rest(f)
}

// Refused is told that the node refused to subscribe to a channel; name is
// empty if it does not say which. It reports whether somebody who had listened
// before is now without a subscription: then the session is to end.
func (f *Feed) Refused(name string, err error) (bereft bool) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	refuse := func(c *channel) {
		if c != nil && c.feed == f && c.asked && !c.confirmed {
			c.refuse(err)
			bereft = bereft || c.bereft()
		}
	}
	if name != "" {
		refuse(h.channels[name])
		return bereft
	}
	for _, c := range h.channels {
		refuse(c)
	}
	return bereft
}

// Moved is told that a channel which was asked for lives at the node to; name
// is empty if only its slot is known.
func (f *Feed) Moved(name string, n int, to string) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if name != "" {
		if c := h.channels[name]; c != nil && c.feed == f {
			h.evict(name, c, to)
		}
		return
	}
	for name, c := range h.channels {
		if c.feed == f && c.asked && !c.confirmed && slot.Of(name) == n {
			h.evict(name, c, to)
		}
	}
}

// Confirmed is told that the node has confirmed a subscription.
func (f *Feed) Confirmed(name string) {
	h := f.hub
	h.mu.Lock()
	c := h.channels[name]
	if c == nil || c.feed != f || !c.asked {
		h.mu.Unlock()
		return
	}
	c.confirmed, c.failures, c.why = true, 0, nil
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

// Ended is told that the node has ended a subscription: because it was asked
// to, or of its own accord, when the channel's slot has moved.
func (f *Feed) Ended(name string) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.let(name) {
		return
	}
	if f.owed[name] > 0 {
		if f.owed[name]--; f.owed[name] == 0 {
			delete(f.owed, name)
		}
		if bye := h.gone[name]; bye != nil && bye.feed == f && bye.told {
			h.forget(name)
		}
		return
	}
	if bye := h.gone[name]; bye != nil && bye.feed == f {
		h.forget(name) // before we could ask for it
		return
	}
	if c := h.channels[name]; c != nil && c.feed == f && c.asked && h.Wire.Place != nil {
		h.evict(name, c, "")
	}
}

// Kept is told that the node refuses to end subscriptions: nobody has to wait
// for that any more. It goes on pushing to us, and nobody listens.
func (f *Feed) Kept() {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, bye := range h.gone {
		if bye.feed == f && bye.told {
			delete(f.owed, name)
			h.forget(name)
		}
	}
}

// keep leaves a channel subscribed to that nobody listens to any more. left is
// closed when that is over; nil if it may last. hub.mu is held.
func (f *Feed) keep(name string) (left <-chan struct{}) {
	if f.kept[name] == nil {
		f.kept[name] = make(chan struct{})
	}
	f.poke()
	if f.uses > 0 && !f.worn() {
		return nil
	}
	return f.kept[name]
}

// let ends what keep began, if it has. hub.mu is held.
func (f *Feed) let(name string) (kept bool) {
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
func (f *Feed) Worn() bool {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	return f.worn()
}

func (f *Feed) worn() bool {
	return len(f.kept) > 0 && (f.hub.Wire.Place == nil || len(f.kept)*burden >= f.uses)
}

// Subscribed returns the channels that another connection must be subscribed to
// before it may take the place of the present one.
func (f *Feed) Subscribed() (names []string) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, c := range h.channels {
		if c.feed == f && c.asked {
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
			f.let(name)
		}
	}
	h.mu.Unlock()
	for _, name := range names {
		f.Confirmed(name)
	}
}

// Sample returns a channel that the node has confirmed, "" if there is none.
func (f *Feed) Sample() string {
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
func (f *Feed) Listens(name string) bool {
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
