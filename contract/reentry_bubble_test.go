// Re-entry costs nothing, and all entries end as one (G29). Owners never mix (G30).

package contract_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/observe"
)

// within locks under the context of another lease.
func within(t *testing.T, m *holdfast.Mutex, outer *holdfast.Lease) *holdfast.Lease {
	t.Helper()
	l, err := m.Lock(outer.Context())
	assert.Must(t, err)
	return keep(l)
}

// wantCount asserts how many entries the holder has on the server.
func wantCount(t *testing.T, c *holdfast.Client, want int) {
	t.Helper()
	state, err := c.Holders(t.Context(), "a")
	n := 0
	if state.Held() {
		n = state.Holders[0].Entries
	}
	assert.True(t, n == want && err == nil, "%d entries (%v), want %d", n, err, want)
}

func TestALockIsReenteredUnderItsLeaseWithoutTheNetwork(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		mu := w.client().Mutex("a", holdfast.Reentrant())
		outer := mustLock(t, mu)
		asked := w.net.count("acquire")
		inner := within(t, mu, outer)
		innermost := within(t, mu, inner)
		if n := w.net.count("acquire"); n != asked || innermost.HolderID() != outer.HolderID() {
			t.Errorf("%d acquisitions were sent for entering again", n-asked)
		}
		assert.True(t, inner.Token() == outer.Token() && innermost.Token() == outer.Token(),
			"tokens %d, %d, %d of one hold", outer.Token(), inner.Token(), innermost.Token())
		assert.Equal(t, inner.HoldCount(), 3, "the lease counts")
		release(t, outer) // in any order
		assert.Is(t, ended(outer.Context()), holdfast.ErrReleased)
		assert.True(t, inner.Err() == nil && innermost.Err() == nil && w.state("a").Held(),
			"others are in: %v, %v", inner.Err(), innermost.Err())
		release(t, innermost)
		assert.Is(t, innermost.Release(t.Context()), holdfast.ErrReleased)
		assert.Equal(t, inner.HoldCount(), 1, "the lease counts")
		assert.Equal(t, w.net.count("release"), 0, "releases sent while one was in")
		release(t, inner)
		w.wantFree("a")
	})
}

// The hint names the option where it would help: for a kind that has it, and for that lease.
func TestTheHintOfADeadlockFitsTheKind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l, several := mustLock(t, c.Mutex("a")), mustLockAll(t, c.MultiMutex([]string{"b"}))
		writer, entry := must(t, c.RWMutex("c").Lock), must(t, c.Mutex("d", holdfast.Owner("ann")).Lock)
		leads, err := c.Election("e").Campaign(t.Context(), "me")
		assert.Must(t, err)
		for what, test := range map[string]struct {
			err  error
			fits bool
		}{
			"Mutex":                     {assert.Err(c.Mutex("a").Lock(l.Context())), true},
			"TryLock":                   {assert.Err(c.Mutex("a").TryLock(l.Context())), true},
			"Mutex under several":       {assert.Err(c.Mutex("b").Lock(several.Context())), true},
			"MultiMutex":                {assert.Err(c.MultiMutex([]string{"x", "a"}).Lock(l.Context())), false},
			"MultiMutex under several":  {assert.Err(c.MultiMutex([]string{"b"}).Lock(several.Context())), false},
			"AwaitFree":                 {c.Mutex("a").AwaitFree(l.Context()), false},
			"RWMutex":                   {assert.Err(c.RWMutex("c").Lock(writer.Context())), false},
			"Mutex under a writer":      {assert.Err(c.Mutex("c").Lock(writer.Context())), false},
			"Mutex under a named owner": {assert.Err(c.Mutex("d").Lock(entry.Context())), false},
			"Election":                  {assert.Err(c.Election("e").Campaign(leads.Context(), "me")), false},
		} {
			assert.Is(t, test.err, holdfast.ErrDeadlock)
			hint := holdfast.Hint(test.err)
			assert.Contains(t, hint, "hand the lease to")
			assert.Contains(t, hint, "needs a context that is not made from it")
			names := strings.Contains(hint, "Reentrant")
			assert.Equal(t, names, test.fits, "%s: the hint %q names Reentrant", what, hint)
		}
		for _, held := range []*holdfast.Lease{l, writer, entry} {
			release(t, held)
		}
		releaseAll(t, several)
		assert.Must(t, leads.Release(t.Context()))
	})
}

