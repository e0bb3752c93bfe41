// Readers share, a writer is alone (G24) and not starved (G25), and readers end separately (G26).

package contract_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/observe"
)

// readWithin locks for reading under the context of another lease.
func readWithin(t *testing.T, m *holdfast.RWMutex, outer *holdfast.Lease) *holdfast.Lease {
	t.Helper()
	return must(t, func(context.Context) (*holdfast.Lease, error) { return m.RLock(outer.Context()) })
}

func TestAThousandReadersInTenProcessesAreTenHolders(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var clients []*holdfast.Client
		var readers []*holdfast.Lease
		for range 10 {
			c := w.client()
			clients = append(clients, c)
			for range 100 {
				readers = append(readers, must(t, c.RWMutex("a").RLock))
			}
		}
		if s := w.state("a"); len(s.Holders) != 10 || w.net.count("acquire") != 10 {
			t.Fatalf("%d holders after %d requests", len(s.Holders), w.net.count("acquire"))
		}
		// A writer waits for these readers, and not for later ones.
		writer := taking(t, w.client().RWMutex("a").Lock)
		time.Sleep(20 * time.Millisecond)
		var later []<-chan outcome
		for _, c := range clients {
			for range 5 {
				later = append(later, taking(t, c.RWMutex("a").RLock))
			}
		}
		for _, ch := range later {
			waits(t, "a reader behind a writer", ch)
		}
		assert.Equal(t, len(w.state("a").Waiters), 11, "waiters at the server, one of each process and the writer")
		for _, l := range readers {
			waits(t, "the writer beside a reader", writer)
			release(t, l)
		}
		wl := done(t, "the writer", writer)
		for _, l := range readers {
			assert.MustTrue(t, l.Token() < wl.Token(),
				"a reader before the writer has token %d, the writer %d", l.Token(), wl.Token())
		}
		// The waiting readers are granted together.
		release(t, wl)
		for _, ch := range later {
			l := done(t, "a later reader", ch)
			assert.True(t, l.Token() > wl.Token(),
				"a reader after the writer has token %d, the writer %d", l.Token(), wl.Token())
			readers = append(readers, l)
		}
		assert.Equal(t, len(w.state("a").Holders), 10, "holders")
		for _, l := range readers[1000:] {
			release(t, l)
		}
		w.wantFree("a")
	})
}

func TestReadersThatArriveTogetherShareOneHold(t *testing.T) {
	for name, take := range map[string]func(*holdfast.RWMutex) func(context.Context) (*holdfast.Lease, error){
		"RLock":    func(m *holdfast.RWMutex) func(context.Context) (*holdfast.Lease, error) { return m.RLock },
		"TryRLock": func(m *holdfast.RWMutex) func(context.Context) (*holdfast.Lease, error) { return m.TryRLock },
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			events := &recorder{}
			c := w.client(holdfast.Config{Observer: events})
			w.net.slow(func(string) (there, back time.Duration) { return time.Millisecond, time.Millisecond })
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					l := must(t, take(c.RWMutex("a")))
					time.Sleep(time.Millisecond)
					release(t, l)
				})
			}
			all.Wait()
			assert.True(t, w.net.count("acquire") == 1 && w.net.count("release") == 1, "sent %v", w.net.sent)
			local := 0
			for _, e := range events.all(observe.EventGrant) {
				if e.Local {
					local++
				}
			}
			assert.True(t, local == 49 && len(events.all(observe.EventRelease)) == 50,
				"%d grants of 50 were local", local)
			w.wantFree("a")
		})
	}
}

func TestAWaitingWriterIsNotStarvedByArrivingReaders(t *testing.T) {
	for name, elsewhere := range map[string]bool{"of the readers' process": false, "of another process": true} {
		runBubble(t, name, func(t *testing.T, w *world) {
			const way = 200 * time.Microsecond
			w.net.slow(func(string) (there, back time.Duration) { return way, way })
			clients := []*holdfast.Client{w.client(), w.client()}
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					time.Sleep(time.Duration(i) * 500 * time.Microsecond)
					for ctx.Err() == nil {
						l := must(t, clients[i%2].RWMutex("a").RLock)
						time.Sleep(10 * time.Millisecond)
						release(t, l)
					}
				})
			}
			writer := clients[0]
			if elsewhere {
				writer = w.client()
			}
			for range 20 {
				time.Sleep(50 * time.Millisecond)
				start := time.Now()
				l := must(t, writer.RWMutex("a").Lock)
				assert.AtMost(t, time.Since(start), 30*time.Millisecond, "the writer waited for readers of 10ms")
				release(t, l)
			}
			cancel()
			all.Wait()
		})
	}
}

