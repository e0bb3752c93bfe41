package neighbour

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/store"
)

// topic is one channel of the neighbour on which attempts of this process wait. Its fields are
// guarded by Store.mu, but for ready.
type topic struct {
	channel string
	ready   chan struct{} // closed when the subscription is confirmed, or has failed
	err     error
	failed  time.Time // when it failed
	stop    func()
	waiters map[*entry]struct{}
	idle    *time.Timer // ends the subscription; nil while somebody waits
}

const (
	// subscribing is how long a subscription may take.
	subscribing = 5 * time.Second
	// subscribeAgain is the pause after a failed one.
	subscribeAgain = time.Second
	// linger is how long a subscription outlives its last waiter. Without it, a contended lock
	// would subscribe again for each wait.
	linger = 10 * time.Second
)

var subscribeLabel = label.New("neighbour: subscription")

// isReady reports whether a channel of pushes stands.
func (t *topic) isReady() bool {
	select {
	case <-t.ready:
		return t.err == nil
	default:
		return false
	}
}

// joinReady makes the attempt wait on its channel, if the subscription stands already. Do this
// before the request that finds the lock held: the message may come before the answer.
func (s *Store) joinReady(e *entry) bool {
	channel := s.wire.Channel(e.Attempt)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel]
	if t == nil || !t.isReady() {
		return false
	}
	s.joinTopic(e, t)
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
	t := s.topics[channel]
	if t != nil && t.err != nil && time.Since(t.failed) > subscribeAgain {
		t = nil
	}
	if t == nil {
		t = &topic{channel: channel, ready: make(chan struct{}), waiters: make(map[*entry]struct{})}
		s.topics[channel] = t
		go func() {
			subscribeLabel.Set()
			s.makeTopic(t)
		}()
	}
	s.joinTopic(e, t)
	s.mu.Unlock()
	// ctx may have a deadline that Done does not follow.
	limit := subscribing
	if at, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(at)/2) // the other half is for the request behind it
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-t.ready:
	case <-timer.C:
	case <-ctx.Done():
	}
	return t.isReady()
}

// makeTopic makes the subscription of a topic.
func (s *Store) makeTopic(t *topic) {
	ctx, cancel := context.WithTimeout(context.Background(), subscribing)
	defer cancel()
	stop, err := s.inner.Listen(ctx, t.channel, store.Listener{
		Message: func(payload string) { s.wakeAll(t, payload) },
		Resumed: func() { s.wakeAll(t, "") },
		Awaited: func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(t.waiters) > 0
		},
	})
	s.mu.Lock()
	t.stop, t.err, t.failed = stop, err, time.Now()
	if err == nil && len(t.waiters) == 0 {
		s.retireLater(t)
	}
	close(t.ready)
	s.mu.Unlock()
	if err == nil {
		s.wakeAll(t, "") // what was told before the subscription reached nobody
	}
}

// joinTopic makes the attempt wait on a topic. mu is held.
func (s *Store) joinTopic(e *entry, t *topic) {
	if e.topic != t {
		s.leaveTopic(e)
	}
	e.topic = t
	t.waiters[e] = struct{}{}
	if t.idle != nil {
		t.idle.Stop()
		t.idle = nil
	}
}

// leaveTopic ends the wait of an attempt. mu is held.
func (s *Store) leaveTopic(e *entry) {
	t := e.topic
	if t == nil {
		return
	}
	e.topic = nil
	delete(t.waiters, e)
	if len(t.waiters) == 0 && t.isReady() {
		s.retireLater(t)
	}
}

// retireLater ends the subscription of a topic when it has been idle for long enough. mu is
// held.
func (s *Store) retireLater(t *topic) {
	if t.idle == nil && s.topics[t.channel] == t {
		t.idle = time.AfterFunc(linger, func() { s.retire(t) })
	}
}

// retire ends the subscription of a topic for which nobody waits.
func (s *Store) retire(t *topic) {
	s.mu.Lock()
	idle := len(t.waiters) == 0 && t.isReady() && s.topics[t.channel] == t
	if idle {
		delete(s.topics, t.channel)
		if t.idle != nil {
			t.idle.Stop()
		}
	}
	s.mu.Unlock()
	if idle {
		t.stop()
	}
}

// endIdleTopics ends all subscriptions for which nobody waits.
func (s *Store) endIdleTopics() {
	s.mu.Lock()
	var idle []*topic
	for _, t := range s.topics {
		if len(t.waiters) == 0 && t.isReady() {
			idle = append(idle, t)
		}
	}
	s.mu.Unlock()
	var stopping sync.WaitGroup
	for _, t := range idle {
		stopping.Go(func() { s.retire(t) })
	}
	stopping.Wait()
}

// push is one push to a client of this process.
type push struct{ channel, payload string }

// wakeAll tells the attempts that wait on a topic to look again. payload is what the neighbour
// said; empty: messages may have been missed.
func (s *Store) wakeAll(t *topic, payload string) {
	s.mu.Lock()
	limit := len(t.waiters)
	if w, ok := s.wire.(Waker); ok && payload != "" {
		limit = min(limit, w.Wakes(payload))
	}
	pushes := make([]push, 0, limit)
	for e := range t.waiters {
		switch {
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

// listener is a subscription of the library to one of its own channels. Its functions run under
// mu and do not block: so they run one at a time, and none after the end.
type listener struct {
	store.Listener
	mu    lockorder.Mutex[listener]
	ended bool
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
	one := &listener{Listener: l}
	s.mu.Lock()
	s.listeners[channel] = append(s.listeners[channel], one)
	s.mu.Unlock()
	unwatch := s.watch(channel)
	return func() {
		unwatch()
		s.mu.Lock()
		var rest []*listener
		for _, other := range s.listeners[channel] {
			if other != one {
				rest = append(rest, other)
			}
		}
		if s.listeners[channel] = rest; len(rest) == 0 {
			delete(s.listeners, channel)
		}
		s.mu.Unlock()
		one.mu.Lock()
		one.ended = true
		one.mu.Unlock()
	}, nil
}

// deliver gives a push to the listeners of its channel.
func (s *Store) deliver(p push) {
	s.mu.Lock()
	list := append([]*listener(nil), s.listeners[p.channel]...)
	s.mu.Unlock()
	for _, l := range list {
		l.mu.Lock()
		if !l.ended && l.Message != nil {
			l.Message(p.payload)
		}
		l.mu.Unlock()
	}
}
