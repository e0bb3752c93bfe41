// A limit of a hold is kept, of time or of renewals (G31). A minimum time is kept, and not exceeded (G32).

package contract_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestALeaseIsRenewedAtMostSoOften(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		mu := w.client().Mutex("a", holdfast.MaxRenewals(2))
		l := mustLock(t, mu)
		start := time.Now()
		wantLost(t, ended(l.Context()), holdfast.LossLimit)
		want := 2*ttl/3 + trusted // the second renewal went out after two thirds
		if held := time.Since(start); held > want || held < want-2*time.Second || w.net.count("renew") != 2 {
			t.Errorf("held for %v with %d renewals, want %v", held, w.net.count("renew"), want)
		}
		wantLost(t, l.Err(), holdfast.LossLimit)
		err := l.Release(t.Context())
		assert.Is(t, err, holdfast.ErrNotHeld)
		wantLost(t, err, holdfast.LossLimit)

		l = mustLock(t, mu)
		time.Sleep(ttl)
		if err := l.Extend(t.Context(), 2*time.Minute); err != nil { // a call still extends it
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		release(t, l)
	})
}

// The lease ends at its limit. The server grants the next waiter after that, and soon.
// This holds whether the limit is shorter or longer than the lease, and whether the
// holder had to wait or not.
func TestAHoldEndsAtItsLimit(t *testing.T) {
	for _, most := range []time.Duration{10 * time.Millisecond, 5 * time.Second, 29900 * time.Millisecond, ttl,
		100 * time.Second, time.Hour} {
		for _, waits := range []bool{false, true} {
			bubble(t, func(t *testing.T, w *world) {
				mu := w.client().Mutex("a", holdfast.MaxHold(most))
				var l *holdfast.Lease
				if waits {
					before := mustLock(t, w.client().Mutex("a"))
					got := w.waiting(mu, t.Context())
					time.Sleep(most / 2)
					release(t, before)
					l = (<-got).Lease
				} else {
					l = mustLock(t, mu)
				}
				start := time.Now()
				next := w.waiting(w.client().Mutex("a"), t.Context())
				wantLost(t, ended(l.Context()), holdfast.LossLimit)
				held := time.Since(start)
				assert.True(t, held <= most && held >= most-most/50-time.Millisecond,
					"held for %v, may be %v", held, most)
				synctest.Wait()
				assert.Equal(t, len(next), 0, "another was let in before the end")
				got := <-next
				after := got.at.Sub(start)
				assert.True(t, got.err == nil && after >= held && after <= most+ttl/50+50*time.Millisecond,
					"the next came after %v (%v), the limit is %v", after, got.err, most)
				assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
				release(t, got.Lease)
			})
		}
	}
}

func TestNothingExtendsAHoldPastItsLimit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a", holdfast.MaxHold(time.Minute)))
		start := time.Now()
		assert.Must(t, l.Extend(t.Context(), time.Hour))
		if left := w.state("a").Holders[0].Remaining; left > time.Minute+time.Second || l.Remaining() != time.Minute {
			t.Errorf("the server lets nobody in for %v, the lease is trusted for %v", left, l.Remaining())
		}
		wantLost(t, ended(l.Context()), holdfast.LossLimit)
		assert.Equal(t, time.Since(start), time.Minute, "held for")
	})
}

// A conversion begins a new lease, but not a new time limit.
func TestNoConversionGoesPastALimit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const most = time.Minute
		start := time.Now()
		l := must(t, w.client().RWMutex("a", holdfast.MaxHold(most)).Lock)
		next := taking(t, w.client().RWMutex("a").Lock)
		time.Sleep(most - time.Second)
		assert.Must(t, errors.Join(l.Downgrade(t.Context()), l.Upgrade(t.Context())))
		wantLost(t, ended(l.Context()), holdfast.LossLimit)
		assert.Equal(t, time.Since(start), most, "held for")
		waits(t, "another, before the end", next)
		got := <-next
		after := got.at.Sub(start)
		assert.MustTrue(t, got.err == nil && after <= most+ttl/50, "the next came after %v (%v)", after, got.err)
		release(t, got.Lease)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
	})
}