func TestReadersJoinWithoutTheServerWhileItsAnswerIsFresh(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		first := must(t, c.RWMutex("a").RLock)
		for range 100 {
			release(t, must(t, c.RWMutex("a").RLock))
		}
		assert.Equal(t, w.net.count("renew"), 0, "requests for the waiters")
		time.Sleep(10 * time.Millisecond)
		for range 100 {
			release(t, must(t, c.RWMutex("a").RLock))
		}
		assert.True(t, w.net.count("renew") == 1 && w.net.count("acquire") == 1, "sent %v", w.net.sent)
		release(t, first)
		w.wantFree("a")
	})
}

func TestAReaderReEntersWhileAWriterWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		outer := must(t, c.RWMutex("a").RLock)
		writer := taking(t, w.client().RWMutex("a").Lock)
		time.Sleep(time.Minute)
		sent := w.net.count("acquire")
		inner := readWithin(t, c.RWMutex("a"), outer)
		again, err := c.RWMutex("a").TryRLock(inner.Context())
		assert.MustTrue(t, err == nil && w.net.count("acquire") == sent,
			"%v, after %d requests", err, w.net.count("acquire")-sent)
		release(t, outer)
		release(t, keep(again))
		waits(t, "the writer", writer)
		assert.NoError(t, inner.Err())
		release(t, inner)
		release(t, done(t, "the writer", writer))
	})
}

func TestAReadUnderTheWritersLeaseEndsWithIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		m := w.client().RWMutex("a")
		writer := must(t, m.Lock)
		guest := readWithin(t, m, writer)
		brief := readWithin(t, m, guest)
		assert.Must(t, brief.Err())
		release(t, brief)
		assert.True(t, writer.Err() == nil && len(w.state("a").Holders) == 1 && w.net.count("acquire") == 1,
			"the writer: %v", writer.Err())
		release(t, writer)
		assert.Is(t, guest.Err(), holdfast.ErrReleased)
		assert.Is(t, context.Cause(guest.Context()), holdfast.ErrReleased)
		assert.Is(t, guest.Release(t.Context()), holdfast.ErrNotHeld)
		w.wantFree("a")
	})
}

func TestAReaderThatLocksIsRefusedAndToldOfUpgrade(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		m := w.client().RWMutex("a")
		reader := must(t, m.RLock)
		_, err := m.Lock(reader.Context())
		assert.Is(t, err, holdfast.ErrDeadlock)
		assert.Contains(t, holdfast.Hint(err), "Upgrade")
		release(t, reader)
		writer := must(t, m.Lock)
		_, err = m.Lock(writer.Context())
		assert.Is(t, err, holdfast.ErrDeadlock)
		hint := holdfast.Hint(err)
		assert.True(t, !strings.Contains(hint, "Upgrade"), "the hint is %q", hint)
		release(t, writer)
	})
}

func TestACrashedReadersShareEndsByItself(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		dead, alive := w.client(), w.client()
		for range 5 {
			must(t, dead.RWMutex("a").RLock)
		}
		l := must(t, alive.RWMutex("a").RLock)
		time.Sleep(time.Second)
		dead.Abandon()
		time.Sleep(ttl)
		if s := w.state("a"); len(s.Holders) != 1 || s.Holders[0].ClientID != alive.ID() || l.Err() != nil {
			t.Errorf("holders %+v, the other reader: %v", s.Holders, l.Err())
		}
		// A writer waits for it no longer than its lease.
		dead = w.client()
		must(t, dead.RWMutex("a").RLock)
		dead.Abandon()
		release(t, l)
		start := time.Now()
		release(t, must(t, alive.RWMutex("a").Lock))
		assert.AtMost(t, time.Since(start), ttl+time.Second, "the writer waited")
	})
}

func TestReadersHaveALeaseOfTheirOwnLength(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		m := w.client().RWMutex("a", holdfast.TTL(20*time.Second), holdfast.ReadTTL(5*time.Second))
		for _, test := range []struct {
			take func(context.Context) (*holdfast.Lease, error)
			ttl  time.Duration
		}{{m.Lock, 20 * time.Second}, {m.RLock, 5 * time.Second}} {
			l := must(t, test.take)
			if left := w.state("a").Holders[0].Remaining; left != test.ttl || l.Remaining() != left-margin(left) {
				t.Errorf("%v are left on the server, %v here, of %v", left, l.Remaining(), test.ttl)
			}
			time.Sleep(time.Minute)
			release(t, l)
		}
	})
}

