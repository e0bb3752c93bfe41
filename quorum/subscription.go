package quorum

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// A client listens on one channel, and the store listens on that channel at each server. Example:
// server 3 pushes "granted c/7.6 4711 0". That is one server's grant, under an identity that the
// client does not know. handlePush takes it out. When a majority has granted and has the token, the
// acquisition pushes "granted c/7 4712 0" to the client. Other pushes pass unchanged.

// Listen implements [store.Store]. It returns when a majority has confirmed, and the other
// nodes have failed or had time to answer. Those are tried again until they confirm, which
// Look reports.
//
// The order of the end matters. First nobody finds the subscription any more, and a function of
// the listener that runs just now is waited for. Then the goroutines are told to end, and waited for.
//
// Each node has a goroutine for the life of the subscription. If ctx ends, or too few nodes
// confirm, all of them are ended before Listen returns, and nothing is subscribed.
func (s *Store) Listen(ctx context.Context, channel string, l store.Listener) (stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	// From now on it can be found: a push may come before a node's answer.
	own, remove := s.listeners.Add(channel, l)
	life, end := context.WithCancel(s.life.Context())
	var work sync.WaitGroup
	stop = func() {
		remove()
		end()
		work.Wait()
	}
	timeout := s.requestTimeout(ctx, 0)
	first := make(chan result, len(s.nodes))
	for i, n := range s.nodes {
		to := store.Listener{
			Message: func(payload string) {
				if !s.handlePush(i, payload) {
					own.Message(payload) // not a push of a grant
				}
			},
			Look: func(restored bool) {
				if restored || !n.isSilent() { // nobody waits at a silent server
					own.Look(restored)
				}
			},
			Awaited: l.Awaited,
		}
		work.Go(func() {
			subscribeLabel.Set()
			n.keepSubscribed(life, channel, to, timeout, func(err error) { first <- result{i, err} })
		})
	}
	failed, heard := make(map[int]error), make([]bool, len(s.nodes))
	for range s.nodes {
		select {
		case r := <-first:
			if heard[r.i] = true; r.err != nil {
				failed[r.i] = r.err
			}
		case <-ctx.Done():
			stop()
			return nil, s.interrupted(ctx, failed, heard)
		}
	}
	if len(failed) > len(s.nodes)-s.majority {
		stop()
		return nil, s.noMajority(failed)
	}
	return stop, nil
}

// keepSubscribed keeps the subscription to one node until life ends. first receives the result
// of the first try.
//
// A push that was sent while a node was not subscribed is lost. So when a later try succeeds, the
// client is told to poll, as after any interruption.
//
// Only the first subscription is made here. If it breaks later, the node's own store makes it
// again, and calls Look.
func (n *node) keepSubscribed(
	life context.Context, channel string, to store.Listener, timeout time.Duration, first func(error),
) {
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(life, timeout)
		stop, err := n.Listen(ctx, channel, to)
		cancel()
		if try == 0 {
			first(err)
		}
		if err == nil {
			if try > 0 {
				to.Look(true)
			}
			<-life.Done()
			stop()
			return
		}
		// The first pauses are left out: a node that just refused a subscription is not asked at once.
		timer := time.NewTimer(backoff.Default.After(try+3, 1))
		select {
		case <-timer.C:
		case <-life.Done():
			timer.Stop()
			return
		}
	}
}

// rechecks says when the clients were last told to poll. Store.mu guards it.
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
//
// Example, with a Timeout of 500 ms: server 3 falls silent at 10 s, and all clients poll at once.
// It answers, and falls silent again at 10.1 s. They are told 250 to 500 ms after the time before,
// then 0.5 to 1 s after that, and so on up to 8 s. After 16 s of quiet the next silence is told at
// once.
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

// recheckAll makes all clients poll. The client's functions run without s.mu.
func (s *Store) recheckAll() {
	s.mu.Lock()
	s.rechecks.due, s.rechecks.last = false, s.now()
	s.mu.Unlock()
	for _, l := range s.listeners.All() {
		l.Look(true)
	}
}
