package neighbour

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// subscribing is how long a subscription may take.
	subscribing = 5 * time.Second
	// subscribeAgain is the pause after a failed one.
	subscribeAgain = time.Second
	// linger is how long a subscription outlives its last waiter. Without it, a contended lock
	// would subscribe again for each wait.
	linger = 10 * time.Second
)

// listen subscribes to one channel of the neighbour.
func (s *Store) listen(ctx context.Context, channel string, look func()) (stop func(), err error) {
	return s.inner.Listen(ctx, channel, store.Listener{
		Message: func(payload string) { s.wakeAll(s.channels.Waiters(channel), payload) },
		Look:    func(bool) { look() },
		Awaited: func() bool { return len(s.channels.Waiters(channel)) > 0 },
	})
}

// joinReady makes the attempt wait on its channel, if the subscription stands already. Do this
// before the request that finds the lock held: the message may come before the answer.
func (s *Store) joinReady(e *entry) bool {
	channel := s.wire.Channel(e.Attempt)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.channels.Standing(channel, e, func() *entry { return e }); !ok {
		return false
	}
	s.moveTo(e, channel)
	return true
}

// subscribe makes the attempt wait on its channel, and waits until the subscription is
// confirmed. It returns false if that fails or takes longer than ctx. Then the attempt is told
// when the subscription stands after all, and must poll until then.
func (s *Store) subscribe(ctx context.Context, e *entry) bool {
	channel := s.wire.Channel(e.Attempt)
	if channel == "" {
		return false
	}
	s.mu.Lock()
	s.channels.Join(channel, e, e)
	s.moveTo(e, channel)
	s.mu.Unlock()
	limit := subscribing
	if at, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(at)/2) // the other half is for the request behind it
	}
	if limit <= 0 {
		return false // Done of ctx need not follow its deadline
	}
	brief, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return s.channels.Subscribe(brief, channel) == nil
}

// moveTo notes the channel on which an attempt waits; empty: on none. mu is held.
func (s *Store) moveTo(e *entry, channel string) {
	if e.waitsOn != channel {
		s.channels.Leave(e.waitsOn, e)
		e.waitsOn = channel
	}
}

// leave ends the wait of an attempt. mu is held.
func (s *Store) leave(e *entry) { s.moveTo(e, "") }

// push is one push to a client of this process.
type push struct{ channel, payload string }

// wakeAll tells attempts that wait on a channel to look again. payload is what the neighbour said;
// empty: messages may have been missed.
func (s *Store) wakeAll(waiters []*entry, payload string) {
	limit := len(waiters)
	if w, ok := s.wire.(Waker); ok && payload != "" {
		limit = min(limit, w.Wakes(payload))
	}
	s.mu.Lock()
	pushes := make([]push, 0, limit)
	for _, e := range waiters {
		switch {
		case e.waitsOn == "": // it has left meanwhile
		case e.ID == "": // it only watches the lock
			pushes = append(pushes, push{e.channel, "sooner"})
		case limit > 0:
			limit--
			pushes = append(pushes, push{e.channel, lookAgain(e.ID)})
		}
	}
	s.mu.Unlock()
	for _, p := range pushes {
		s.deliver(p)
	}
}

// Waker is a [Wire] whose messages say how many waiters may succeed. It is optional: without
// it a message wakes all waiters of this process.
type Waker interface {
	Wire
	// Wakes returns how many waiters of this process should look again after the message.
	Wakes(payload string) int
}

// errNoChannel refuses a subscription without a channel.
var errNoChannel = errors.New("neighbour: no channel")

// Listen implements [store.Store]. The library's own channels do not leave this process: what
// comes on them is made of the neighbour's messages.
func (s *Store) Listen(ctx context.Context, channel string, l store.Listener) (stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if channel == "" {
		return nil, errNoChannel
	}
	_, remove := s.listeners.Add(channel, l)
	unwatch := s.watch(channel)
	return func() {
		unwatch()
		remove()
	}, nil
}

// deliver gives a push to the listeners of its channel.
func (s *Store) deliver(p push) {
	for _, l := range s.listeners.On(p.channel) {
		l.Message(p.payload)
	}
}
