// A lock with a lock-delay that is lost passes on no earlier than that after its holder has stopped trusting it (G37).
// So a pause and a write that travels meet no next holder, nor does a step of the server's clock (G38).

package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
)

// delayed is a hold of a lock with a lock-delay, and how another client gets the same lock.
type delayed struct {
	ctx       context.Context
	release   func(context.Context) error
	remaining func() time.Duration
	next      func(context.Context) (*holdfast.Lease, error)
}

func delay(l *holdfast.Lease, next func(context.Context) (*holdfast.Lease, error)) delayed {
	return delayed{l.Context(), l.Release, l.Remaining, next}
}

// kindsWithDelay acquire each kind of lock under the name a, for the first client, with these options.
var kindsWithDelay = map[string]func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed{
	"mutex": func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed {
		return delay(mustLock(t, c.Mutex("a", as[holdfast.MutexOption](o)...)), other.Mutex("a").Lock)
	},
	"without renewal": func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed {
		own := append(as[holdfast.MutexOption](o), holdfast.NoRenewal())
		return delay(mustLock(t, c.Mutex("a", own...)), other.Mutex("a").Lock)
	},
	"minimum time": func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed {
		own := append(as[holdfast.MutexOption](o), holdfast.MinHold(time.Second))
		return delay(mustLock(t, c.Mutex("a", own...)), other.Mutex("a").Lock)
	},
	"maximum time": func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed {
		own := append(as[holdfast.MutexOption](o), holdfast.MaxHold(40*time.Second))
		return delay(mustLock(t, c.Mutex("a", own...)), other.Mutex("a").Lock)
	},
	"named owner": func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed {
		own := append(as[holdfast.MutexOption](o), holdfast.Owner("alice"))
		return delay(mustLock(t, c.Mutex("a", own...)), other.Mutex("a").Lock)
	},
	"writer": func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed {
		return delay(must(t, c.RWMutex("a", as[holdfast.RWMutexOption](o)...).Lock), other.RWMutex("a").RLock)
	},
	"reader": func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed {
		return delay(must(t, c.RWMutex("a", as[holdfast.RWMutexOption](o)...).RLock), other.RWMutex("a").Lock)
	},
	"converted": func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed {
		l := must(t, c.RWMutex("a", as[holdfast.RWMutexOption](o)...).Lock)
		assert.Must(t, errors.Join(l.Downgrade(t.Context()), l.Upgrade(t.Context()), l.Downgrade(t.Context())))
		return delay(l, other.RWMutex("a").Lock)
	},
	"permits": func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed {
		l := must(t, permits(c.Semaphore("a", 3, as[holdfast.SemaphoreOption](o)...), 3))
		assert.Must(t, l.KeepPermits(t.Context(), 2))
		return delay(l, permits(other.Semaphore("a", 3), 2))
	},
	"several": func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed {
		l := mustLockAll(t, c.MultiMutex([]string{"a", "b"}, as[holdfast.LockOption](o)...))
		return delayed{l.Context(), l.Release, l.Remaining, other.Mutex("a").Lock}
	},
	"leader": func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed {
		lead := mustCampaign(t, c.Election("a", as[holdfast.LockOption](o)...), "one")
		return delayed{lead.Context(), lead.Release, lead.Remaining, other.Mutex("a").Lock}
	},
	"extended": func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed {
		l := mustLock(t, c.Mutex("a", as[holdfast.MutexOption](o)...))
		assert.Must(t, l.Extend(t.Context(), 2*ttl))
		return delay(l, other.Mutex("a").Lock)
	},
	"shortened": func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed {
		l := mustLock(t, c.Mutex("a", as[holdfast.MutexOption](o)...))
		assert.Must(t, l.Shorten(t.Context(), ttl/3))
		return delay(l, other.Mutex("a").Lock)
	},
	"pushed": func(t *testing.T, c, other *holdfast.Client, o ...holdfast.Option) delayed {
		first := mustLock(t, other.Mutex("a"))
		second := acquiring(t.Context(), c.Mutex("a", as[holdfast.MutexOption](o)...).Lock)
		time.Sleep(time.Second)
		release(t, first)
		got := <-second
		assert.Must(t, got.err)
		return delay(keep(got.Lease), other.Mutex("a").Lock)
	},
}

// as are options of every kind, as options of one kind.
func as[O any](options []holdfast.Option) (own []O) {
	for _, o := range options {
		own = append(own, any(o).(O))
	}
	return own
}

var lockDelays = []time.Duration{500 * time.Millisecond, 15 * time.Second, 10 * time.Minute}

