package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// coordinators lists the servers in the order in which they may be a lock's coordinator.
func coordinators(name string) []int { return majority.Order("holdfast:{"+name+"}", 5) }

// wrongCoordinators are ways to make the coordinator of lock x say that it is held, though no
// other server says so.
var wrongCoordinators = map[string]func(t *testing.T, w *world, coordinator *peer){
	"its clock was set back": func(t *testing.T, w *world, coordinator *peer) {
		a := w.client()
		assert.Must(t, assert.Err(a.Mutex("x", holdfast.NoRenewal()).Lock(t.Context())))
		coordinator.Advance(-time.Hour)
		time.Sleep(ttl) // the others are free
	},
	"somebody took the lock there alone": func(t *testing.T, w *world, coordinator *peer) {
		w.lock(w.clientOf(coordinator.Store), "x")
	},
	"readers are there alone": func(t *testing.T, w *world, coordinator *peer) {
		for range 2 {
			l, err := w.clientOf(coordinator.Store).RWMutex("x").RLock(t.Context())
			assert.Must(t, err)
			w.keep = append(w.keep, l)
		}
	},
}

func TestACoordinatorThatAlwaysSaysHeldHasNoVeto(t *testing.T) {
	for what, veto := range wrongCoordinators {
		t.Run(what, func(t *testing.T) {
			identifiedBubble(t, func(t *testing.T, w *world) {
				veto(t, w, w.peers[coordinators("x")[0]])
				start := time.Now()
				within := func(how string) {
					t.Helper()
					assert.AtMost(t, time.Since(start), 2*ttl, "%s: granted after", how)
				}
				a, b := w.client(), w.client()
				l := w.lock(a, "x") // its waiter is the first in the queue
				within("a waiter")
				w.release(l)

				start = time.Now()
				for {
					l, err := b.Mutex("x").TryLock(t.Context())
					if err == nil {
						w.release(l)
						break
					}
					assert.Is(w.t, err, holdfast.ErrHeld)
					assert.MustTrue(t, time.Since(start) <= 3*ttl, "who tries never gets it")
					time.Sleep(time.Second)
				}
				within("a try")

				start = time.Now()
				w.release(w.lock(a, "x"))
				assert.AtMost(t, time.Since(start), 0, "who knows waited for")
			})
		})
	}
}

// A client that learns that one server may not be the coordinator does not forget another one
// meanwhile.
func TestTwoCoordinatorsThatAlwaysSayHeldHaveNoVeto(t *testing.T) {
	for what := range wrongCoordinators {
		for _, clients := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d clients", what, clients), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					w.twoWrongCoordinators(what)
					var all sync.WaitGroup
					defer all.Wait()
					for range clients {
						c := w.shortLived()
						all.Go(func() {
							for range 20 {
								began := time.Now()
								w.release(w.lock(c, "x"))
								assert.AtMost(t, time.Since(began), 4*ttl, "granted after")
								time.Sleep(ttl * 3 / 2)
							}
						})
					}
				})
			})
		}
		t.Run(what+", a client that tries", func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.twoWrongCoordinators(what)
				c := w.shortLived()
				for start := time.Now(); ; time.Sleep(time.Second) {
					l, err := c.Mutex("x").TryLock(t.Context())
					if err == nil {
						w.release(l)
						break
					}
					assert.Is(w.t, err, holdfast.ErrHeld)
					assert.MustTrue(t, time.Since(start) <= 4*ttl, "it never gets the lock")
				}
			})
		})
	}
}

// shortLived is a client of a quorum whose leases are no longer than those of the tests.
func (w *world) shortLived() *holdfast.Client {
	return w.clientOf(w.storeWith(quorum.Config{MaxTTL: ttl}))
}

// twoWrongCoordinators makes the first two coordinators of x wrong.
func (w *world) twoWrongCoordinators(what string) {
	w.release(w.lock(w.shortLived(), "founding"))
	for _, i := range coordinators("x")[:2] {
		wrongCoordinators[what](w.t, w, w.peers[i])
	}
}

// The queue of such a coordinator does not move, so dead waiters stay before live ones.
func TestACoordinatorWithADeadQueueHasNoVeto(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		coordinator := w.peers[coordinators("x")[0]]
		wrongCoordinators["its clock was set back"](t, w, coordinator)
		for i := range 100 {
			_, err := coordinator.Run(t.Context(), script.Acquire, []string{"holdfast:{x}"}, []string{
				fmt.Sprintf("dead/%d.1", i), "30000", "630000", "x", "180000", "holdfast:push:",
			})
			assert.Must(t, err)
		}
		var all sync.WaitGroup
		defer all.Wait()
		start := time.Now()
		for range 3 {
			all.Go(func() {
				w.release(w.lock(w.client(), "x"))
				assert.AtMost(t, time.Since(start), 2*ttl, "granted after")
			})
		}
	})
}