func TestReadersWithOtherOptionsDoNotShareAHold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		for _, options := range [][]holdfast.RWMutexOption{
			nil, {holdfast.ReadTTL(5 * time.Second)}, {holdfast.NoRenewal()},
		} {
			must(t, c.RWMutex("a", options...).RLock)
		}
		holders := w.state("a").Holders
		assert.True(t, len(holders) == 3 && holders[1].Remaining == 5*time.Second,
			"want three holders, the second with 5s left, got %+v", holders)
		single := w.client(holdfast.Config{MaxLocalHandOvers: -1})
		for range 3 {
			must(t, single.RWMutex("a").RLock)
		}
		assert.Equal(t, len(w.state("a").Holders), 6, "holders")
	})
}

func TestALostReadHoldEndsAllItsLeases(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		events := &recorder{}
		c := w.client(holdfast.Config{Observer: events})
		var readers []*holdfast.Lease
		for range 3 {
			readers = append(readers, must(t, c.RWMutex("a").RLock))
		}
		resume := w.Stall()
		time.Sleep(ttl)
		resume()
		for _, l := range readers {
			wantLost(t, l.Err(), holdfast.LossExpired)
			assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
		}
		assert.Equal(t, len(events.all(observe.EventLost)), 3, "losses")
		release(t, must(t, c.RWMutex("a").RLock))
		release(t, must(t, w.client().RWMutex("a").Lock))
	})
}

func TestAReaderThatReleasesLaterKeepsTheLockForAll(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		a, b := must(t, c.RWMutex("a").RLock), must(t, c.RWMutex("a").RLock)
		assert.NoError(t, a.ReleaseAfter(t.Context(), time.Minute))
		start := time.Now()
		writer := taking(t, w.client().RWMutex("a").Lock)
		time.Sleep(time.Second)
		release(t, b)
		got := <-writer
		if waited := got.at.Sub(start); got.err != nil || waited < time.Minute || waited > time.Minute+time.Second {
			t.Errorf("%v after %v", got.err, waited)
		}
		release(t, got.Lease)
	})
}

// Whatever ends the other readers of the process, the lock stays held for the delay, if the server was told of it.
func TestTheEndOfOtherReadersShortensNoDelay(t *testing.T) {
	for name, end := range map[string]func(w *world, c *holdfast.Client, other *holdfast.Lease){
		"a close":       func(_ *world, c *holdfast.Client, _ *holdfast.Lease) { _ = c.Close(context.Background()) },
		"a dead client": func(_ *world, c *holdfast.Client, _ *holdfast.Lease) { c.Abandon() },
		"a loss": func(w *world, _ *holdfast.Client, other *holdfast.Lease) {
			w.FailRequest(only("renew", -1, errLink))
			_ = ended(other.Context())
			w.FailRequest(nil)
			_ = other.Release(context.Background())
		},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			c := w.client()
			a, b := must(t, c.RWMutex("a").RLock), must(t, c.RWMutex("a").RLock)
			assert.NoError(t, a.ReleaseAfter(t.Context(), time.Hour))
			end(w, c, b)
			time.Sleep(time.Minute)
			assert.True(t, w.state("a").Held(), "the lock is free within the delay")
			time.Sleep(time.Hour)
			w.wantFree("a")
		})
	}
}

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

// A reader gives up at the moment at which it joins the hold of another reader. (Which of
// the two it sees first is random, so the test tries often.)
func TestAReaderThatGivesUpAsItIsGrantedKeepsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var c *holdfast.Client
		var meanwhile func()
		c = w.hook(func(_ context.Context, action string, _ *string) {
			if action == "acquire" && meanwhile != nil {
				f := meanwhile
				meanwhile = nil
				f()
			}
		})
		release(t, must(t, c.RWMutex("m").RLock)) // the client is warm
		for range 30 {
			second := make(chan outcome, 1)
			meanwhile = func() {
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					l, err := c.RWMutex("m").RLock(ctx)
					second <- outcome{Lease: l, err: err}
				}()
				synctest.Wait() // it waits for the first
				cancel()
			}
			first := must(t, c.RWMutex("m").RLock)
			if got := <-second; got.err == nil {
				release(t, keep(got.Lease))
			}
			release(t, first)
			if w.wantFree("m"); t.Failed() {
				return
			}
		}
	})
}
