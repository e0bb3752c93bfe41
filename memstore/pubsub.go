package memstore

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/store"
)

// subscription delivers messages to one Listener, one at a time and in order. It has its
// own goroutine, which ends with it.
type subscription struct {
	store.Listener
	queue []func()      // guarded by Store.mu
	wake  chan struct{} // a token when the queue may have work
	done  chan struct{} // closed by stop
	ended chan struct{} // closed by the goroutine
}

var deliverLabel = label.New("memstore")

// Listen subscribes to channel. When Listen returns, messages are delivered. While
// subscriptions are broken, none is delivered, and this one is resumed with the others.
func (s *Store) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	sub := &subscription{
		Listener: l,
		wake:     make(chan struct{}, 1),
		done:     make(chan struct{}),
		ended:    make(chan struct{}),
	}
	s.mu.Lock()
	s.listeners[channel] = append(s.listeners[channel], sub)
	s.mu.Unlock()
	go func() {
		deliverLabel.Set()
		s.deliver(sub)
	}()

	var once sync.Once
	return func() {
		once.Do(func() {
			s.mu.Lock()
			s.unlisten(channel, sub)
			s.mu.Unlock()
			close(sub.done)
		})
		<-sub.ended
	}, nil
}

func (s *Store) unlisten(channel string, sub *subscription) {
	rest := slices.DeleteFunc(s.listeners[channel], func(other *subscription) bool { return other == sub })
	if len(rest) == 0 {
		delete(s.listeners, channel)
		return
	}
	s.listeners[channel] = rest
}

// deliver calls what is queued, outside of the store's mutex.
func (s *Store) deliver(sub *subscription) {
	defer close(sub.ended)
	for {
		select {
		case <-sub.done:
			return
		case <-sub.wake:
		}
		s.mu.Lock()
		queue := sub.queue
		sub.queue = nil
		s.mu.Unlock()
		for _, call := range queue {
			select {
			case <-sub.done:
				return
			default:
				call()
			}
		}
	}
}

// enqueue needs mu.
func (sub *subscription) enqueue(call func()) {
	sub.queue = append(sub.queue, call)
	select {
	case sub.wake <- struct{}{}:
	default:
	}
}

// listening needs mu. It returns the number of listeners that would get a message.
func (s *Store) listening(channel string) int {
	if s.cut {
		return 0
	}
	return len(s.listeners[channel])
}

// publish needs mu. It returns the number of listeners that got the message. A dropped
// message counts, as on a network.
func (s *Store) publish(channel, payload string) int {
	heard := s.listening(channel)
	if heard == 0 {
		return 0
	}
	if s.drop != 0 {
		s.drop = max(s.drop-1, -1)
		return heard
	}
	for _, sub := range s.listeners[channel] {
		if sub.Message != nil {
			sub.enqueue(func() { sub.Message(payload) })
		}
	}
	return heard
}

// Publish sends a message, as any program with access to the server could, and returns the
// number of listeners that got it.
func (s *Store) Publish(channel, payload string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.publish(channel, payload)
}
