package contract_test

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
func (rw *readersAndWriters) in(t *testing.T, readers, writers int, token uint64) {
	rw.count.Lock()
	defer rw.count.Unlock()
	rw.readers += readers
	rw.writers += writers
	rw.together = max(rw.together, rw.readers)
	assert.False(t, rw.writers > 1 || rw.writers == 1 && rw.readers > 0,
		"%d writers and %d readers at a time", rw.writers, rw.readers)
	assert.False(t, token != 0 && token < rw.newest, "token %d after a writer's %d", token, rw.newest)
	if writers > 0 {
		rw.newest = token
	}
}

func (rw *readersAndWriters) out(readers, writers int) {
	rw.count.Lock()
	defer rw.count.Unlock()
	rw.readers -= readers
	rw.writers -= writers
}

func (rw *readersAndWriters) chance(n int) bool {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	return rw.rng.IntN(n) == 0
}

func (rw *readersAndWriters) worker(t *testing.T, c *holdfast.Client) {
	time.Sleep(rw.upTo(4 * time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), rw.upTo(10*time.Millisecond))
	defer cancel()
	m, writes := c.RWMutex("a"), rw.chance(3)
	take := m.RLock
	if rw.chance(4) {
		take = m.TryRLock
	}
	if writes {
		take = m.Lock
	}
	l, err := take(ctx)
	if err != nil {
		rw.gaveUp.Add(1)
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, holdfast.ErrUnknownOutcome) &&
			!errors.Is(err, holdfast.ErrUnreachable) &&
			!errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("gave up with %v", err)
		}
		return
	}
	rw.served.Add(1)
	if writes {
		rw.writing(t, l)
	} else {
		rw.reading(t, m, l)
	}
	err = l.Release(ctx)
	assert.False(t, err != nil && !errors.Is(err, holdfast.ErrUnknownOutcome), "released with %v", err)
}

func (rw *readersAndWriters) writing(t *testing.T, l *holdfast.Lease) {
	rw.in(t, 0, 1, l.Token())
	time.Sleep(rw.upTo(time.Millisecond))
	rw.out(0, 1)
	if !rw.chance(2) {
		return
	}
	// Whatever the outcome is, it does not write any more.
	if err := l.Downgrade(t.Context()); err == nil {
		rw.in(t, 1, 0, l.Token())
		time.Sleep(rw.upTo(2 * time.Millisecond))
		rw.out(1, 0)
	} else {
		assert.Is(t, err, holdfast.ErrUnknownOutcome)
	}
}

func (rw *readersAndWriters) reading(t *testing.T, m *holdfast.RWMutex, l *holdfast.Lease) {
	rw.in(t, 1, 0, l.Token())
	time.Sleep(rw.upTo(2 * time.Millisecond))
	if rw.chance(4) {
		if inner, err := m.RLock(l.Context()); err != nil {
			t.Errorf("entered again with %v", err)
		} else if err := inner.Release(t.Context()); err != nil {
			t.Errorf("left again with %v", err)
		}
	}
	rw.out(1, 0)
	if !rw.chance(3) {
		return
	}
	switch err := l.Upgrade(t.Context()); {
	case err == nil:
		rw.count.Lock()
		rw.stepped++
		rw.count.Unlock()
		rw.writing(t, l)
	case !errors.Is(err, holdfast.ErrUnknownOutcome) && !errors.Is(err, holdfast.ErrHeld):
		t.Errorf("upgraded with %v", err)
	}
}

// Guarantee: a writer is alone, and no call hangs. Conversions, re-entries, cancellations
// and losses of the network do not matter.
func TestReadersAndWritersThatRaceExcludeEachOtherAndLeakNothing(t *testing.T) {
	var served, gaveUp int32
	var stepped, together int
	for seed := range uint64(200) {
		bubble(t, func(t *testing.T, w *world) {
			rw := &readersAndWriters{storm: storm{w: w, rng: rand.New(rand.NewPCG(seed, 11))}}
			rw.network(seed%2 == 1)
			var all sync.WaitGroup
			for i := range 3 {
				c := w.client(holdfast.Config{MaxLocalHandOvers: []int{0, 2, -1}[i], TTL: time.Second})
				for range 8 {
					all.Go(func() { rw.worker(t, c) })
				}
			}
			all.Wait()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			w.FailRequest(nil)
			w.LoseReply(nil)
			w.wantFree("a")
			release(t, must(t, w.client().RWMutex("a").TryLock))
			served, gaveUp = served+rw.served.Load(), gaveUp+rw.gaveUp.Load()
			stepped, together = stepped+rw.stepped, max(together, rw.together)
		})
		assert.MustTrue(t, !t.Failed(), "seed %d", seed)
	}
	if served < 500 || gaveUp < 500 || stepped < 25 || together < 5 {
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
		for round := range 100 {
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
