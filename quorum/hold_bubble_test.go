package quorum_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
)

func TestALockIsHeldOnAllServersAndReleasedOnAll(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := w.lock(a, "x")
		w.wantOn("x", "11111")
		assert.Is(t, assert.Err(b.Mutex("x").TryLock(t.Context())), holdfast.ErrHeld)
		w.wantOn("x", "11111")
		w.release(l)
		w.wantOn("x", "00000")
		m := w.lock(b, "x")
		assert.More(t, m.Token(), l.Token(), "token")
		w.release(m)
	})
}

func TestTheLossOfAnyTwoServersCostsNothing(t *testing.T) {
	for first := range 5 {
		for second := range first {
			bubble(t, func(t *testing.T, w *world) {
				a, b := w.client(), w.client()
				l := w.lock(a, "x")
				w.peers[first].kill()
				w.peers[second].kill()
				time.Sleep(3 * ttl)
				err := l.Err()
				assert.MustTrue(t, err == nil, "without %d and %d: %v", first, second, err)
				assert.Is(t, assert.Err(b.Mutex("x").TryLock(t.Context())), holdfast.ErrHeld)
				w.release(l)
				m := w.lock(b, "x")
				assert.More(t, m.Token(), l.Token(), "token")
				w.release(m)
			})
		}
	}
}

func TestWithoutAMajorityTheErrorNamesTheServers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.client()
		w.release(w.lock(a, "x"))
		synctest.Wait() // a majority has released; the other servers are about to
		for _, i := range []int{0, 2, 3} {
			w.peers[i].kill()
		}
		_, err := a.Mutex("x").TryLock(t.Context())
		assert.Is(w.t, err, holdfast.ErrUnknownOutcome)
		var short *quorum.NoMajorityError
		assert.MustTrue(t, errors.As(err, &short) && short.Have == 2 && short.Nodes == 5, "error %v", err)
		for _, name := range []string{"server-0", "server-2", "server-3", "connection refused"} {
			assert.True(t, strings.Contains(err.Error(), name), "error %q does not name %s", err, name)
		}
		for _, i := range []int{0, 2, 3} {
			w.peers[i].revive(false)
		}
		time.Sleep(2 * time.Second) // failed cancels are sent again
		w.wantOn("x", "00000")
	})
}

func TestARefusalByAMajorityNamesTheServers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.client()
		w.release(w.lock(a, "x"))
		synctest.Wait() // a release returns before the last servers have it, and those would say that it is held
		for _, i := range []int{0, 2, 3} {
			w.peers[i].FailRequest(func(string, []string) error {
				return &holdfast.ServerError{Code: "OOM", Message: "OOM no memory"}
			})
		}
		_, err := a.Mutex("x").TryLock(t.Context())
		var refused *holdfast.ServerError
		assert.MustTrue(t, errors.As(err, &refused) && refused.Code == "OOM", "error %v", err)
		for _, name := range []string{"server-0", "server-2", "server-3", "OOM no memory"} {
			assert.Contains(t, err.Error(), name)
		}
	})
}

// A proxy in front of a server passes requests on, and answers in place of the server. The hold there is cancelled.
func TestAnAnswerOfAProxyLeavesNoHold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.release(w.lock(c, "x"))
		synctest.Wait()
		var over atomic.Bool
		for _, i := range []int{0, 2, 3} {
			w.peers[i].LoseReply(func(string, []string) error {
				if over.Load() {
					return nil
				}
				return &store.ServerError{Code: "ERR", Message: "ERR upstream failure", MayHaveRun: true}
			})
		}
		assert.Is(t, assert.Err(c.Mutex("x").TryLock(t.Context())), holdfast.ErrUnknownOutcome)
		over.Store(true)
		time.Sleep(2 * time.Second) // failed cancels are sent again
		w.wantOn("x", "00000")
		w.release(w.lock(c, "x"))
	})
}

// A server refuses one lock to the user, and another server is away. The leases of the other locks live on.
func TestARefusedLockCostsTheOthersNoVote(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		names, leases := []string{"a", "b", "c", "d", "e"}, map[string]*holdfast.Lease{}
		for _, name := range names {
			leases[name] = w.lock(c, name)
		}
		for _, p := range w.peers[:2] {
			p.FailRequest(func(action string, keys []string) error {
				if action == "renew" && slices.Contains(keys, "holdfast:{b}") {
					return &store.ServerError{Code: "NOPERM", Message: "NOPERM No permissions to access a key"}
				}
				return nil
			})
		}
		w.kill(4)
		time.Sleep(ttl / 2)
		w.kill(3)
		time.Sleep(3 * ttl)
		for _, name := range names {
			err := leases[name].Err()
			assert.Equal(t, err == nil, name != "b", "the lease of %q lives: %v", name, err)
		}
	})
}

func TestAServerThatComesBackHoldsTheLeaseAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		w.release(w.lock(b, "y"))
		w.kill(3, 4)
		l := w.lock(a, "x")
		w.wantOn("x", "11100")
		w.peers[3].revive(false)
		w.peers[4].revive(true)
		time.Sleep(ttl / 2) // one renewal
		w.wantOn("x", "11111")
		time.Sleep(ttl) // two more renewals; from the second on they vouch
		w.kill(0, 1)
		time.Sleep(3 * ttl)
		assert.NoError(t, l.Err())
		w.release(l)
	})
}