// Readers that share a hold would share its limit. So each has its own hold.
func TestReadersWithLimitsHaveHoldsOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		m := w.client().RWMutex("a", holdfast.MaxHold(time.Minute))
		start := time.Now()
		first := must(t, m.RLock)
		time.Sleep(40 * time.Second)
		second := must(t, m.RLock)
		assert.Equal(t, len(w.state("a").Holders), 2, "holds for two readers")
		wantLost(t, ended(first.Context()), holdfast.LossLimit)
		wantLost(t, ended(second.Context()), holdfast.LossLimit)
		assert.Equal(t, time.Since(start), 100*time.Second, "the second ended after")
		assert.Is(t, first.Release(t.Context()), holdfast.ErrNotHeld)
		assert.Is(t, second.Release(t.Context()), holdfast.ErrNotHeld)
	})
}

// The hold of each goroutine has its own limits, so none is handed over.
func TestAHoldWithLimitsIsNotHandedOverLocally(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		plain, limited := c.Mutex("a"), c.Mutex("a", holdfast.MaxHold(time.Minute))
		first := mustLock(t, plain)
		second := w.waiting(limited, t.Context())
		time.Sleep(time.Hour)
		release(t, first)
		l := (<-second).Lease
		third := w.waiting(plain, t.Context())
		time.Sleep(30 * time.Second)
		release(t, l)
		last := (<-third).Lease
		if last.HolderID() == l.HolderID() || l.HolderID() == first.HolderID() || last.Token() <= l.Token() {
			t.Errorf("holds %s, %s, %s", first.HolderID(), l.HolderID(), last.HolderID())
		}
		time.Sleep(time.Hour)
		release(t, last)
	})
}

// If a lock is released early and is kept, a waiter is told of the earlier end, and polls
// then.
func TestALockIsKeptForItsMinimumTimeAndNotLonger(t *testing.T) {
	for name, drop := range map[string]bool{"told": false, "not told": true} {
		runBubble(t, name, func(t *testing.T, w *world) {
			a := w.client()
			l := mustLock(t, a.Mutex("a", holdfast.MinHold(5*time.Second)))
			start := time.Now()
			next := w.waiting(w.client().Mutex("a"), t.Context())
			here := w.waiting(a.Mutex("a"), t.Context()) // goroutines of the same process wait as well
			time.Sleep(time.Second)
			if drop {
				w.DropPushes(1)
			}
			release(t, l)
			assert.Is(t, ended(l.Context()), holdfast.ErrReleased)
			if s := w.state("a"); !s.Held() || !s.Holders[0].Released || s.Holders[0].Remaining != 4*time.Second {
				t.Errorf("the state is %+v", s.Holders)
			}
			got := <-next
			late := got.at.Sub(start) - 5*time.Second
			assert.True(t, got.err == nil && late >= 0 && late <= 100*time.Millisecond, "%v, %v late", got.err, late)
			release(t, got.Lease)
			release(t, (<-here).Lease)
		})
	}
}

func TestAMinimumTimeThatHasPassedKeepsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		mu := w.client().Mutex("a", holdfast.MinHold(5*time.Second), holdfast.TTL(2*time.Second))
		l := mustLock(t, mu)
		next := w.waiting(w.client().Mutex("a"), t.Context())
		time.Sleep(5 * time.Second)
		start := time.Now()
		release(t, l)
		got := <-next
		assert.True(t, got.at.Equal(start), "handed over %v after the release", got.at.Sub(start))
		release(t, got.Lease)

		l = mustLock(t, mu)
		release(t, l) // its lease would expire before
		time.Sleep(4 * time.Second)
		assert.True(t, assert.Err(mu.TryLock(t.Context())) != nil, "free before its least time")
		time.Sleep(time.Second)
		w.wantFree("a")
	})
}

func TestCloseKeepsALockForItsMinimumTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		mustLock(t, c.Mutex("a", holdfast.MinHold(5*time.Second)))
		assert.NoError(t, c.Close(t.Context()))
		s := w.state("a")
		assert.True(t, s.Held() && s.Holders[0].Remaining == 5*time.Second, "the state is %+v", s.Holders)
		// If the process dies, the lock is free when the lease expires.
		dead := w.client()
		mustLock(t, dead.Mutex("b", holdfast.MinHold(time.Minute)))
		dead.Abandon()
		time.Sleep(ttl)
		w.wantFree("b")
	})
}

func TestALostAnswerDoesNotShortenTheMinimumTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		mu := w.client().Mutex("a", holdfast.MinHold(time.Minute))
		l := mustLock(t, mu)
		time.Sleep(time.Second)
		w.LoseReply(only("release_after", 1, errLink))
		release(t, l)
		assert.Equal(t, w.state("a").Holders[0].Remaining, 59*time.Second, "left")
		time.Sleep(time.Minute)

		l = mustLock(t, mu)
		w.LoseReply(nil)
		w.FailRequest(only("release_after", 5, errLink))
		assert.Is(t, l.Release(t.Context()), holdfast.ErrUnknownOutcome)
		time.Sleep(10 * time.Second) // the background work goes on
		assert.Equal(t, w.state("a").Holders[0].Remaining, 50*time.Second, "left")
		time.Sleep(time.Minute)
		w.wantFree("a")
	})
}

