package contract_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// taking starts an acquisition, and returns when it is done or waits.
func taking(t *testing.T, take func(context.Context) (*holdfast.Lease, error)) <-chan outcome {
	t.Helper()
	return acquiring(t.Context(), take)
}

// acquiring starts an acquisition, and returns when it is done or waits.
func acquiring(ctx context.Context, take func(context.Context) (*holdfast.Lease, error)) <-chan outcome {
	ch := make(chan outcome, 1)
	go func() {
		l, err := take(ctx)
		ch <- outcome{keep(l), err, time.Now()}
	}()
	synctest.Wait()
	return ch
}

// done returns the lease of an acquisition, and fails the test if it waits.
func done(t *testing.T, what string, ch <-chan outcome) *holdfast.Lease {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-ch:
		assert.MustTrue(t, got.err == nil, "%s: %v", what, got.err)
		return got.Lease
	default:
		t.Fatalf("%s waits", what)
		return nil
	}
}

// waits fails the test if an acquisition is done.
func waits(t *testing.T, what string, ch <-chan outcome) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-ch:
		t.Fatalf("%s is done: %v", what, got.err)
	default:
	}
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
			for _, e := range events.all(holdfast.EventGrant) {
				if e.Local {
					local++
				}
			}
			assert.True(t, local == 49 && len(events.all(holdfast.EventRelease)) == 50,
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
		inner, err := c.RWMutex("a").RLock(outer.Context())
		assert.Must(t, err)
		again, err := c.RWMutex("a").TryRLock(keep(inner).Context())
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
		guest, err := m.RLock(writer.Context())
		assert.Must(t, err)
		brief, err := m.RLock(keep(guest).Context())
		assert.MustTrue(t, err == nil && brief.Err() == nil, "%v", err)
		release(t, keep(brief))
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

// If a lease were longer than the maximum hold, the next client would wait after that.
func TestMaxHoldCutsTheLeasesOfReadersAndWriters(t *testing.T) {
	const longest = 3 * time.Second
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		options := []holdfast.RWMutexOption{holdfast.MaxHold(longest), holdfast.ReadTTL(20 * time.Second)}
		for range 2 {
			m := c.RWMutex("a", options...)
			for _, take := range []func(context.Context) (*holdfast.Lease, error){m.Lock, m.RLock} {
				l := must(t, take)
				left := w.state("a").Holders[0].Remaining
				assert.True(t, left >= longest && left <= longest+longest/20, "%v are left on the server", left)
				release(t, l)
			}
			options = options[:1]
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
		assert.Equal(t, len(events.all(holdfast.EventLost)), 3, "losses")
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

func TestAConversionHasTheTTLOfItsOwnLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := must(t, c.RWMutex("a", holdfast.ReadTTL(ttl)).Lock)
		res := make(chan *holdfast.Lease)
		m := c.RWMutex("a", holdfast.ReadTTL(4*ttl))
		go func() { n := must(t, m.Lock); res <- n }()
		synctest.Wait()
		release(t, l)
		n := <-res
		assert.Must(t, n.Downgrade(t.Context()))
		assert.More(t, n.Remaining(), 3*ttl, "remaining")
		release(t, n)

		r := must(t, c.RWMutex("r", holdfast.TTL(2*ttl), holdfast.ReadTTL(ttl)).RLock)
		s := must(t, c.RWMutex("r", holdfast.TTL(8*ttl), holdfast.ReadTTL(ttl)).RLock)
		release(t, r)
		assert.Must(t, s.Upgrade(t.Context()))
		assert.More(t, s.Remaining(), 7*ttl, "remaining")
		release(t, s)
	})
}