func TestReentryNeedsItsOption(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a", holdfast.Reentrant()))
		_, err := a.Mutex("a").Lock(l.Context())
		assert.Is(t, err, holdfast.ErrDeadlock)
		_, err = a.Mutex("a", holdfast.Owner("bob")).TryLock(l.Context())
		assert.Is(t, err, holdfast.ErrDeadlock)
		// Another client does not re-enter, whatever its context is.
		_, err = b.Mutex("a", holdfast.Reentrant()).TryLock(l.Context())
		assert.Is(t, err, holdfast.ErrHeld)
		// A goroutine with another context does not re-enter either.
		_, err = a.Mutex("a", holdfast.Reentrant()).TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrHeld)
		other := within(t, a.Mutex("b", holdfast.Reentrant()), l)
		release(t, within(t, a.Mutex("a", holdfast.Reentrant()), other)) // through the lease of another lock
		release(t, other)
		release(t, l)
	})
}

func TestALossEndsEveryLeaseOfTheHold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		events := &recorder{}
		mu := w.client(holdfast.Config{Observer: events}).Mutex("a", holdfast.Reentrant())
		outer := mustLock(t, mu)
		inner, left := within(t, mu, outer), within(t, mu, outer)
		release(t, left)
		w.Flush()
		for _, l := range []*holdfast.Lease{outer, inner} {
			wantLost(t, ended(l.Context()), holdfast.LossNotHeld)
		}
		synctest.Wait() // the contexts end before the local queue goes on
		_, err := mu.TryLock(context.WithoutCancel(inner.Context()))
		assert.NoError(t, err)
		for _, l := range []*holdfast.Lease{inner, outer} {
			err := l.Release(t.Context())
			assert.Is(t, err, holdfast.ErrNotHeld)
			wantLost(t, err, holdfast.LossNotHeld)
		}
		assert.Equal(t, len(events.all(observe.EventLost)), 2, "losses told of two live leases")
	})
}

func TestALossAfterTheFirstLeaseIsReleasedEndsTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		mu := w.client().Mutex("a", holdfast.Reentrant())
		outer := mustLock(t, mu)
		inner := within(t, mu, outer)
		release(t, outer)
		w.FailRequest(only("renew", -1, errLink))
		start := time.Now()
		wantLost(t, ended(inner.Context()), holdfast.LossExpired)
		assert.AtMost(t, time.Since(start), trusted, "trusted for")
		assert.Is(t, inner.Release(t.Context()), holdfast.ErrNotHeld)
	})
}

// The leases of a hold are lost, and released after that. The turn passes on once.
func TestALossAndTheReleasesAfterItPassTheTurnOnOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		mu := w.client().Mutex("a", holdfast.Reentrant())
		outer := mustLock(t, mu)
		inner := within(t, mu, outer)
		next := w.waiting(mu, t.Context())
		w.Flush()
		held := mustLock(t, w.client().Mutex("a"))
		wantLost(t, ended(outer.Context()), holdfast.LossNotHeld)
		synctest.Wait() // the next goroutine has the turn, and waits at the server
		assert.Is(t, inner.Release(t.Context()), holdfast.ErrNotHeld)
		assert.Is(t, outer.Release(t.Context()), holdfast.ErrNotHeld)
		synctest.Wait()
		asked := w.net.count("acquire")
		_, err := mu.TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrHeld)
		assert.MustEqual(t, w.net.count("acquire"), asked, "requests of a goroutine without the turn")
		release(t, held)
		got := <-next
		assert.Must(t, got.err)
		release(t, got.Lease)
		w.wantFree("a")
	})
}

func TestManyGoroutinesEnterAndReleaseAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		mu := w.client().Mutex("a", holdfast.Reentrant())
		outer := mustLock(t, mu)
		ctx := outer.Context()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				l, err := mu.Lock(ctx)
				if err == nil {
					err = l.Release(context.Background())
				}
				assert.NoError(t, err)
			})
		}
		all.Wait()
		release(t, outer)
		w.wantFree("a")
	})
}

