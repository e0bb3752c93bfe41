package holdfast_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// readersAndWriters is many readers and writers at once. Some upgrade, re-enter or give
// up at the moment of their grant.
type readersAndWriters struct {
	storm
	count    sync.Mutex
	readers  int
	writers  int
	newest   uint64 // the token of the last writer
	stepped  int
	together int // the most readers at a time
}

// in notes a holder, and asserts that it may hold beside the others.
func (s *readersAndWriters) in(t *testing.T, readers, writers int, token uint64) {
	s.count.Lock()
	defer s.count.Unlock()
	s.readers += readers
	s.writers += writers
	s.together = max(s.together, s.readers)
	assert.False(t, s.writers > 1 || s.writers == 1 && s.readers > 0,
		"%d writers and %d readers at a time", s.writers, s.readers)
	assert.False(t, token != 0 && token < s.newest, "token %d after a writer's %d", token, s.newest)
	if writers > 0 {
		s.newest = token
	}
}

func (s *readersAndWriters) out(readers, writers int) {
	s.count.Lock()
	defer s.count.Unlock()
	s.readers -= readers
	s.writers -= writers
}

func (s *readersAndWriters) chance(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n) == 0
}

func (s *readersAndWriters) worker(t *testing.T, c *holdfast.Client) {
	time.Sleep(s.upTo(4 * time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), s.upTo(10*time.Millisecond))
	defer cancel()
	m, writes := c.RWMutex("a"), s.chance(3)
	take := m.RLock
	if s.chance(4) {
		take = m.TryRLock
	}
	if writes {
		take = m.Lock
	}
	l, err := take(ctx)
	if err != nil {
		s.gaveUp.Add(1)
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, holdfast.ErrUnknownOutcome) &&
			!errors.Is(err, holdfast.ErrUnreachable) &&
			!errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("gave up with %v", err)
		}
		return
	}
	s.served.Add(1)
	if writes {
		s.writing(t, l)
	} else {
		s.reading(t, m, l)
	}
	err = l.Release(ctx)
	assert.False(t, err != nil && !errors.Is(err, holdfast.ErrUnknownOutcome), "released with %v", err)
}

func (s *readersAndWriters) writing(t *testing.T, l *holdfast.Lease) {
	s.in(t, 0, 1, l.Token())
	time.Sleep(s.upTo(time.Millisecond))
	s.out(0, 1)
	if !s.chance(2) {
		return
	}
	// Whatever the outcome is, it does not write any more.
	if err := l.Downgrade(t.Context()); err == nil {
		s.in(t, 1, 0, l.Token())
		time.Sleep(s.upTo(2 * time.Millisecond))
		s.out(1, 0)
	} else {
		assert.Is(t, err, holdfast.ErrUnknownOutcome)
	}
}

func (s *readersAndWriters) reading(t *testing.T, m *holdfast.RWMutex, l *holdfast.Lease) {
	s.in(t, 1, 0, l.Token())
	time.Sleep(s.upTo(2 * time.Millisecond))
	if s.chance(4) {
		if inner, err := m.RLock(l.Context()); err != nil {
			t.Errorf("entered again with %v", err)
		} else if err := inner.Release(t.Context()); err != nil {
			t.Errorf("left again with %v", err)
		}
	}
	s.out(1, 0)
	if !s.chance(3) {
		return
	}
	switch err := l.Upgrade(t.Context()); {
	case err == nil:
		s.count.Lock()
		s.stepped++
		s.count.Unlock()
		s.writing(t, l)
	case !errors.Is(err, holdfast.ErrUnknownOutcome) && !errors.Is(err, holdfast.ErrHeld):
		t.Errorf("upgraded with %v", err)
	}
}

// Guarantee: a writer is alone, and no call hangs. Conversions, re-entries, cancellations
// and losses of the network do not matter.
func TestReadersAndWritersThatRaceExcludeEachOtherAndLeakNothing(t *testing.T) {
	var served, gaveUp int32
	var stepped, together int
	for seed := range uint64(400) {
		bubble(t, func(t *testing.T, w *world) {
			s := &readersAndWriters{storm: storm{w: w, rng: rand.New(rand.NewPCG(seed, 11))}}
			s.network(seed%2 == 1)
			var all sync.WaitGroup
			for i := range 3 {
				c := w.client(holdfast.Config{MaxLocalHandOvers: []int{0, 2, -1}[i], TTL: time.Second})
				for range 8 {
					all.Go(func() { s.worker(t, c) })
				}
			}
			all.Wait()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			w.FailRequest(nil)
			w.LoseReply(nil)
			w.wantFree("a")
			release(t, must(t, w.client().RWMutex("a").TryLock))
			served, gaveUp = served+s.served.Load(), gaveUp+s.gaveUp.Load()
			stepped, together = stepped+s.stepped, max(together, s.together)
		})
		assert.MustTrue(t, !t.Failed(), "seed %d", seed)
	}
	if served < 1000 || gaveUp < 1000 || stepped < 50 || together < 5 {
		t.Errorf("%d were served, %d gave up, %d upgraded, %d read together: the race was not run",
			served, gaveUp, stepped, together)
	}
}

// Guarantee: a reader that has joined a hold holds the lock, although the reader that got
// the hold releases first.
func TestAReaderThatJoinsAsTheFirstReleasesHoldsTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		m := w.client().RWMutex("a")
		w.net.slow(func(string) (there, back time.Duration) { return time.Millisecond, time.Millisecond })
		for round := range 300 {
			second := make(chan error, 1)
			go func() {
				time.Sleep(500 * time.Microsecond) // while the first reader asks the server
				l, err := m.RLock(t.Context())
				if err == nil {
					time.Sleep(3 * time.Millisecond)
					if s := w.state("a"); !s.Held() && l.Err() == nil {
						t.Errorf("round %d: it reads, and nobody holds the lock", round)
					}
					err = l.Release(t.Context())
				}
				second <- err
			}()
			l := must(t, m.RLock)
			assert.Must(t, l.Release(t.Context()))
			err := <-second
			assert.MustTrue(t, err == nil && !t.Failed(), "round %d: %v", round, err)
			synctest.Wait()
		}
	})
}