// The renewals of an extended lease are rarer than the first TTL is long. So a server on which it is
// restored must hold it for the TTL of the renewals, or it never vouches.
func TestAnExtendedLeaseIsRestoredForItsWholeTTL(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, err := w.client().Mutex("x", holdfast.TTL(5*time.Second)).TryLock(t.Context())
		assert.Must(t, err)
		assert.Must(t, l.Extend(t.Context(), time.Minute))
		w.peers[3].revive(true)
		w.peers[4].revive(true)
		time.Sleep(21 * time.Second) // one renewal
		w.wantOn("x", "11111")
		time.Sleep(18 * time.Second) // the next one is due
		w.wantOn("x", "11111")
		time.Sleep(22 * time.Second) // and one more: they vouch
		w.kill(0, 1)
		time.Sleep(2 * time.Minute)
		assert.NoError(t, l.Err())
		w.release(l)
	})
}

func TestAServerThatWasJustBroughtBackDoesNotVouchForTheTimeBefore(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		a := w.client()
		w.kill(3, 4)
		l := w.lock(a, "x")
		w.wantOn("x", "11100")
		// Two servers forget the lease. If only one server remembers it, the lease ends,
		// because another client could have had a majority in between.
		w.revive(3, 4)
		w.peers[1].Restart()
		w.peers[2].Restart()
		<-l.Context().Done()
		assert.Is(w.t, context.Cause(l.Context()), holdfast.ErrLost)
		held := a.ID()
		assert.True(t, held != "", "no identity")
		on := w.on("x")
		assert.True(t, strings.Count(on, "1") <= 1, "a lost lease was brought back to %s", on)
	})
}

// If a renewal made a server hold the lease, the server vouches from the second renewal
// after that. Before that, nothing shows that no other client held in between.
func TestAServerThatWasAskedLaterVouchesFromTheSecondRenewalOn(t *testing.T) {
	for renewals, kept := range map[int]bool{1: false, 2: true} {
		identifiedBubble(t, func(t *testing.T, w *world) {
			a := w.client()
			w.kill(3, 4)
			l := w.lock(a, "x")
			synctest.Wait() // the lease did not wait for the requests to dead servers: they fail first
			for _, p := range w.peers[3:] {
				p.revive(false)
				p.slow(time.Microsecond, time.Microsecond) // their grants begin after the renewal
			}
			time.Sleep(time.Duration(renewals)*ttl/3 + ttl/6)
			w.wantOn("x", "11111")
			w.peers[2].kill()
			w.peers[2].revive(true)
			time.Sleep(ttl / 3)
			err := l.Err()
			assert.True(t, (err == nil) == kept, "one server forgot after %d renewals: %v", renewals, err)
			if kept {
				w.release(l)
			}
		})
	}
}

// lateGrants makes servers 3 and 4 grant only after servers 0 to 2 have won the lock.
func lateGrants(w *world, c *holdfast.Client) *holdfast.Lease {
	w.kill(3, 4)
	l := w.lock(c, "x")
	synctest.Wait()
	for _, p := range w.peers[3:] {
		p.revive(true)
		p.slow(time.Microsecond, time.Microsecond) // their grants begin after the renewal
	}
	time.Sleep(ttl / 2) // the first renewal
	w.wantOn("x", "11111")
	return l
}

// Two servers fall silent, and of the others some have held for too short a time to vouch for it.
// The silent ones held meanwhile, or they have lost their memories and do not count for others.
func TestTwoSilentServersCostNoLeaseWhenOthersJoinedJustBefore(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		l := lateGrants(w, w.client())
		for _, p := range w.peers[1:3] {
			p.Stall()
		}
		time.Sleep(3 * ttl)
		assert.NoError(t, l.Err())
		w.release(l)
	})
}

// Two servers come back empty. Before the next renewal finds that, two others fall silent.
func TestTwoSilentServersCostNoLeaseWhenOthersCameBackJustBefore(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		l := w.lock(w.client(), "x")
		w.kill(3, 4)
		time.Sleep(2*ttl + ttl/6) // not the instant of a renewal
		for _, p := range w.peers[3:] {
			p.revive(true)
		}
		for _, p := range w.peers[1:3] {
			p.Stall()
		}
		time.Sleep(3 * ttl)
		assert.NoError(t, l.Err())
		w.release(l)
	})
}

// A server has been silent for longer than a lease when two others come back empty and one more
// falls silent. Nothing shows that a majority held all the time.
// A server has granted, but its answer was lost. Then two of those that answered die before the first renewal.
func TestTwoSilentServersCostNoLeaseWhenAThirdLostItsAnswer(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		a := w.client()
		w.kill(4)
		w.peers[3].LoseReply(failing("acquire", errReset))
		l := w.lock(a, "x")
		w.peers[3].LoseReply(nil)
		w.wantOn("x", "11110")
		w.kill(2)
		time.Sleep(3 * ttl)
		assert.NoError(t, l.Err())
		w.release(l)
	})
}

