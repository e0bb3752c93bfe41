package contract_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// storm is many acquisitions at once, on an unreliable network. Each may give up at the
// moment of its grant.
type storm struct {
	w       *world
	rng     *rand.Rand
	mu      sync.Mutex // guards rng
	holders atomic.Int32
	served  atomic.Int32
	gaveUp  atomic.Int32
	last    uint64 // token; guarded by the lock itself
}

// upTo is a random duration in steps of 100µs, so events often happen at the same
// instant.
func (s *storm) upTo(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.rng.IntN(int(d/(100*time.Microsecond))+1)) * 100 * time.Microsecond
}

func (s *storm) worker(t *testing.T, c *holdfast.Client) {
	time.Sleep(s.upTo(3 * time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), s.upTo(8*time.Millisecond))
	defer cancel()
	l, err := c.Mutex("a").Lock(ctx)
	if err != nil {
		s.gaveUp.Add(1)
		assert.False(t, !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, holdfast.ErrUnknownOutcome),
			"gave up with %v", err)
		return
	}
	s.served.Add(1)
	assert.Equal(t, s.holders.Add(1), 1, "two hold the lock")
	assert.More(t, l.Token(), s.last, "token")
	s.last = l.Token()
	time.Sleep(s.upTo(time.Millisecond))
	s.holders.Add(-1)
	err = l.Release(ctx)
	assert.False(t, err != nil && !errors.Is(err, holdfast.ErrUnknownOutcome), "released with %v", err)
}

// network delays everything a little, and now and then loses a request, a reply or a
// push.
func (s *storm) network(faults bool) {
	s.w.net.slow(func(string) (there, back time.Duration) {
		return s.upTo(500 * time.Microsecond), s.upTo(500 * time.Microsecond)
	})
	if !faults {
		return
	}
	sometimes := func(string, []string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.rng.IntN(15) == 0 {
			return errLink
		}
		return nil
	}
	s.w.FailRequest(sometimes)
	s.w.LoseReply(sometimes)
	s.w.DropPushes(s.rng.IntN(3))
}

func (s *storm) run(t *testing.T, clients, workers int, faults bool) {
	s.network(faults)
	var all sync.WaitGroup
	for i := range clients {
		passes := []int{0, 2, -1}[i%3]
		c := s.w.client(holdfast.Config{MaxLocalHandOvers: passes, TTL: time.Second})
		for range workers {
			all.Go(func() { s.worker(t, c) })
		}
	}
	all.Wait()
	// A grant that was given up is released at once, or when the request that was under
	// way has arrived. A grant whose push was lost is found by the next poll.
	time.Sleep(5 * time.Second)
	synctest.Wait()
	s.w.FailRequest(nil)
	s.w.LoseReply(nil)
	s.w.wantFree("a")
	l, err := s.w.client().Mutex("a").TryLock(t.Context())
	if err != nil {
		t.Errorf("after all: %v", err)
		return
	}
	release(t, l)
}

// Guarantee: no call hangs, there are never two holders, and every grant that was given
// up is released. The order of cancellation and grant does not matter.
func TestACancellationThatRacesWithAGrantLeaksNothing(t *testing.T) {
	served, gaveUp := int32(0), int32(0)
	for seed := range uint64(200) {
		bubble(t, func(t *testing.T, w *world) {
			s := &storm{w: w, rng: rand.New(rand.NewPCG(seed, 7))}
			s.run(t, 3, 4, seed%2 == 1)
			assert.Equal(t, s.served.Load()+s.gaveUp.Load(), 12, "calls that came back")
			served, gaveUp = served+s.served.Load(), gaveUp+s.gaveUp.Load()
		})
		assert.MustTrue(t, !t.Failed(), "seed %d", seed)
	}
	assert.True(t, served >= 200 && gaveUp >= 200,
		"%d were served and %d gave up: the race was not run", served, gaveUp)
}

// The same without delays, where the goroutines race: thousands of cancellations at the
// instant of the hand-over.
func TestACancellationAtTheInstantOfTheHandOverLeaksNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		clients := []*holdfast.Client{
			w.client(), w.client(holdfast.Config{MaxLocalHandOvers: -1}),
			w.client(holdfast.Config{MaxLocalHandOvers: 1}),
		}
		for i := range 400 {
			l := mustLock(t, clients[i%3].Mutex("a"))
			ctx, cancel := context.WithCancel(t.Context())
			next := make([]<-chan outcome, 3)
			for j := range next {
				next[j] = w.waiting(clients[(i/3+j)%3].Mutex("a"), ctx)
			}
			go cancel()
			go func() { _ = l.Release(t.Context()) }()
			for _, ch := range next {
				if got := <-ch; got.err == nil {
					release(t, got.Lease)
				} else {
					assert.Is(t, got.err, context.Canceled)
				}
			}
			cancel()
			synctest.Wait()
			w.wantFree("a")
			assert.MustTrue(t, !t.Failed(), "round %d", i)
		}
	})
}
