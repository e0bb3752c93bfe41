// Conversions never wait: a writer is downgraded with no writer in between, and only the only reader is upgraded (G27).
// No reader begins beside a writer meanwhile (G24).

package contract_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/store"
)

func TestAWriterDowngradesWithNoWriterInBetween(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		m := c.RWMutex("a", holdfast.TTL(20*time.Second), holdfast.ReadTTL(40*time.Second))
		l := must(t, m.Lock)
		ctx, token := l.Context(), l.Token()
		elsewhere := taking(t, w.client().RWMutex("a").RLock)
		ours := taking(t, m.RLock)
		writer := taking(t, w.client().RWMutex("a").Lock)
		next := taking(t, m.Lock) // behind the turn that the lease has
		late := taking(t, w.client().RWMutex("a").RLock)
		assert.Must(t, l.Downgrade(t.Context()))
		if ctx.Err() != nil || l.Token() <= token || l.Remaining() != 40*time.Second-margin(40*time.Second) {
			t.Errorf("downgraded: %v, token %d after %d, %v left", ctx.Err(), l.Token(), token, l.Remaining())
		}
		err := l.Downgrade(t.Context())
		assert.True(t, err == nil && w.net.count("convert") == 1, "a reader's downgrade: %v", err)
		readers := []*holdfast.Lease{l, done(t, "a reader elsewhere", elsewhere), done(t, "a reader here", ours)}
		waits(t, "a reader behind the writer", late)
		for _, l := range readers {
			waits(t, "a writer", writer)
			release(t, l)
		}
		wl := done(t, "the writer", writer)
		assert.True(t, wl.Token() > l.Token(),
			"the writer has token %d, the reader before it %d", wl.Token(), l.Token())
		release(t, wl)
		// The reader has waited at the server for longer than our writer, which had to
		// wait for the turn.
		release(t, done(t, "the late reader", late))
		release(t, done(t, "the next writer", next))
		w.wantFree("a")
	})
}

func TestReadersOfTheProcessJoinAWriterThatDowngraded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		m := w.client().RWMutex("a")
		l := must(t, m.Lock)
		guest := readWithin(t, m, l)
		assert.Must(t, l.Downgrade(t.Context()))
		other := must(t, m.RLock)
		release(t, l)
		assert.True(t, w.net.count("acquire") == 1 && guest.Err() == nil && other.HolderID() == l.HolderID(),
			"sent %v, the guest: %v", w.net.sent, guest.Err())
		release(t, guest)
		release(t, other)
		w.wantFree("a")
	})
}

// The server grants an upgrade because it knows of one reader. So no reader begins under that lease while the
// request is on its way: Lock waits for the answer, and then its reader is one under the writer.
func TestNoReaderBeginsUnderALeaseThatIsBeingUpgraded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		m := w.client().RWMutex("a")
		l := must(t, m.RLock)
		old := l.Token()
		w.net.slow(func(action string) (there, back time.Duration) {
			if action == "convert" {
				return time.Second, time.Second
			}
			return 0, 0
		})
		upgraded := make(chan error, 1)
		go func() { upgraded <- l.Upgrade(t.Context()) }()
		synctest.Wait()
		_, err := m.TryRLock(l.Context())
		assert.Is(t, err, holdfast.ErrHeld)
		under := taking(t, func(context.Context) (*holdfast.Lease, error) { return m.RLock(l.Context()) })
		waits(t, "a reader under the lease", under)
		assert.Must(t, <-upgraded)
		inner := done(t, "the reader under the writer", under)
		assert.True(t, inner.Token() == l.Token() && l.Token() > old,
			"the tokens: inner %d, the writer %d, the reader before %d", inner.Token(), l.Token(), old)
		release(t, inner)
		release(t, l)
		w.wantFree("a")
	})
}

// If the outcome of a downgrade is unknown, an upgrade asks for that first. It makes readers of the leases under
// the writer's, and then those are other readers.
func TestAnUpgradeAfterALostDowngradeCountsTheReadersThatItMakes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		m := w.client().RWMutex("a")
		l := must(t, m.Lock)
		inner := readWithin(t, m, l)
		w.LoseReply(only("convert", 2, errLink))
		assert.Is(t, l.Downgrade(t.Context()), holdfast.ErrUnknownOutcome)
		w.LoseReply(nil)
		assert.Is(t, l.Upgrade(t.Context()), holdfast.ErrHeld)
		release(t, inner)
		assert.Must(t, l.Upgrade(t.Context()))
		release(t, l)
		w.wantFree("a")
	})
}