func TestAServerThatIsSilentForALeaseDoesNotVouch(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		l := w.lock(w.client(), "x")
		resume := w.peers[1].Stall()
		time.Sleep(2*ttl + ttl/6)
		w.kill(3, 4)
		for _, p := range w.peers[3:] {
			p.revive(true)
		}
		resumeToo := w.peers[2].Stall()
		time.Sleep(ttl)
		assert.Is(t, l.Err(), holdfast.ErrLost)
		resume()
		resumeToo()
		assert.Equal(t, strings.Count(w.on("x")[3:], "1"), 0, "holds on servers that came back")
	})
}

func TestAServerWithoutMemoryIsNotCountedUntilAllIsOverThatItMayHaveForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		w.release(w.lock(b, "y")) // all servers have been known for longer than a lease
		time.Sleep(2 * time.Minute)
		w.kill(3, 4)
		l := w.lock(a, "x")
		w.wantOn("x", "11100")
		w.revive(3, 4)
		w.peers[2].Restart()
		// Servers 2, 3 and 4 know no holder, and are a majority.
		if m, err := b.Mutex("x").TryLock(t.Context()); err == nil {
			t.Fatalf("granted %d while %d is held: %v", m.Token(), l.Token(), l.Err())
		}
		start := time.Now()
		for {
			m, err := b.Mutex("x").TryLock(t.Context())
			if err == nil {
				assert.True(t, l.Err() != nil, "two holders after %v", time.Since(start))
				w.release(m)
				break
			}
			time.Sleep(time.Second)
		}
		assert.AtMost(t, time.Since(start), 2*time.Minute, "the lock was not available for")
	})
}

func TestAServerWithoutMemoryIsNotCountedByProcessesThatCameLater(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.client()
		w.release(w.lock(a, "y"))
		time.Sleep(2 * time.Minute)
		w.kill(3, 4)
		l := w.lock(a, "x")
		synctest.Wait() // the lease did not wait for the requests to dead servers: they fail first
		w.revive(3, 4)
		w.peers[2].Restart()
		w.kill(0, 1)
		late := w.client()
		_, err := late.Mutex("x").TryLock(t.Context())
		assert.Is(w.t, err, holdfast.ErrUnknownOutcome)
		assert.True(t, err != nil && strings.Contains(err.Error(), "lost its memory"),
			"error %v does not say why", err)
		assert.True(t, l.Err() == nil, "the test was too slow to show anything")
	})
}

func TestASilentServerDelaysNobodyTwice(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.client()
		w.release(w.lock(a, "x"))
		resume := w.peers[2].Stall()
		for range 5 { // so that every server coordinates one of them
			time.Sleep(time.Second)
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				w.release(w.lock(a, name))
			}
		}
		start := time.Now()
		w.release(w.lock(a, "f"))
		assert.AtMost(t, time.Since(start), 0, "a server that is known to be silent delays a lock by")
		resume()
		time.Sleep(time.Minute)
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "x"} {
			w.wantOn(name, "00000")
		}
	})
}

func TestALostAnswerLeavesNothingBehind(t *testing.T) {
	for _, action := range []string{"acquire", "raise_fence", "mark_server", "release", "cancel"} {
		bubble(t, func(t *testing.T, w *world) {
			a := w.client()
			w.release(w.lock(a, "x"))
			for _, i := range []int{0, 1, 4} {
				w.peers[i].LoseReply(failing(action, errReset))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			l, err := a.Mutex("x").Lock(ctx)
			cancel()
			if err == nil {
				if err := l.Release(t.Context()); err != nil && !errors.Is(err, holdfast.ErrUnknownOutcome) {
					t.Errorf("%s: release: %v", action, err)
				}
			}
			for _, i := range []int{0, 1, 4} {
				w.peers[i].LoseReply(nil)
			}
			time.Sleep(5 * time.Second) // much less than a lease
			synctest.Wait()
			w.wantOn("x", "00000")
			w.release(w.lock(a, "x"))
		})
	}
}

func TestServersFoundOutToBeWithoutMemoryAreLeftOutAtOnce(t *testing.T) {
	for _, waiterTTL := range []string{"waits", "does not wait"} {
		bubble(t, func(t *testing.T, w *world) {
			a := w.client()
			w.release(w.lock(a, "x"))
			time.Sleep(time.Minute) // so that the quorum is not a new one
			for _, i := range []int{0, 1} {
				w.peers[i].kill()
				w.peers[i].revive(true)
			}
			// The servers that remember are slow: the others make up a majority.
			w.peers[3].slow(20*time.Millisecond, 20*time.Millisecond)
			w.peers[4].slow(20*time.Millisecond, 20*time.Millisecond)
			for _, name := range []string{"x", "a", "b", "c", "d", "e"} {
				take := a.Mutex(name).Lock
				if waiterTTL != "waits" {
					take = a.Mutex(name).TryLock
				}
				l, err := take(t.Context())
				assert.MustTrue(t, err == nil, "%s: %v", name, err)
				w.release(l)
			}
		})
	}
}