// everyKindWithDelay runs f for each kind of lock and each lock-delay.
func everyKindWithDelay(t *testing.T, f func(t *testing.T, w *world, d time.Duration, hold func() delayed)) {
	t.Helper()
	for name, kind := range kindsWithDelay {
		for _, d := range lockDelays {
			runBubble(t, name+" "+d.String(), func(t *testing.T, w *world) {
				c, other := w.client(), w.client()
				f(t, w, d, func() delayed {
					t.Helper()
					return kind(t, c, other, holdfast.LockDelay(d))
				})
			})
		}
	}
}

// The server keeps the lease for longer than the client trusts it, by the lock-delay, from the grant on: it is also so
// while nobody has confirmed a push, and after every call that gives the lease another time.
func TestNoLeaseIsTrustedForItsLockDelay(t *testing.T) {
	everyKindWithDelay(t, func(t *testing.T, w *world, d time.Duration, hold func() delayed) {
		if strings.Contains(t.Name(), "pushed") {
			w.FailRequest(only("renew", 1, errLink)) // the confirmation
		}
		held := hold()
		h := w.state("a").Holders[0]
		trusted := held.remaining()
		assert.True(t, trusted > 0 && trusted+d <= h.Remaining && trusted+d >= h.Remaining-time.Second,
			"trusted for %v, and the server keeps it for %v", trusted, h.Remaining)
		assert.Equal(t, h.LockDelay, d, "the lock-delay that an operator sees")
	})
}

// The holder is cut off, and stops trusting its lease. The next client gets the lock a lock-delay later, and soon after
// that, whether the holder says that its work has ended or not.
func TestALostLockIsKeptForItsLockDelay(t *testing.T) {
	for _, releases := range []bool{true, false} {
		everyKindWithDelay(t, func(t *testing.T, w *world, d time.Duration, hold func() delayed) {
			held := hold()
			next := acquiring(t.Context(), held.next)
			time.Sleep(ttl / 10)
			w.FailRequest(only("renew", -1, errLink))
			assert.Is(t, ended(held.ctx), holdfast.ErrLost)
			lost := time.Now()
			if releases {
				assert.Is(t, held.release(t.Context()), holdfast.ErrNotHeld)
			}
			time.Sleep(d - time.Nanosecond)
			waits(t, "the next client", next)
			got := <-next
			assert.Must(t, got.err)
			assert.AtMost(t, got.at.Sub(lost), d+ttl/30, "the next client got the lock after")
		})
	}
}

// An operator asks for the end of a lease that is lost, before its holder releases it or after that.
func TestAnEvictionOfALostLockWaitsForTheLockDelay(t *testing.T) {
	const d = 5 * time.Second
	for name, kind := range kindsWithDelay {
		for _, first := range []bool{true, false} {
			runBubble(t, fmt.Sprint(name, " evicted first: ", first), func(t *testing.T, w *world) {
				held := kind(t, w.client(), w.client(), holdfast.LockDelay(d))
				next := acquiring(t.Context(), held.next)
				w.FailRequest(only("renew", -1, errLink))
				assert.Is(t, ended(held.ctx), holdfast.ErrLost)
				lost := time.Now()
				w.FailRequest(nil)
				if first {
					evict(t, w.client(), "a", 0)
				}
				assert.Is(t, held.release(t.Context()), holdfast.ErrNotHeld)
				time.Sleep(time.Second)
				if !first {
					evict(t, w.client(), "a", 0)
				}
				got := <-next
				after := got.at.Sub(lost)
				assert.True(t, got.err == nil && after >= d && after <= d+2*time.Second, "%v, after %v", got.err, after)
			})
		}
	}
}

// A process was paused past its deadline. What it does next is to release the lock or to end, before a timer of its
// own has reported the loss.
func TestAReleasePastTheDeadlineKeepsTheLockDelay(t *testing.T) {
	const d = 5 * time.Second
	for name, kind := range kindsWithDelay {
		for _, closes := range []bool{false, true} {
			runBubble(t, fmt.Sprint(name, " closes: ", closes), func(t *testing.T, w *world) {
				c, machine := w.awake(holdfast.Config{})
				held := kind(t, c, w.client(), holdfast.LockDelay(d))
				next := acquiring(t.Context(), held.next)
				machine.sleep(3 * ttl)
				start, most := time.Now(), d+100*time.Millisecond
				if closes {
					most += 3 * ttl // until the lease ends on the server
					assert.NoError(t, c.Close(t.Context()))
				} else {
					assert.Is(t, held.release(t.Context()), holdfast.ErrNotHeld)
				}
				got := <-next
				after := got.at.Sub(start)
				assert.True(t, got.err == nil && after >= d && after <= most, "%v, after %v", got.err, after)
			})
		}
	}
}