func TestOnlyTheOnlyReaderUpgrades(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		m := c.RWMutex("a", holdfast.TTL(40*time.Second), holdfast.ReadTTL(20*time.Second))
		l := must(t, m.RLock)
		beside := must(t, m.RLock)
		refused := func(who string, sent int) {
			t.Helper()
			err := l.Upgrade(t.Context())
			assert.Is(t, err, holdfast.ErrHeld)
			if n := w.net.count("convert"); n != sent || l.Err() != nil {
				t.Errorf("beside %s: %v, after %d requests; the lease: %v", who, err, n, l.Err())
			}
		}
		refused("a reader of the process", 0)
		release(t, beside)
		other := must(t, w.client().RWMutex("a").RLock)
		refused("a reader elsewhere", 1)
		release(t, other)
		inner := readWithin(t, m, l)
		refused("its own second entry", 1)
		release(t, inner)

		writer := taking(t, w.client().RWMutex("a").Lock)
		ours := taking(t, m.Lock)
		token := l.Token()
		assert.Must(t, l.Upgrade(t.Context()))
		assert.True(t, l.Token() > token && l.Remaining() == 40*time.Second-margin(40*time.Second),
			"token %d after %d, %v left", l.Token(), token, l.Remaining())
		h := w.state("a").Holders[0]
		assert.True(t, h.Mode == "exclusive" && h.Token == l.Token(), "the holder is %+v", h)
		reader := taking(t, m.RLock)
		waits(t, "a reader beside the writer", reader)
		waits(t, "a writer beside the writer", writer)
		err := l.Upgrade(t.Context())
		assert.True(t, err == nil && w.net.count("convert") == 2, "a writer's upgrade: %v", err)
		release(t, l)
		release(t, done(t, "the writer", writer))
		release(t, done(t, "our writer", ours))
		release(t, done(t, "the reader", reader))
		w.wantFree("a")
	})
}

// A reader that has called ReleaseAfter keeps writers out until its delay has passed, of its own
// process too.
func TestAReaderThatReleasesLaterKeepsAnUpgradeOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		m := w.client().RWMutex("a")
		l, before := must(t, m.RLock), must(t, m.RLock)
		assert.Must(t, before.ReleaseAfter(t.Context(), time.Minute))
		time.Sleep(time.Second)
		err := l.Upgrade(t.Context())
		var held *holdfast.HeldError
		if !errors.As(err, &held) || held.Remaining != 59*time.Second || w.net.count("convert") != 0 {
			t.Errorf("beside a lock that is kept: %v", err)
		}
		time.Sleep(59 * time.Second)
		assert.Must(t, l.Upgrade(t.Context()))
		release(t, l)
		w.wantFree("a")
	})
}

func TestTwoReadersThatUpgradeAtOnceNeverWaitForEachOther(t *testing.T) {
	for _, clients := range []int{1, 2} {
		bubble(t, func(t *testing.T, w *world) {
			w.net.slow(func(string) (there, back time.Duration) { return time.Millisecond, time.Millisecond })
			all := []*holdfast.Client{w.client(), w.client()}
			var readers []*holdfast.Lease
			for i := range 2 {
				readers = append(readers, must(t, all[i%clients].RWMutex("a").RLock))
			}
			start := time.Now()
			var wg, refused sync.WaitGroup
			refused.Add(2)
			for _, l := range readers {
				wg.Go(func() {
					assert.Is(t, l.Upgrade(t.Context()), holdfast.ErrHeld)
					refused.Done()
					refused.Wait() // neither releases for the other
					release(t, l)
				})
			}
			wg.Wait()
			assert.AtMost(t, time.Since(start), 10*time.Millisecond, "it took")
			// If one of them releases, the other one is upgraded.
			readers = []*holdfast.Lease{must(t, all[0].RWMutex("a").RLock), must(t, all[1].RWMutex("a").RLock)}
			assert.Is(t, readers[0].Upgrade(t.Context()), holdfast.ErrHeld)
			release(t, readers[0])
			assert.NoError(t, readers[1].Upgrade(t.Context()))
			release(t, readers[1])
		})
	}
}

func TestAConversionOfUnknownOutcomeIsResolvedByTheNext(t *testing.T) {
	for name, lost := range map[string]bool{"the request is lost": false, "the reply is lost": true} {
		runBubble(t, name, func(t *testing.T, w *world) {
			m := w.client().RWMutex("a")
			unknown := func(step func(context.Context) error) {
				t.Helper()
				fault := w.FailRequest
				if lost {
					fault = w.LoseReply
				}
				fault(only("convert", 2, errLink))
				assert.Is(t, step(t.Context()), holdfast.ErrUnknownOutcome)
				fault(nil)
			}
			l := must(t, m.Lock)
			unknown(l.Downgrade)
			// No reader joins a hold that may be a writer's. No writer gets a hold
			// that may be a reader's.
			_, err := m.TryRLock(t.Context())
			assert.True(t, lost == (err == nil), "a reader beside it: %v", err)
			err = l.Downgrade(t.Context())
			assert.MustTrue(t, err == nil && w.state("a").Holders[0].Token == l.Token(), "%v", err)
			release(t, l)

			l = must(t, w.client().RWMutex("b").RLock)
			unknown(l.Upgrade)
			if err := l.Downgrade(t.Context()); err != nil || w.state("b").Holders[0].Mode != "shared" {
				t.Fatalf("%v, %+v", err, w.state("b"))
			}
			unknown(l.Upgrade)
			if err := l.Upgrade(t.Context()); err != nil || w.state("b").Holders[0].Mode != "exclusive" {
				t.Fatalf("%v, %+v", err, w.state("b"))
			}
			unknown(l.Downgrade)
			release(t, l)
			w.wantFree("b")

			l = must(t, w.client().RWMutex("c").Lock)
			unknown(l.Downgrade)
			assert.NoError(t, l.ReleaseAfter(t.Context(), time.Hour))
			assert.Equal(t, w.state("c").Holders[0].Remaining, time.Hour, "a writer's or a reader's delay")
		})
	}
}

