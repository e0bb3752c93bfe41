// An eviction lets nobody hold the lock beside the holder that it asks to end (G36).

package contract_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// taken is a hold of some kind, and another client that waits for the same.
type taken struct {
	ctx     context.Context
	release func(context.Context) error
	next    <-chan outcome
}

// take makes taken of a lease.
func take(l *holdfast.Lease, next <-chan outcome) taken { return taken{l.Context(), l.Release, next} }

// kindsOfHolds acquire each kind of lock under the name a, for the first client.
var kindsOfHolds = map[string]func(t *testing.T, w *world, c, other *holdfast.Client) taken{
	"mutex": func(t *testing.T, w *world, c, other *holdfast.Client) taken {
		return take(mustLock(t, c.Mutex("a")), w.waiting(other.Mutex("a"), t.Context()))
	},
	"minimum time": func(t *testing.T, w *world, c, other *holdfast.Client) taken {
		return take(mustLock(t, c.Mutex("a", holdfast.MinHold(time.Hour))), w.waiting(other.Mutex("a"), t.Context()))
	},
	"writer": func(t *testing.T, _ *world, c, other *holdfast.Client) taken {
		return take(must(t, c.RWMutex("a").Lock), acquiring(t.Context(), other.RWMutex("a").RLock))
	},
	"reader": func(t *testing.T, _ *world, c, other *holdfast.Client) taken {
		return take(must(t, c.RWMutex("a").RLock), acquiring(t.Context(), other.RWMutex("a").Lock))
	},
	"permits": func(t *testing.T, _ *world, c, other *holdfast.Client) taken {
		s := other.Semaphore("a", 3)
		return take(must(t, permits(c.Semaphore("a", 3), 2)), acquiring(t.Context(), permits(s, 2)))
	},
	"named owner": func(t *testing.T, w *world, c, other *holdfast.Client) taken {
		return take(mustLock(t, c.Mutex("a", holdfast.Owner("alice"))), w.waiting(other.Mutex("a"), t.Context()))
	},
	"several": func(t *testing.T, w *world, c, other *holdfast.Client) taken {
		l := mustLockAll(t, c.MultiMutex([]string{"a", "b"}))
		return taken{l.Context(), l.Release, w.waiting(other.Mutex("a"), t.Context())}
	},
	"leader": func(t *testing.T, _ *world, c, other *holdfast.Client) taken {
		lead := mustCampaign(t, c.Election("a"), "one")
		campaign := func(ctx context.Context) (*holdfast.Lease, error) {
			next, err := other.Election("a").Campaign(ctx, "two")
			if err == nil {
				_ = next.Release(ctx)
			}
			return nil, err
		}
		return taken{lead.Context(), lead.Release, acquiring(t.Context(), campaign)}
	},
	"pushed": func(t *testing.T, w *world, c, other *holdfast.Client) taken {
		first := mustLock(t, other.Mutex("a"))
		second := w.waiting(c.Mutex("a"), t.Context())
		synctest.Wait()
		release(t, first)
		got := <-second
		assert.Must(t, got.err)
		return take(keep(got.Lease), w.waiting(other.Mutex("a"), t.Context()))
	},
}

// The holder is told at once, since its client has renewed it. It works for five more seconds, and only its release
// passes the lock on, in the same instant.
func TestAnEvictionPassesTheLockOnWhenTheHolderHasReleased(t *testing.T) {
	for name, kind := range kindsOfHolds {
		runBubble(t, name, func(t *testing.T, w *world) {
			c, other := w.client(), w.client()
			held := kind(t, w, c, other)
			waits(t, "the next client", held.next)
			time.Sleep(ttl / 2)
			start := time.Now()
			evict(t, w.client(), "a", 0)
			wantEvicted(t, ended(held.ctx))
			assert.Equal(t, time.Since(start), 0, "the holder was told after")
			for _, h := range w.state("a").Holders {
				assert.True(t, h.Ending, "an operator sees the hold as %+v", h)
			}
			time.Sleep(5 * time.Second)
			waits(t, "the next client", held.next)
			wantEvicted(t, held.release(t.Context()))
			got := <-held.next
			took := time.Since(start)
			assert.True(t, got.err == nil && took == 5*time.Second, "%v after %v", got.err, took)
		})
	}
}

// A holder that does not listen has the lock until its lease ends on the server, and has stopped to trust it by then.
// No renewal, no extension, no conversion and no re-entry of another process makes that later.
func TestAnEvictedHolderThatDoesNothingLosesTheLockWithItsLease(t *testing.T) {
	for name, kind := range kindsOfHolds {
		runBubble(t, name, func(t *testing.T, w *world) {
			w.DropPushes(-1)
			c, other := w.client(), w.client()
			held := kind(t, w, c, other)
			waits(t, "the next client", held.next)
			w.FailRequest(only("renew", -1, errLink))
			left := w.state("a").Holders[0].Remaining
			start := time.Now()
			evict(t, w.client(), "a", 0)
			assert.Is(t, ended(held.ctx), holdfast.ErrLost)
			trusted := time.Since(start)
			got := <-held.next
			assert.Must(t, got.err)
			after := time.Since(start)
			assert.True(t, after >= left && after >= trusted,
				"the next client got the lock after %v of %v; the holder trusted it for %v", after, left, trusted)
			assert.AtMost(t, after, ttl+2*time.Second, "the next client got the lock after")
		})
	}
}

