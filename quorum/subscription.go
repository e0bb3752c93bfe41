package quorum

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/store"
)

// A client listens on one channel, and the store listens on that channel at each server. Example:
// server 3 pushes "granted c/7.6 4711 0". That is one server's grant, under an identity that the
// client does not know. handlePush takes it out. When a majority has granted and has the token, the
// acquisition pushes "granted c/7 4712 0" to the client. Other pushes pass unchanged.

// subscription is one subscription of the client, at every node. Grants of single nodes are
// taken out of it, and grants of majorities put in.
type subscription struct {
	s        *Store
	channel  string
	listener store.Listener
	life     context.Context
	end      context.CancelFunc
	work     sync.WaitGroup

	// The listener's functions run under mu and must not block: so they run one at a time, and
	// none once closed is set.
	mu     lockorder.Mutex[subscription]
	closed bool
}

// Listen implements [store.Store]. It returns when a majority has confirmed, and the other
// nodes have failed or had time to answer. Those are tried again until they confirm, which
// Resumed reports.
func (s *Store) Listen(ctx context.Context, channel string, l store.Listener) (stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	sub := &subscription{s: s, channel: channel, listener: l}
	sub.life, sub.end = context.WithCancel(s.life.Context())
	timeout := s.requestTimeout(ctx, 0)
	first := make(chan result, len(s.nodes))
	for i := range s.nodes {
		sub.work.Go(func() {
			subscribeLabel.Set()
			sub.keepSubscribed(i, timeout, first)
		})
	}
	s.mu.Lock()
	s.subscriptions[channel] = append(s.subscriptions[channel], sub)
	s.mu.Unlock()
	// The subscription can be found before a node has confirmed: a push may come at any time from now.
	failed := make(map[int]error)
	for range s.nodes {
		select {
		case r := <-first:
			if r.err != nil {
				failed[r.i] = r.err
			}
		case <-ctx.Done():
			sub.close()
			return nil, ctx.Err()
		}
	}
	if len(failed) > len(s.nodes)-s.majority {
		sub.close()
		return nil, s.noMajority(failed)
	}
	return sub.close, nil
}

// keepSubscribed keeps the subscription to one node until it is closed. first receives the
// result of the first try.
//
// A push that was sent while a node was not subscribed is lost. So when a later try succeeds, the
// client is told to poll, as after any interruption.
func (sub *subscription) keepSubscribed(i int, timeout time.Duration, first chan<- result) {
	n := sub.s.nodes[i]
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(sub.life, timeout)
		stop, err := n.Listen(ctx, sub.channel, store.Listener{
			Message: func(payload string) {
				if !sub.s.handlePush(i, payload) {
					sub.message(payload) // not a push of a grant
				}
			},
			Resumed: sub.resumed,
			Awaited: sub.listener.Awaited,
		})
		cancel()
		if try == 0 {
			first <- result{i, err}
		}
		if err == nil {
			if try > 0 {
				sub.resumed()
			}
			<-sub.life.Done()
			stop()
			return
		}
		// The first pauses are left out: a node that just refused a subscription is not asked at once.
		timer := time.NewTimer(backoff.Default.After(try+3, 1))
		select {
		case <-timer.C:
		case <-sub.life.Done():
			timer.Stop()
			return
		}
	}
}

// close ends the subscription. It returns when none of the listener's functions runs any more.
//
// The order matters. First nobody finds the subscription any more, and its goroutines are told to
// end. Then closed is set under mu: a function that runs just now is waited for, and none runs
// later. Last, the goroutines are waited for.
func (sub *subscription) close() {
	s := sub.s
	s.mu.Lock()
	var rest []*subscription
	for _, other := range s.subscriptions[sub.channel] {
		if other != sub {
			rest = append(rest, other)
		}
	}
	if s.subscriptions[sub.channel] = rest; len(rest) == 0 {
		delete(s.subscriptions, sub.channel)
	}
	s.mu.Unlock()
	sub.end()
	sub.mu.Lock()
	sub.closed = true
	sub.mu.Unlock()
	sub.work.Wait()
}

func (sub *subscription) message(payload string) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if !sub.closed && sub.listener.Message != nil {
		sub.listener.Message(payload)
	}
}

func (sub *subscription) resumed() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if !sub.closed && sub.listener.Resumed != nil {
		sub.listener.Resumed()
	}
}

// subscriptionsTo returns the subscriptions to a channel.
func (s *Store) subscriptionsTo(channel string) []*subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*subscription(nil), s.subscriptions[channel]...)
}

// rechecks says when the clients were last told to poll.
type rechecks struct {
	last   time.Duration
	inARow int  // how often they were told, each time soon after the time before
	due    bool // they will be told after a pause
}

// next returns how long to wait before the clients are told, and records that they will be.
// spread is as in [backoff.Exponential.After].
func (r *rechecks) next(now time.Duration, pauses backoff.Exponential, spread float64) time.Duration {
	// After a long quiet time the next silence is news, and the waiters learn of it at once.
	if now-r.last > 2*pauses.Longest {
		r.inARow = 0
	}
	var pause time.Duration
	if r.inARow > 0 {
		pause = max(r.last+pauses.After(r.inARow-1, spread)-now, 0)
	}
	r.inARow++
	r.due = true
	return pause
}

// recheckSoon makes all clients poll: a node that keeps the queue for some of their waiters
// does not answer any more. But an overloaded node, or one whose replies are lost, answers one
// request and not the next; then the polls themselves may be what it leaves unanswered. So the
// clients are told at once the first time, and then after growing pauses.
func (s *Store) recheckSoon() {
	s.mu.Lock()
	if s.rechecks.due {
		s.mu.Unlock()
		return
	}
	pauses := backoff.Exponential{First: s.cfg.Timeout, Longest: 16 * s.cfg.Timeout}
	pause := s.rechecks.next(s.now(), pauses, rand.Float64())
	s.mu.Unlock()
	if pause == 0 {
		s.recheckAll()
		return
	}
	s.life.Go(recheckLabel, func() {
		if s.life.Sleep(context.Background(), pause) {
			s.recheckAll()
		}
	})
}

// recheckAll makes all clients poll.
// The list is copied first: the client's functions run without s.mu.
func (s *Store) recheckAll() {
	s.mu.Lock()
	s.rechecks.due, s.rechecks.last = false, s.now()
	var all []*subscription
	for _, list := range s.subscriptions {
		all = append(all, list...)
	}
	s.mu.Unlock()
	for _, sub := range all {
		sub.resumed()
	}
}