// A refusal of the repeated request says nothing of the first one, which may have run.
func TestARefusalSettlesNoConversion(t *testing.T) {
	loading := &store.ServerError{Code: "LOADING", Message: "LOADING a data set"}
	bubble(t, func(t *testing.T, w *world) {
		l := must(t, w.client().RWMutex("a").Lock)
		w.LoseReply(only("convert", 2, errLink))
		assert.Is(t, l.Downgrade(t.Context()), holdfast.ErrUnknownOutcome)
		w.LoseReply(nil)
		reader := must(t, w.client().RWMutex("a").RLock) // the downgrade has run

		w.FailRequest(only("convert", 2, loading))
		for _, step := range []func(context.Context) error{l.Upgrade, l.Downgrade} {
			err := step(t.Context())
			assert.True(t, errors.As(err, new(*store.ServerError)), "while the server refuses: %v", err)
		}
		w.FailRequest(nil)
		assert.Is(t, l.Upgrade(t.Context()), holdfast.ErrHeld) // nobody is a writer beside the reader
		release(t, reader)
		if err := l.Upgrade(t.Context()); err != nil || w.state("a").Holders[0].Mode != "exclusive" {
			t.Errorf("%v, %+v", err, w.state("a"))
		}
		release(t, l)
	})
}

func TestAHoldThatMayBeAReadersIsNotHandedToAWriter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		m := w.client().RWMutex("a")
		l := must(t, m.Lock)
		next := taking(t, m.Lock)
		w.LoseReply(only("convert", 2, errLink))
		assert.Is(t, l.Downgrade(t.Context()), holdfast.ErrUnknownOutcome)
		release(t, l)
		l = done(t, "the next writer", next)
		h := w.state("a").Holders
		assert.True(t, len(h) == 1 && h[0].Mode == "exclusive", "the writer's lock is held by %+v", h)
		release(t, l)
	})
}

func TestAConversionOfAnotherKindIsInvalid(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := must(t, c.Mutex("a").Lock)
		assert.Is(t, l.Downgrade(t.Context()), holdfast.ErrInvalid)
		release(t, l)
		assert.Is(t, l.Downgrade(t.Context()), holdfast.ErrInvalid)
		m := c.RWMutex("a")
		l = must(t, m.Lock)
		guest := readWithin(t, m, l)
		assert.Is(t, guest.Upgrade(t.Context()), holdfast.ErrInvalid)
		assert.NoError(t, guest.Downgrade(t.Context()))   // it is a reader's already
		assert.Is(t, l.Upgrade(nil), holdfast.ErrInvalid) //nolint:staticcheck // it is refused
		release(t, guest)
		release(t, l)
		assert.Is(t, l.Downgrade(t.Context()), holdfast.ErrNotHeld, holdfast.ErrReleased)
		assert.Equal(t, w.net.count("convert"), 0, "the server was asked")
	})
}

// A release may overtake the request or the answer of a conversion of the same lease.
func TestAReleaseDuringAConversionLeavesNothingBehind(t *testing.T) {
	for delay := range 7 {
		for name, read := range map[string]bool{"down": false, "up": true} {
			bubble(t, func(t *testing.T, w *world) {
				m := w.client().RWMutex("a")
				take, step := m.Lock, (*holdfast.Lease).Downgrade
				if read {
					take, step = m.RLock, (*holdfast.Lease).Upgrade
				}
				l := must(t, take)
				other := taking(t, m.Lock)
				w.net.slow(func(string) (there, back time.Duration) { return time.Millisecond, 2 * time.Millisecond })
				var wg sync.WaitGroup
				wg.Go(func() {
					err := step(l, t.Context())
					assert.False(t, err != nil && !errors.Is(err, holdfast.ErrNotHeld), "%s: %v", name, err)
				})
				time.Sleep(time.Duration(delay) * 500 * time.Microsecond)
				release(t, l)
				wg.Wait()
				got := <-other
				assert.Must(t, got.err)
				release(t, got.Lease)
				release(t, must(t, m.RLock))
				synctest.Wait()
				w.wantFree("a")
			})
		}
	}
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
