package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// ear is one subscription of the client: to every node, with the grants of
// single nodes taken out and those of majorities put in.
type ear struct {
	s       *Store
	channel string
	l       store.Listener
	life    context.Context
	end     context.CancelFunc
	work    sync.WaitGroup

	// mu is held while a function of l runs, which must not block: so they
	// run one at a time, and none once closed is set.
	mu     sync.Mutex
	closed bool
}

// Listen implements [store.Store]. It returns when a majority of the nodes
// has confirmed, and the others have failed or had time to; those are tried
// again until they confirm, which Resumed tells.
func (s *Store) Listen(ctx context.Context, channel string, l store.Listener) (stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	e := &ear{s: s, channel: channel, l: l}
	e.life, e.end = context.WithCancel(s.life.Context())
	limit := s.limit(ctx, 0)
	first := make(chan result, len(s.nodes))
	for i := range s.nodes {
		e.work.Go(func() { e.attach(i, limit, first) })
	}
	s.mu.Lock()
	s.ears[channel] = append(s.ears[channel], e)
	s.mu.Unlock()
	failed := make(map[int]error)
	for range s.nodes {
		select {
		case r := <-first:
			if r.err != nil {
				failed[r.i] = r.err
			}
		case <-ctx.Done():
			e.close()
			return nil, ctx.Err()
		}
	}
	if len(failed) > len(s.nodes)-s.majority {
		e.close()
		return nil, s.short(failed)
	}
	return e.close, nil
}

// attach keeps the subscription to one node until the ear closes. first is told
// how the first try ended.
func (e *ear) attach(i int, limit time.Duration, first chan<- result) {
	n := e.s.nodes[i]
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(e.life, limit)
		stop, err := n.Listen(ctx, e.channel, store.Listener{
			Message: func(payload string) {
				if !e.s.pushed(i, payload) {
					e.message(payload) // not ours to judge
				}
			},
			Resumed: e.resumed,
		})
		cancel()
		if try == 0 {
			first <- result{i, err}
		}
		if err == nil {
			if try > 0 {
				e.resumed()
			}
			<-e.life.Done()
			stop()
			return
		}
		timer := time.NewTimer(backoff.Default.After(try+3, 1))
		select {
		case <-timer.C:
		case <-e.life.Done():
			timer.Stop()
			return
		}
	}
}

// close ends the subscription, and returns when none of its functions runs any
// more.
func (e *ear) close() {
	s := e.s
	s.mu.Lock()
	var rest []*ear
	for _, other := range s.ears[e.channel] {
		if other != e {
			rest = append(rest, other)
		}
	}
	if s.ears[e.channel] = rest; len(rest) == 0 {
		delete(s.ears, e.channel)
	}
	s.mu.Unlock()
	e.end()
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.work.Wait()
}

func (e *ear) message(payload string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed && e.l.Message != nil {
		e.l.Message(payload)
	}
}

func (e *ear) resumed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed && e.l.Resumed != nil {
		e.l.Resumed()
	}
}

// listeners are those of a channel.
func (s *Store) listeners(channel string) []*ear {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*ear(nil), s.ears[channel]...)
}

// nudge makes all clients look: a node that orders some of their waiters has
// stopped to answer.
func (s *Store) nudge() {
	s.mu.Lock()
	var all []*ear
	for _, list := range s.ears {
		all = append(all, list...)
	}
	s.mu.Unlock()
	for _, e := range all {
		e.resumed()
	}
}