func TestANamedOwnerEntersFromAnotherProcess(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.client(), w.client(), w.client()
		order := holdfast.Owner("order 42 {x} %")
		first := mustLock(t, a.Mutex("a", order))
		second := mustLock(t, b.Mutex("a", order))
		third := mustLock(t, b.Mutex("a", order)) // another goroutine of the same process
		assert.True(t, first.Token() == second.Token() && first.HolderID() != second.HolderID(),
			"tokens %d and %d of %s and %s", first.Token(), second.Token(), first.HolderID(), second.HolderID())
		wantCount(t, c, 3)
		other := c.Mutex("a", holdfast.Owner("order"))
		_, err := other.TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrHeld)
		state, err := c.Holders(t.Context(), "a")
		assert.True(t, err == nil && state.Holders[0].Owner == "order 42 {x} %", "held by %+v (%v)", state.Holders, err)
		next := w.waiting(other, t.Context())
		time.Sleep(time.Hour) // each renews the hold
		release(t, first)
		release(t, third)
		time.Sleep(time.Hour)
		wantCount(t, a, 1)
		assert.Equal(t, len(next), 0, "let in beside an entry of another owner")
		release(t, second)
		got := <-next
		assert.True(t, got.err == nil && got.Token() > first.Token(),
			"%v, token %d after %d", got.err, got.Token(), first.Token())
		wantCount(t, c, 1)
		release(t, got.Lease)
		wantCount(t, c, 0)
	})
}

func TestANamedOwnerReentersItsOwnLeaseWithoutTheNetwork(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		mu := a.Mutex("a", holdfast.Owner("alice"))
		outer := mustLock(t, mu)
		asked := w.net.count("acquire")
		inner := within(t, mu, outer)
		assert.Equal(t, w.net.count("acquire")-asked, 0, "acquisitions that were sent")
		assert.Equal(t, inner.HoldCount(), 2, "the lease counts")
		wantCount(t, a, 1)
		other := mustLock(t, b.Mutex("a", holdfast.Owner("alice")))
		wantCount(t, a, 2)
		_, err := a.Mutex("a", holdfast.Owner("bob")).Lock(inner.Context())
		assert.Is(t, err, holdfast.ErrDeadlock)
		for _, l := range []*holdfast.Lease{outer, other, inner} {
			release(t, l)
		}
		w.wantFree("a")
	})
}

func TestWaitersOfOneOwnerAreGrantedTogether(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		one := w.waiting(w.client().Mutex("a", holdfast.Owner("alice")), t.Context())
		stranger := w.waiting(w.client().Mutex("a"), t.Context())
		two := w.waiting(w.client().Mutex("a", holdfast.Owner("alice")), t.Context())
		start := time.Now()
		release(t, l)
		first, second := <-one, <-two
		if first.err != nil || second.err != nil || !second.at.Equal(start) || first.Token() != second.Token() {
			t.Fatalf("%v and %v after %v", first.err, second.err, second.at.Sub(start))
		}
		release(t, first.Lease)
		assert.Equal(t, len(stranger), 0, "a stranger was let in")
		release(t, second.Lease)
		release(t, (<-stranger).Lease)
	})
}

func TestAnEntryOfUnknownOutcomeIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		alice := holdfast.Owner("alice")
		l := mustLock(t, a.Mutex("a", alice))
		w.LoseReply(only("acquire", 4, errLink))
		_, err := b.Mutex("a", alice).TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrUnknownOutcome)
		synctest.Wait()
		wantCount(t, a, 1)
		// A lost answer to the release of an entry is no error.
		second := mustLock(t, b.Mutex("a", alice))
		w.LoseReply(only("release", 1, errLink))
		release(t, second)
		wantCount(t, a, 1)
		// A wait that was given up leaves no position.
		ctx, cancel := context.WithCancel(t.Context())
		gone := w.waiting(b.Mutex("a", holdfast.Owner("bob")), ctx)
		cancel()
		assert.Is(t, (<-gone).err, context.Canceled)
		synctest.Wait()
		release(t, l)
		w.wantFree("a")
	})
}

func TestErrNotHeldAndErrHeldByOtherDiffer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		for _, owner := range []string{"", "alice"} {
			var options []holdfast.MutexOption
			if owner != "" {
				options = append(options, holdfast.Owner(owner))
			}
			l := mustLock(t, a.Mutex("a", options...))
			w.Flush()
			err := l.Release(t.Context())
			assert.Is(t, err, holdfast.ErrNotHeld)
			assert.False(t, strings.Contains(err.Error(), "somebody else"), "nobody has it: %v", err)
			l = mustLock(t, a.Mutex("a", options...))
			w.Flush()
			time.Sleep(time.Second)
			other := mustLock(t, b.Mutex("a"))
			assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld, holdfast.ErrHeldByOther)
			release(t, other)
		}
	})
}