func TestALostLeaseThatMayBeRenewedIsKeptForItsMinimumTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a", holdfast.MinHold(time.Minute)))
		w.LoseReply(only("renew", -1, errLink)) // renewed, but the reply is lost
		wantLost(t, ended(l.Context()), holdfast.LossExpired)
		start := time.Now().Add(-trusted)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
		got := mustLock(t, w.client().Mutex("a"))
		free := time.Since(start)
		assert.True(t, free >= time.Minute && free <= time.Minute+time.Second, "free after %v", free)
		release(t, got)
	})
}

func TestLimitsThatMakeNoSenseAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		for name, options := range map[string][]holdfast.MutexOption{
			"no renewals":        {holdfast.MaxRenewals(0)},
			"both":               {holdfast.NoRenewal(), holdfast.MaxRenewals(3)},
			"no time":            {holdfast.MaxHold(0)},
			"too short":          {holdfast.MaxHold(9 * time.Millisecond)},
			"too long":           {holdfast.MaxHold(400 * 24 * time.Hour)},
			"least too big":      {holdfast.MinHold(2 * time.Minute), holdfast.MaxHold(time.Minute)},
			"no least":           {holdfast.MinHold(0)},
			"no tries":           {holdfast.Tries(0, time.Second)},
			"no interval":        {holdfast.Tries(3, 0)},
			"tries with MaxWait": {holdfast.Tries(3, time.Second), holdfast.MaxWait(time.Minute)},
		} {
			_, err := c.Mutex("a", options...).Lock(t.Context())
			assert.Is(t, err, holdfast.ErrInvalid)
			assert.MustTrue(t, !t.Failed(), "%v", name)
		}
		assert.Equal(t, w.net.count("acquire"), 0, "acquisitions that were sent")
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

// MinHold is never shortened to the server's whole milliseconds.
func TestAMinimumTimeIsNeverShortened(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, other := w.client(), w.client()
		release(t, mustLock(t, c.Mutex("m", holdfast.MinHold(10*time.Millisecond+time.Microsecond))))
		time.Sleep(10*time.Millisecond + time.Microsecond/2)
		_, err := other.Mutex("m").TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrHeld)
		time.Sleep(time.Millisecond)
		release(t, mustLock(t, other.Mutex("m")))
	})
}

func TestReleaseAfterKeepsEverybodyOutForTheDelay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		assert.Must(t, l.ReleaseAfter(over, time.Minute))
		assert.Is(t, ended(l.Context()), holdfast.ErrReleased)
		for _, c := range []*holdfast.Client{a, b} {
			_, err := c.Mutex("a").TryLock(t.Context())
			assert.Is(t, err, holdfast.ErrHeld)
		}
		next := mustLock(t, b.Mutex("a"))
		if waited := time.Since(start); waited < time.Minute || waited > time.Minute+time.Second {
			t.Errorf("the next one came after %v", waited)
		}
		release(t, next)

		l = mustLock(t, a.Mutex("a"))
		assert.NoError(t, l.ReleaseAfter(t.Context(), 0))
		w.wantFree("a")
	})
}

// A hold that runs into its limit and is not released lets everybody else in soon, also those who have waited since
// before its grant: they knew of the longer lease before it.
func TestAHoldThatHangsPastItsLimitKeepsNobodyOut(t *testing.T) {
	const limit = time.Second
	for name, options := range map[string][]holdfast.RWMutexOption{
		"MaxHold": {holdfast.MaxHold(limit)}, "NoRenewal": {holdfast.NoRenewal(), holdfast.TTL(limit)},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			c, before := w.client(), mustLock(t, w.client().Mutex("a"))
			hangs := taking(t, c.RWMutex("a", options...).Lock)
			reader := taking(t, c.RWMutex("a").RLock)
			watcher := make(chan error, 1)
			go func() { watcher <- w.client().RWMutex("a").AwaitReadable(t.Context()) }()
			synctest.Wait()
			release(t, before)
			done(t, "the writer", hangs)
			start := time.Now()
			assert.NoError(t, <-watcher)
			assert.True(t, time.Since(start) < 2*limit, "the watcher waited %v", time.Since(start))
			release(t, done(t, "the reader", reader))
		})
	}
}