// Of several locks, one was extended and another one was not. A release past the deadline of that one keeps both.
func TestAReleasePastTheFirstDeadlineOfSeveralLocksKeepsAll(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const d = 5 * time.Second
		c, machine := w.awake(holdfast.Config{})
		l := mustLockAll(t, c.MultiMutex([]string{"a", "b"}, holdfast.LockDelay(d)))
		w.FailRequest(func(_ string, keys []string) error {
			if keys[0] == "holdfast:{a}" {
				return errLink
			}
			return nil
		})
		assert.Is(t, l.Extend(t.Context(), 3*ttl), holdfast.ErrUnknownOutcome)
		w.FailRequest(nil)
		machine.sleep(2 * ttl)
		start := time.Now()
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
		mustLock(t, w.client().Mutex("b"))
		after := time.Since(start)
		assert.True(t, after >= d && after <= d+100*time.Millisecond, "the extended lock was free after %v", after)
	})
}

// Of two processes in one owner's name, one is cut off and releases its lost lease. The release of the other one does
// not free the lock before the lock-delay is over.
func TestAnEntryOfAnOwnerKeepsItsLockDelayWhenAnotherReleases(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const d = 5 * time.Second
		options := []holdfast.MutexOption{holdfast.Owner("alice"), holdfast.LockDelay(d)}
		c, link := w.mortal(holdfast.Config{})
		one, two := mustLock(t, c.Mutex("a", options...)), mustLock(t, w.client().Mutex("a", options...))
		next := w.waiting(w.client().Mutex("a"), t.Context())
		link.cut.Store(true)
		assert.Is(t, ended(one.Context()), holdfast.ErrLost)
		lost := time.Now()
		link.cut.Store(false)
		assert.Is(t, one.Release(t.Context()), holdfast.ErrNotHeld)
		release(t, two)
		got := <-next
		assert.Must(t, got.err)
		assert.Equal(t, got.at.Sub(lost), d, "the next client got the lock after")
	})
}

// A renewal whose answer is lost makes the lease last longer on the server. The release after the loss ends that.
func TestAReleaseAfterALossFreesTheLockAfterItsLockDelay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const d = 5 * time.Second
		l := mustLock(t, w.client().Mutex("a", holdfast.LockDelay(d)))
		next := w.waiting(w.client().Mutex("a"), t.Context())
		w.LoseReply(only("renew", -1, errLink))
		assert.Is(t, ended(l.Context()), holdfast.ErrLost)
		lost := time.Now()
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
		got := <-next
		assert.Must(t, got.err)
		assert.Equal(t, got.at.Sub(lost).Round(100*time.Millisecond), d, "the next client got the lock after")
	})
}

func TestAReleaseFreesALockWithALockDelayAtOnce(t *testing.T) {
	everyKindWithDelay(t, func(t *testing.T, _ *world, _ time.Duration, hold func() delayed) {
		held := hold()
		next := acquiring(t.Context(), held.next)
		time.Sleep(ttl / 5)
		waits(t, "the next client", next)
		start := time.Now()
		assert.NoError(t, held.release(t.Context()))
		got := <-next
		assert.True(t, got.err == nil && got.at.Equal(start), "%v, after %v", got.err, got.at.Sub(start))
	})
}

// One of several locks is lost, and the lease on all with it. Each of them is kept for the lock-delay, also if an
// operator evicts it then, and if the client closes.
func TestTheLossOfOneOfSeveralLocksKeepsAllForTheLockDelay(t *testing.T) {
	const d = 5 * time.Second
	for _, then := range []string{"Release", "Release, Evict", "Close"} {
		runBubble(t, then, func(t *testing.T, w *world) {
			c := w.client()
			l := mustLockAll(t, c.MultiMutex([]string{"a", "b"}, holdfast.LockDelay(d)))
			takeAway(t, w.client(), "b", 0)
			assert.Is(t, ended(l.Context()), holdfast.ErrLost)
			lost, most := time.Now(), d+100*time.Millisecond
			if then == "Close" {
				most += ttl
				assert.NoError(t, c.Close(t.Context()))
			} else {
				assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
			}
			if then == "Release, Evict" {
				most += ttl
				evict(t, w.client(), "a", 0)
			}
			mustLock(t, w.client().Mutex("a"))
			after := time.Since(lost)
			assert.True(t, after >= d && after <= most, "the other lock was free after %v", after)
		})
	}
}