// Some clients know that the coordinator is contradicted. Others find out while those keep the
// lock busy.
func TestACoordinatorThatAlwaysSaysHeldStarvesNobody(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		wrongCoordinators["somebody took the lock there alone"](t, w, w.peers[coordinators("x")[0]])
		inside, done := 0, make(chan error, 6)
		for i := range 6 {
			c := w.client()
			go func() {
				time.Sleep(time.Duration(i) * 20 * time.Second)
				for range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), 10*ttl)
					l, err := c.Mutex("x").Lock(ctx)
					cancel()
					if err != nil {
						done <- fmt.Errorf("client %d: %w", i, err)
						return
					}
					inside++
					assert.True(t, inside <= 1, "two holders")
					time.Sleep(3 * time.Second)
					inside--
					assert.NoError(t, l.Release(t.Context()))
				}
				done <- nil
			}()
		}
		for range 6 {
			assert.NoError(t, <-done)
		}
	})
}

// In a hand-over the coordinator's holder may be missing on a majority for a moment. That is
// not enough to replace the coordinator.
func TestAMomentaryContradictionKeepsTheCoordinator(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		coordinator := w.peers[coordinators("x")[0]]
		c, b := w.clientOf(coordinator.Store), w.client()
		for range 10 { // another holder each time
			l, err := c.Mutex("x").Lock(t.Context())
			assert.Must(t, err)
			assert.Is(t, assert.Err(b.Mutex("x").TryLock(t.Context())), holdfast.ErrHeld)
			time.Sleep(10 * time.Second)
			w.release(l)
		}
	})
}

// The coordinator is cut off, and comes back when another server has the queue. A new client
// does not get the lock before the clients that wait.
func TestACoordinatorThatComesBackDoesNotOvertakeTheQueue(t *testing.T) {
	for _, empty := range []bool{false, true} {
		identifiedBubble(t, func(t *testing.T, w *world) {
			coordinator := w.peers[coordinators("x")[0]]
			coordinator.kill()
			holder := w.lock(w.client(), "x")
			got := make(chan granted, 4)
			wait := func(i int) {
				c := w.client()
				go func() {
					l, err := c.Mutex("x").Lock(t.Context())
					got <- granted{i, l, err}
				}()
				synctest.Wait()
				time.Sleep(100 * time.Millisecond)
			}
			wait(0)
			wait(1)
			wait(2)
			coordinator.revive(empty)
			wait(3)
			time.Sleep(time.Second) // no renewal has restored the lease there yet
			for i := range 4 {
				w.release(holder)
				g := <-got
				assert.Must(t, g.err)
				holder = g.lease
				assert.True(t, g.who == i, "%d came in as number %d", g.who, i)
				w.keep = append(w.keep, holder)
			}
			w.release(holder)
		})
	}
}

// A pushed grant that is short is confirmed in the round trip in which the other servers are
// asked.
func TestAPushThatGrantsForAShortTimeIsConfirmed(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		for _, p := range w.peers {
			p.slow(time.Millisecond, time.Millisecond)
			p.shortPushes = true
		}
		coordinator := w.peers[coordinators("x")[0]]
		l := w.lock(w.client(), "x")
		got := w.waiters("x", 1)
		polls, start := coordinator.count("poll"), time.Now()
		w.release(l)
		g := <-got
		assert.Must(t, g.err)
		w.keep = append(w.keep, g.lease)
		assert.AtMost(t, time.Since(start), 8*time.Millisecond, "the hand-over took")
		assert.True(t, coordinator.count("poll") != polls, "nobody confirmed the grant")
		w.release(g.lease)
	})
}

// Until it is confirmed, it does not count.
func TestAPushThatNobodyConfirmsDoesNotCount(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		order := coordinators("x")
		coordinator := w.peers[order[0]]
		l, s := w.lock(w.client(), "x"), w.store()
		heard := make(chan string, 10)
		stop, err := s.Listen(t.Context(), "holdfast:push:A", store.Listener{
			Message: func(payload string) { heard <- payload }, Look: func(bool) {},
		})
		assert.Must(t, err)
		defer stop()
		raw(t, s, script.Acquire, "A/1", 30_000, 630_000, "x", 180_000, "holdfast:push:")
		for _, i := range order[3:] {
			w.peers[i].kill() // each of the others is needed
		}
		for _, p := range w.peers {
			p.mu.Lock()
			p.shortPushes = true
			p.mu.Unlock()
		}
		coordinator.FailRequest(func(action string, _ []string) error {
			if action == "poll" || action == "acquire" { // an answer to either confirms it
				return errReset
			}
			return nil
		})
		w.release(l)
		time.Sleep(time.Second)
		if len(heard) > 0 {
			t.Errorf("pushed %q", <-heard)
		}
		coordinator.FailRequest(nil)
		time.Sleep(10 * time.Second)
		assert.True(t, len(heard) != 0, "it was never granted")
	})
}

// Two servers die, and one of the others gets the name of another one. Readers, who share a
// server, must not get two votes by that.
func TestOneServerHasOneVoteAlsoForReaders(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		name := newAlias(w.peers[4].Store)
		c := w.clientOf(w.storeOver(append(w.nodes()[:4], name), quorum.Config{}))
		l, err := c.RWMutex("x").RLock(t.Context())
		assert.Must(t, err)
		w.release(l)
		synctest.Wait() // requests that are under way use the old name
		name.at.Store(w.peers[2].Store)
		w.kill(0, 1) // 2, 3, and 2 again
		for range 2 {
			l, err := c.RWMutex("x").TryRLock(t.Context())
			assert.True(t, errors.Is(err, quorum.ErrSameServer), "two votes of one server: %v, %v", l, err)
		}
	})
}