// The holder's client has not renewed yet, and has no subscription: it learns with its first renewal.
func TestAnEvictedHolderLearnsWithItsNextRenewalAtTheLatest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		time.Sleep(time.Second)
		start := time.Now()
		evict(t, w.client(), "a", 0)
		wantEvicted(t, ended(l.Context()))
		assert.AtMost(t, time.Since(start), ttl/3, "the holder was told after")
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
		w.wantFree("a")
	})
}

// Calls on an evicted lease that would make it longer or change it are refused, and say why. Those that give a part
// back go on.
func TestNothingProlongsAnEvictedHold(t *testing.T) {
	for name, call := range map[string]func(t *testing.T, l *holdfast.Lease) error{
		"extend":    func(t *testing.T, l *holdfast.Lease) error { return l.Extend(t.Context(), time.Hour) },
		"downgrade": func(t *testing.T, l *holdfast.Lease) error { return l.Downgrade(t.Context()) },
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			l := must(t, w.client().RWMutex("a").Lock)
			evict(t, w.client(), "a", 0)
			left := w.state("a").Holders[0].Remaining
			assert.Is(t, call(t, l), holdfast.ErrNotHeld)
			wantEvicted(t, l.Err())
			assert.Equal(t, w.state("a").Holders[0].Remaining, left, "what is left of the lease")
			assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
			w.wantFree("a")
		})
	}
}

// The readers of a process share a hold. The lock passes on with the last of them; a new reader of the process queues.
func TestAnEvictedHoldOfReadersPassesOnWithTheLastOfThem(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, other := w.client(), w.client()
		one, two := must(t, c.RWMutex("a").RLock), must(t, c.RWMutex("a").RLock)
		alone := must(t, other.RWMutex("a").RLock)
		next := acquiring(t.Context(), w.client().RWMutex("a").Lock)
		time.Sleep(ttl / 2)
		evict(t, w.client(), "a", one.Token())
		wantEvicted(t, ended(two.Context()))
		assert.NoError(t, alone.Err()) // another process
		wantEvicted(t, one.Release(t.Context()))
		release(t, alone)
		waits(t, "the writer", next)
		wantPassedOnWith(t, two, next, acquiring(t.Context(), c.RWMutex("a").RLock))
	})
}

// wantPassedOnWith releases the last lease of an evicted hold. Until then the next client waits, and so does late,
// which could join the hold if it were not evicted.
func wantPassedOnWith(t *testing.T, last *holdfast.Lease, next, late <-chan outcome) {
	t.Helper()
	waits(t, "the next client", next)
	waits(t, "a late client", late)
	wantEvicted(t, last.Release(t.Context()))
	release(t, done(t, "the next client", next))
	release(t, done(t, "a late client", late))
}

// The entries of a named owner are in two processes. Each is told, and the lock passes on with the last release.
func TestAnEvictedOwnerEndsInAllItsProcesses(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alice := holdfast.Owner("alice")
		one, two := mustLock(t, w.client().Mutex("a", alice)), mustLock(t, w.client().Mutex("a", alice))
		next := w.waiting(w.client().Mutex("a"), t.Context())
		time.Sleep(ttl / 2)
		evict(t, w.client(), "a", 0)
		wantEvicted(t, ended(one.Context()))
		wantEvicted(t, ended(two.Context()))
		late := w.waiting(w.client().Mutex("a", alice), t.Context())
		wantEvicted(t, one.Release(t.Context()))
		wantPassedOnWith(t, two, next, late)
	})
}

// A goroutine of the holder's own process does not get the lock beside the evicted one either.
func TestAnEvictionByTheHoldersOwnClientDoesNotOverlap(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLock(t, c.Mutex("a"))
		next := w.waiting(c.Mutex("a"), t.Context())
		synctest.Wait()
		evict(t, c, "a", l.Token())
		wantEvicted(t, l.Err())
		waits(t, "the next goroutine", next)
		_, err := c.Mutex("a").TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrHeld)
		wantEvicted(t, l.Release(t.Context()))
		release(t, done(t, "the next goroutine", next))
	})
}

// If the work ends before the holder learns of its eviction, nothing was lost: the release is one like any other.
func TestAReleaseBeforeTheHolderLearnsIsNoLoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		err := w.client().Mutex("a").Do(t.Context(), func(context.Context) error {
			evict(t, w.client(), "a", 0)
			return nil
		})
		assert.NoError(t, err)
		w.wantFree("a")
	})
}

// A client that holds locks makes one subscription, with its first renewal, and none for locks that it holds briefly.
// If it is refused, the client tries again a minute later, and no lease suffers.
func TestAHolderSubscribesOnceAndOnlyIfItIsRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, net := w.pushlessClient(errNoPerm, holdfast.Config{})
		for range 100 {
			release(t, mustLock(t, c.Mutex("brief")))
			time.Sleep(time.Second)
		}
		assert.Equal(t, net.asked.Load(), 0, "subscriptions that were asked for brief holds")
		one, two := mustLock(t, c.Mutex("a")), mustLock(t, c.Mutex("b"))
		time.Sleep(ttl / 2)
		net.refuse.Store(nil)
		time.Sleep(ttl)
		assert.Equal(t, c.Stats().Subscriptions, 0, "subscriptions, soon after one was refused")
		time.Sleep(time.Hour)
		assert.Equal(t, c.Stats().Subscriptions, 1, "subscriptions of two holds")
		assert.Equal(t, net.asked.Load(), 2, "subscriptions that were asked for two holds")
		release(t, one)
		release(t, two)
	})
}