// The server's clock is set forward by less than the lock-delay: a client whose renewals do not arrive still stops
// trusting its lease before the next one has the lock. Without a lock-delay both trust theirs.
func TestAClockThatIsSetForwardByLessThanTheLockDelayLetsNobodyIn(t *testing.T) {
	const step = 14 * time.Second
	overlaps := func(t *testing.T, w *world, hold func(c, other *holdfast.Client) delayed) bool {
		c, slept := w.awake(holdfast.Config{})
		other, others := w.awake(holdfast.Config{})
		held := hold(c, other)
		w.FailRequest(only("renew", -1, errLink))
		time.Sleep(ttl / 10)
		w.Advance(step)
		slept.sleep(-step) // the clients' clocks are as before
		others.sleep(-step)
		for {
			brief, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			l, err := held.next(brief)
			cancel()
			if err == nil {
				keep(l)
				return held.ctx.Err() == nil
			}
		}
	}
	for name, kind := range kindsWithDelay {
		if name == "maximum time" { // half of its time is over when its renewals end
			continue
		}
		for _, d := range []time.Duration{step + time.Millisecond, time.Minute} {
			runBubble(t, name+" "+d.String(), func(t *testing.T, w *world) {
				assert.False(t, overlaps(t, w, func(c, other *holdfast.Client) delayed {
					return kind(t, c, other, holdfast.LockDelay(d))
				}), "two clients trust their leases")
			})
		}
	}
	runBubble(t, "without", func(t *testing.T, w *world) {
		assert.True(t, overlaps(t, w, func(c, other *holdfast.Client) delayed {
			return kindsWithDelay["mutex"](t, c, other)
		}), "the step has no effect")
	})
}

// An eviction waits for the holder's release and the lock-delay after it, or for the end of the lease on the server.
func TestAnEvictionWaitsForTheLockDelay(t *testing.T) {
	const d = 5 * time.Second
	evictedOf := func(t *testing.T, w *world, name string) (held delayed, next <-chan outcome) {
		held = kindsWithDelay[name](t, w.client(), w.client(), holdfast.LockDelay(d))
		next = acquiring(t.Context(), held.next)
		evict(t, w.client(), "a", 0)
		wantEvicted(t, ended(held.ctx))
		return held, next
	}
	for name := range kindsWithDelay {
		if name == "without renewal" { // its holder does not learn of it
			continue
		}
		runBubble(t, name, func(t *testing.T, w *world) {
			held, next := evictedOf(t, w, name)
			left := w.state("a").Holders[0].Remaining
			start := time.Now()
			wantEvicted(t, held.release(t.Context()))
			time.Sleep(d - time.Nanosecond)
			waits(t, "the next client", next)
			got := <-next
			after := got.at.Sub(start)
			if name != "named owner" && name != "shortened" { // nobody shortens the hold of an owner
				left = d + time.Second
			}
			assert.True(t, got.err == nil && after <= left+time.Second, "%v, after %v", got.err, after)
		})
	}
	runBubble(t, "at once", func(t *testing.T, w *world) {
		held := kindsWithDelay["mutex"](t, w.client(), w.client(), holdfast.LockDelay(d))
		next := acquiring(t.Context(), held.next)
		takeAway(t, w.client(), "a", 0)
		done(t, "the next client", next)
	})
}

// Goroutines of a process hand a lease over only if they want the same lock-delay. A re-entry has that of its lease.
func TestAHandOverIsForTheSameLockDelay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const d = 5 * time.Second
		c := w.client()
		short := c.Mutex("a", holdfast.LockDelay(d), holdfast.Reentrant())
		l := mustLock(t, short)
		same, other := acquiring(t.Context(), short.Lock), acquiring(t.Context(), c.Mutex("a").Lock)
		again, err := c.Mutex("a", holdfast.LockDelay(2*d), holdfast.Reentrant()).Lock(l.Context())
		assert.Must(t, err)
		assert.Equal(t, again.HolderID(), l.HolderID(), "the re-entry's hold")
		release(t, again)
		release(t, l)
		second := done(t, "the goroutine with the same lock-delay", same)
		assert.Equal(t, second.HolderID(), l.HolderID(), "its hold")
		release(t, second)
		third := done(t, "the goroutine without one", other)
		assert.True(t, third.HolderID() != l.HolderID() && w.state("a").Holders[0].LockDelay == 0,
			"it has the hold %s", third.HolderID())
		release(t, third)
	})
}

// Another process that extends the lease by its ID keeps the lock for the lock-delay, too.
func TestALeaseOfAnotherProcessIsExtendedWithItsLockDelay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const d = 5 * time.Second
		l, err := w.client().ExtendLease(t.Context(), w.handed(holdfast.LockDelay(d)), time.Hour)
		assert.Must(t, err)
		assert.True(t, l.Remaining < time.Hour && w.left("a") == time.Hour+d, "%v of %v", l.Remaining, w.left("a"))
		assert.NoError(t, w.client().ReleaseLease(t.Context(), l))
		w.wantFree("a")
	})
}