func TestNamesOfOwnersStandForThemselves(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		for _, name := range []string{"-", "a b", "%kept", "x\u00a0y", "{}", "%2D", "%", c.ID() + "/1"} {
			mu := c.Mutex("a", holdfast.Owner(name))
			l := mustLock(t, mu)
			state, err := c.Holders(t.Context(), "a")
			if err != nil || !state.Held() || state.Holders[0].Owner != name || state.Holders[0].Released {
				t.Errorf("%q: held by %+v (%v)", name, state.Holders, err)
			}
			wantCount(t, c, 1)
			release(t, l)
			w.wantFree("a")
		}
	})
}

func TestNamesOfOwnersThatCannotWorkAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for _, name := range []string{"", strings.Repeat("x", 513), "\xff"} {
			mu := w.client().Mutex("a", holdfast.Owner(name))
			_, err := mu.Lock(t.Context())
			assert.Is(t, err, holdfast.ErrInvalid)
		}
	})
}

// The other entries of an owner keep the hold. So an entry whose release does not arrive would
// remain for as long as there is another, and nobody else would get the lock.
func TestAnEntryEndsThoughItsReleaseArrivesAfterItsLease(t *testing.T) {
	for name, options := range map[string][]holdfast.MutexOption{
		"release":       {holdfast.Owner("ann")},
		"release after": {holdfast.Owner("ann"), holdfast.MinHold(time.Second)},
	} {
		for when, lost := range map[string]bool{"in time": false, "after the loss": true} {
			runBubble(t, name+"/"+when, func(t *testing.T, w *world) {
				c, link := w.mortal(holdfast.Config{})
				away, stays := mustLock(t, c.Mutex("a", options...)), mustLock(t, w.client().Mutex("a", options...))
				link.cut.Store(true)
				if lost {
					<-away.Context().Done()
					assert.Is(t, away.Release(t.Context()), holdfast.ErrNotHeld)
				} else {
					assert.Is(t, away.Release(t.Context()), holdfast.ErrUnknownOutcome)
				}
				time.Sleep(5 * ttl)
				assert.Equal(t, w.state("a").Holders[0].Entries, 2, "entries while one client cannot reach the server")
				link.cut.Store(false)
				time.Sleep(2 * time.Second)
				assert.Equal(t, w.state("a").Holders[0].Entries, 1, "entries")
				release(t, stays)
				time.Sleep(time.Second)
				w.wantFree("a")
			})
		}
	}
}

// A reentrant mutex under the lease of a read-write lock of the same name would wait for itself.
func TestAMutexIsNotReenteredUnderALeaseOfAnRWMutex(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		for name, take := range map[string]func(context.Context) (*holdfast.Lease, error){
			"reader": c.RWMutex("m").RLock, "writer": c.RWMutex("m").Lock,
		} {
			l := must(t, take)
			ctx, cancel := context.WithTimeout(l.Context(), time.Second)
			inner, err := c.Mutex("m", holdfast.Reentrant()).Lock(ctx)
			assert.True(t, inner == nil && errors.Is(err, holdfast.ErrDeadlock),
				"under the %s's lease: %v, %v", name, inner, err)
			cancel()
			release(t, l)
		}
	})
}

func TestALockUnderTheContextOfItsOwnLeaseIsRefusedAsADeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		refused := func(ctx context.Context) {
			t.Helper()
			_, err := a.Mutex("a").Lock(ctx)
			assert.Is(t, err, holdfast.ErrDeadlock)
			_, err = a.Mutex("a").TryLock(ctx)
			assert.Is(t, err, holdfast.ErrDeadlock)
		}
		refused(l.Context())
		child, cancel := context.WithTimeout(l.Context(), time.Second)
		defer cancel()
		refused(child)

		other, err := a.Mutex("b").Lock(l.Context())
		assert.Must(t, err)
		refused(other.Context()) // it is still under both leases
		_, err = b.Mutex("a").TryLock(l.Context())
		assert.Is(t, err, holdfast.ErrHeld) // a lease of another client does not count
		release(t, other)

		ctx := context.WithoutCancel(l.Context())
		release(t, l)
		again, err := a.Mutex("a").Lock(ctx)
		assert.Must(t, err)
		release(t, again)
		err = a.Mutex("a").Do(t.Context(), func(ctx context.Context) error {
			refused(ctx)
			return a.Mutex("b").Do(ctx, func(ctx context.Context) error { refused(ctx); return nil })
		})
		assert.NoError(t, err)
	})
}