// A job whose run was lost is not run again before the lock-delay has passed.
func TestARunThatWasLostIsFollowedAfterItsLockDelay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const d = 5 * time.Second
		job := func() *holdfast.Periodic {
			return w.client().Periodic("a", time.Hour, holdfast.LockDelay(d), holdfast.DoneOnSuccess(2))
		}
		var lost time.Time
		_, err := job().Do(t.Context(), func(ctx context.Context) error {
			w.FailRequest(only("renew", -1, errLink))
			cause := ended(ctx)
			lost = time.Now()
			w.FailRequest(nil)
			return cause
		})
		assert.Is(t, err, holdfast.ErrLost)
		waiting := w.client().Periodic("a", time.Hour, holdfast.DoneOnSuccess(2), holdfast.MaxWait(time.Minute))
		result, err := waiting.Do(t.Context(), func(context.Context) error {
			after := time.Since(lost)
			assert.True(t, after >= d && after <= d+2*time.Second, "the next run began after %v", after)
			return nil
		})
		assert.True(t, err == nil && result.Ran, "%+v %v", result, err)
	})
}

// On a quorum, a majority of the servers keeps the lease for the lock-delay.
func TestAQuorumKeepsALostLockForItsLockDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const d = 15 * time.Second
		var stores []*memstore.Store
		client := func() *holdfast.Client {
			nodes := make([]store.Store, len(stores))
			for i, s := range stores {
				nodes[i] = s
			}
			s, err := quorum.New(nodes, quorum.Config{MaxTTL: ttl + d})
			assert.Must(t, err)
			c, err := holdfast.New(s, holdfast.Config{})
			assert.Must(t, err)
			t.Cleanup(func() { _ = c.Close(context.Background()); s.Close() })
			return c
		}
		for range 3 {
			stores = append(stores, memstore.New())
		}
		_, err := client().Mutex("a", holdfast.LockDelay(d+time.Millisecond)).Lock(t.Context())
		assert.Is(t, err, quorum.ErrTTLTooLong)
		l := mustLock(t, client().Mutex("a", holdfast.LockDelay(d)))
		next := acquiring(t.Context(), client().Mutex("a").Lock)
		for _, s := range stores {
			s.FailRequest(only("renew", -1, errLink))
		}
		assert.Is(t, ended(l.Context()), holdfast.ErrLost)
		lost := time.Now()
		got := <-next
		after := got.at.Sub(lost)
		assert.True(t, got.err == nil && after >= d && after <= d+2*time.Second, "%v, after %v", got.err, after)
		release(t, got.Lease)
	})
}

func TestALockDelayThatCannotWorkIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const year = 365 * 24 * time.Hour
		c := w.client()
		for want, options := range map[string][]holdfast.MutexOption{
			"the lock-delay is -1ns: it must be at least 0": {holdfast.LockDelay(-1)},
			"the lock-delay is 1.5ms: the server counts in whole milliseconds: use 1ms": {
				holdfast.LockDelay(1500 * time.Microsecond),
			},
			"are together longer than 8760h0m0s: use a shorter LockDelay or TTL": {holdfast.LockDelay(year)},
			"the TTL (1h0m0s) and the lock-delay (8759h0m0.001s) are together longer than": {
				holdfast.LockDelay(year - time.Hour + time.Millisecond), holdfast.TTL(time.Hour),
			},
		} {
			_, err := c.Mutex("a", options...).Lock(t.Context())
			assert.Is(t, err, holdfast.ErrInvalid)
			assert.Contains(t, err.Error(), want)
		}
		_, err := c.RWMutex("a", holdfast.LockDelay(year-time.Hour), holdfast.ReadTTL(2*time.Hour)).Lock(t.Context())
		assert.Is(t, err, holdfast.ErrInvalid)
		_, err = c.Periodic("a", ttl+time.Second, holdfast.LockDelay(2*time.Second)).Do(t.Context(), nil)
		assert.Is(t, err, holdfast.ErrInvalid)
		assert.Equal(t, w.net.total(), 0, "requests")
		l := mustLock(t, c.Mutex("a", holdfast.LockDelay(year-time.Hour)))
		assert.NoError(t, l.Extend(t.Context(), time.Hour))
		assert.Is(t, l.Extend(t.Context(), time.Hour+time.Millisecond), holdfast.ErrInvalid)
		release(t, l)
	})
}
