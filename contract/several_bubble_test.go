// All or none: a caller holds all of several locks, or none, and the loss of one ends the lease on all (G19). A call
// that waits for several locks keeps the free ones from nobody, and is not starved (G41).

package contract_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

func TestSeveralLocksAreAcquiredInOneStep(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLockAll(t, c.MultiMutex([]string{"b", "c", "a"}))
		assert.True(t, w.net.count("acquire_all") == 1 && w.net.count("acquire") == 0, "sent %v", w.net.sent)
		if l.Err() != nil || l.Remaining() != trusted || l.Context().Err() != nil {
			t.Errorf("%v, %v left, %v", l.Err(), l.Remaining(), l.Context().Err())
		}
		for _, name := range []string{"a", "b", "c"} {
			if s := w.state(name); !s.Held() || s.Fence != l.Token(name) || l.Token(name) == 0 {
				t.Errorf("%s: %+v, token %d", name, s, l.Token(name))
			}
			_, err := w.client().Mutex(name).TryLock(t.Context())
			assert.Is(t, err, holdfast.ErrHeld)
		}
		if l.Token("d") != 0 || fmt.Sprint(l.Names()) != "[a b c]" {
			t.Errorf("token of a foreign name %d, names %v", l.Token("d"), l.Names())
		}
		time.Sleep(time.Hour)
		assert.NoError(t, l.Err())
		releaseAll(t, l)
		assert.Is(t, l.Err(), holdfast.ErrReleased)
		assert.Is(t, context.Cause(l.Context()), holdfast.ErrReleased)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrReleased)
		for _, name := range []string{"a", "b", "c"} {
			w.wantFree(name)
		}
	})
}

func TestOfSeveralLocksNoneIsAcquiredIfOneIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		held := mustLock(t, w.client().Mutex("b"))
		c := w.client()
		_, err := c.MultiMutex([]string{"a", "b", "c"}).TryLock(t.Context())
		var busy *holdfast.HeldError
		if !errors.As(err, &busy) || busy.Name != "b" || busy.HeldBy != held.HolderID() || busy.Remaining <= 0 {
			t.Errorf("error %v", err)
		}
		w.wantFree("a")
		w.wantFree("c")

		// If a goroutine of the same process holds a lock, the client sends no request
		// for it.
		mine := mustLock(t, c.Mutex("a"))
		asked := w.net.count("acquire_all")
		_, err = c.MultiMutex([]string{"c", "a"}).TryLock(t.Context())
		assert.True(t, errors.As(err, &busy) && busy.Name == "a" && w.net.count("acquire_all") == asked,
			"error %v after %d requests", err, w.net.count("acquire_all")-asked)
		release(t, mine)
		release(t, held)
		l, err := c.MultiMutex([]string{"a", "b", "c"}).TryLock(t.Context())
		assert.Must(t, err)
		releaseAll(t, l)
	})
}

func TestSeveralLocksAreTriedTogether(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		held := mustLock(t, w.client().Mutex("b"))
		all := w.client().MultiMutex([]string{"a", "b"}, holdfast.Tries(3, time.Second))
		start := time.Now()
		_, err := all.Lock(t.Context())
		var busy *holdfast.HeldError
		assert.MustTrue(t, errors.As(err, &busy), "error %v", err)
		assert.True(t, busy.Name == "b" && busy.HeldBy == held.HolderID() && busy.Tries == 3 &&
			busy.Waited == time.Since(start), "got %+v", busy)
		assert.True(t, busy.Waited >= time.Second && busy.Waited <= 3*time.Second, "took %v", busy.Waited)
		assert.True(t, w.net.count("acquire_all") == 3 && w.net.count("acquire") == 1, "sent %v", w.net.sent)

		// Between two tries the server has nothing of the call, and every waiter comes before it.
		done := passing(t.Context(), all.Lock)
		w.wantFree("a")
		assert.Equal(t, len(w.state("b").Waiters), 0, "waiters")
		release(t, held)
		assert.Must(t, <-done)

		l, err := all.TryLock(t.Context())
		assert.Must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = w.client().MultiMutex([]string{"b", "c"}, holdfast.Tries(9, time.Second)).Lock(ctx)
		assert.Is(t, err, context.DeadlineExceeded)
		w.wantFree("c")
		releaseAll(t, l)
	})
}

// A call that waits for several locks holds none of them for longer than a moment.
func TestAWaitForSeveralLocksKeepsNoFreeLockFromOthers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		other, c := w.client(), w.client()
		b, d := mustLock(t, other.Mutex("b")), mustLock(t, other.Mutex("d"))
		start := time.Now()
		done := passing(t.Context(), c.MultiMutex([]string{"d", "c", "b", "a"}).Lock)
		free := func(waitsFor string) {
			t.Helper()
			time.Sleep(time.Second)
			for _, name := range []string{"a", "b", "c", "d"} {
				s := w.state(name)
				assert.True(t, len(s.Waiters) == 0 || name == waitsFor, "a waiter for %q", name)
				assert.True(t, !s.Held() || wire.Client(s.Holders[0].HolderID) == other.ID(), "%q is kept", name)
			}
			assert.Equal(t, len(w.state(waitsFor).Waiters), 1, "waiters for %q", waitsFor)
		}
		free("b")
		release(t, b)
		synctest.Wait()
		assert.True(t, w.state("b").Held(), "want b for a moment: its holder may release d next")
		free("d")
		release(t, d)
		err := <-done
		assert.True(t, err == nil && time.Since(start) == 2*time.Second, "%v after %v", err, time.Since(start))
	})
}

// overtake lets other have one of a and b at any time, while a call wants both and waits for b, which held is a lease
// of. It returns when the call keeps a while it waits for b, with the lease of b, and how often it has given back what
// it had before.
func (w *world) overtake(other *holdfast.Client, held *holdfast.Lease) (b *holdfast.Lease, givenBack int) {
	here, there := "b", "a"
	for givenBack < 20 {
		next, err := other.Mutex(there).TryLock(w.t.Context())
		assert.Must(w.t, err)
		release(w.t, held)
		time.Sleep(time.Second)
		givenBack++
		if w.state(here).Held() {
			return next, givenBack
		}
		here, there, held = there, here, next
	}
	return held, givenBack
}

// A call that wants two locks, of which one is always held, is overtaken eight times. Then it waits in order.
func TestAWaitForSeveralLocksIsNotStarved(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		other := w.client()
		held := mustLock(t, other.Mutex("b"))
		done := passing(t.Context(), w.client().MultiMutex([]string{"a", "b"}).Lock)
		b, givenBack := w.overtake(other, held)
		assert.MustTrue(t, givenBack == 8, "it has given back %d times what it had", givenBack)
		next := w.waiting(other.Mutex("a"), t.Context())
		time.Sleep(time.Hour)
		assert.True(t, len(next) == 0, "it was overtaken again")
		release(t, b)
		assert.Must(t, <-done)
		release(t, (<-next).Lease)
	})
}

// A call never waits for a lock while it holds one that comes later in the order of the keys, not even for a moment.
func TestACallForSeveralLocksWaitsInTheOrderOfTheirKeys(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		other := w.client()
		b := mustLock(t, other.Mutex("b"))
		done := passing(t.Context(), w.client().MultiMutex([]string{"a", "b"}).Lock)
		a := mustLock(t, other.Mutex("a"))
		release(t, b)
		synctest.Wait() // the call has had b, and was told that a is held
		w.wantFree("b")
		assert.Equal(t, len(w.state("a").Waiters), 1, "waiters")
		release(t, a)
		assert.Must(t, <-done)
	})
}

// A call that waits because a server is away keeps no lock either: perhaps the lock is on another node.
func TestACallForSeveralLocksKeepsNoneWhileItCannotAsk(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		other := w.client()
		b := mustLock(t, other.Mutex("b"))
		done := passing(t.Context(), w.client().MultiMutex([]string{"a", "b"}).Lock)
		w.FailRequest(func(action string, _ []string) error {
			if action == "acquire_all" {
				return errLink
			}
			return nil
		})
		release(t, b)
		time.Sleep(10 * time.Second)
		b, err := other.Mutex("b").TryLock(t.Context())
		assert.Must(t, err)
		w.FailRequest(nil)
		release(t, b)
		assert.Must(t, <-done)
	})
}

// nodes is a network where each lock has its own node. late is how late the node of a key answers a request for it.
type nodes struct {
	*network
	late func(key string) time.Duration
}

func (n *nodes) Group(key string) string { return key }

func (n *nodes) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	if action.Name == "acquire_all" {
		select {
		case <-time.After(n.late(keys[0])):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return n.network.Run(ctx, action, keys, args)
}

// The node of b gets no request. The call has a only for moments.
func TestACallForSeveralLocksKeepsNoneWhileANodeIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var back atomic.Bool
		c := w.over(&nodes{network: w.net, late: func(key string) time.Duration {
			if key == "holdfast:{b}" && !back.Load() {
				return time.Hour
			}
			return 0
		}}, holdfast.Config{})
		done := passing(t.Context(), c.MultiMutex([]string{"a", "b"}).Lock)
		const step, outage = 20 * time.Millisecond, 20 * time.Second
		held, longest, now := 0, 0, 0
		for range outage / step {
			time.Sleep(step)
			if now++; !w.state("a").Held() {
				now = 0
			}
			held, longest = held+min(now, 1), max(longest, now)
		}
		assert.AtMost(t, time.Duration(longest-1)*step, 100*time.Millisecond, "a was kept at a time")
		assert.AtMost(t, time.Duration(held)*step, outage/10, "a was kept in all")
		assert.True(t, held > 0, "the call did not ask for a")
		back.Store(true)
		assert.Must(t, <-done)
	})
}

// Nodes that answer late: the call has all locks at the end, and what it has given back meanwhile is not among them.
func TestSeveralLocksOfSlowNodesAreAcquired(t *testing.T) {
	for name, c := range map[string]struct {
		a, b     time.Duration
		requests int
	}{
		"one is slow":   {0, 2 * time.Second, 3}, // a, b, and a again
		"a slow link":   {400 * time.Millisecond, 400 * time.Millisecond, 2},
		"both too slow": {1500 * time.Millisecond, 1500 * time.Millisecond, 1 + 8 + 2}, // eight times given back
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			late := map[string]time.Duration{"holdfast:{a}": c.a, "holdfast:{b}": c.b}
			over := w.over(&nodes{w.net, func(key string) time.Duration { return late[key] }}, holdfast.Config{})
			l := mustLockAll(t, over.MultiMutex([]string{"a", "b"}))
			assert.Equal(t, w.net.count("acquire_all"), c.requests, "requests")
			assert.Equal(t, fmt.Sprint(l.Names()), "[a b]", "names")
			for _, lock := range l.Names() {
				s := w.state(lock)
				assert.True(t, s.Held() && s.Fence == l.Token(lock), "%s: %+v, token %d", lock, s, l.Token(lock))
			}
			releaseAll(t, l)
		})
	}
}

// Whichever lock the call has waited for, the lease looks the same.
func TestTheOrderOfSeveralLocksIsThatOfTheirKeys(t *testing.T) {
	for _, held := range []string{"a", "b", "c"} {
		runBubble(t, held, func(t *testing.T, w *world) {
			other := mustLock(t, w.client().Mutex(held))
			time.AfterFunc(time.Second, func() { release(t, other) })
			l := mustLockAll(t, w.client().MultiMutex([]string{"c", "b", "a"}))
			assert.Equal(t, fmt.Sprint(l.Names()), "[a b c]", "names")
			got, _ := holdfast.LeaseOf(l.Context())
			assert.True(t, got.Name == "c" && got.Others == 2, "the innermost lease is %+v", got)
			releaseAll(t, l)
		})
	}
}

// Of two locks, one is held for 50 of each 60 ms. Who wants the other one alone hardly notices a call that wants both.
func TestACallForAHotLockDoesNotHeatTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		hot, cold, both := w.client(), w.client(), w.client()
		end := time.Now().Add(time.Minute)
		var all sync.WaitGroup
		use := func(lock func() (release func()), held, rest time.Duration) (times int, longest time.Duration) {
			for ; time.Now().Before(end); times++ {
				start := time.Now()
				release := lock()
				longest = max(longest, time.Since(start))
				time.Sleep(held)
				release()
				time.Sleep(rest)
			}
			return times, longest
		}
		single := func(c *holdfast.Client, name string) func() func() {
			return func() func() { l := mustLock(t, c.Mutex(name)); return func() { release(t, l) } }
		}
		all.Go(func() { use(single(hot, "b"), 50*time.Millisecond, 10*time.Millisecond) })
		all.Go(func() {
			times, longest := use(func() func() {
				l := mustLockAll(t, both.MultiMutex([]string{"a", "b"}))
				return func() { releaseAll(t, l) }
			}, time.Millisecond, 20*time.Millisecond)
			assert.True(t, times > 700, "both were held %d times in a minute", times)
			assert.AtMost(t, longest, 200*time.Millisecond, "the longest wait for both")
		})
		_, longest := use(single(cold, "a"), time.Millisecond, 9*time.Millisecond)
		assert.AtMost(t, longest, 12*time.Millisecond, "the longest wait for a")
		all.Wait()
	})
}

func TestAWaitForSeveralLocksThatEndsLeavesNothingBehind(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, w *world, c *holdfast.Client) error{
		"cancelled": func(t *testing.T, w *world, c *holdfast.Client) error {
			ctx, cancel := context.WithCancel(t.Context())
			done := passing(ctx, c.MultiMutex([]string{"a", "b", "c"}).Lock)
			cancel()
			err := <-done
			assert.Is(t, err, context.Canceled)
			return err
		},
		"out of time": func(t *testing.T, w *world, c *holdfast.Client) error {
			_, err := c.MultiMutex([]string{"a", "b", "c"}, holdfast.MaxWait(time.Second)).Lock(t.Context())
			var busy *holdfast.HeldError
			assert.True(t, errors.As(err, &busy) && busy.Name == "b" && busy.Waited == time.Second,
				"want an error about b after one second, got %v", err)
			return err
		},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			held := mustLock(t, w.client().Mutex("b"))
			assert.True(t, end(t, w, w.client()) != nil, "no error")
			synctest.Wait()
			w.wantFree("a")
			w.wantFree("c")
			s := w.state("b")
			assert.True(t, len(s.Waiters) == 0, "waiters %v", s.Waiters)
			release(t, held)
		})
	}
}

func TestAWaitForSeveralLocksThatLosesOneLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		other, c := w.client(), w.client()
		held := mustLock(t, other.Mutex("b"))
		done := passing(t.Context(), c.MultiMutex([]string{"a", "b", "c"}).Lock)
		held, _ = w.overtake(other, held)
		evict(t, c, "a", 0)
		err := <-done
		wantLost(t, err, holdfast.LossEvicted)
		assert.Equal(t, holdfast.Hint(err), "nothing has run under the locks: try again", "hint")
		synctest.Wait()
		w.wantFree("a")
		w.wantFree("c")
		assert.Equal(t, len(w.state("b").Waiters), 0, "waiters")
		release(t, held)
	})
}

// A wait for several locks outlasts a server that is silent for longer than a lease, as the wait for
// one lock does. What it had already is lost, so it begins again.
func TestAWaitForSeveralLocksOutlastsTheLossOfThoseItHas(t *testing.T) {
	away := map[string]func(w *world) (back func()){
		"silent": func(w *world) func() { return w.Stall() },
		"empty":  func(w *world) func() { return func() { w.Restart() } },
	}
	for name, begin := range away {
		runBubble(t, name, func(t *testing.T, w *world) {
			holder, c := w.client(holdfast.Config{TTL: time.Hour}), w.client()
			held := mustLock(t, holder.Mutex("b"))
			done := passing(t.Context(), c.MultiMutex([]string{"a", "b", "c"}).Lock)
			held, _ = w.overtake(holder, held)
			back := begin(w)
			time.Sleep(3 * ttl)
			back()
			time.Sleep(ttl)
			if name == "silent" {
				assert.Equal(t, len(w.state("b").Waiters), 1, "waiters")
				release(t, held)
			}
			assert.Must(t, <-done)
			synctest.Wait()
			for _, lock := range []string{"a", "b", "c"} {
				w.wantFree(lock)
			}
		})
	}
	runBubble(t, "out of time", func(t *testing.T, w *world) {
		held := keep(mustLock(t, w.client(holdfast.Config{TTL: time.Hour}).Mutex("b")))
		m := w.client().MultiMutex([]string{"a", "b"}, holdfast.MaxWait(3*ttl))
		time.AfterFunc(time.Second, func() { time.AfterFunc(2*ttl, w.Stall()) })
		start := time.Now()
		_, err := m.Lock(t.Context())
		busy := wantHeld(t, err, time.Since(start))
		assert.True(t, busy.HeldBy == held.HolderID() && busy.Waited == 3*ttl, "%+v", busy)
	})
}

func TestTheLossOfOneOfSeveralLocksIsTheLossOfAll(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLockAll(t, c.MultiMutex([]string{"a", "b", "c"}))
		evict(t, c, "b", 0)
		err := ended(l.Context())
		var lost *holdfast.LostError
		assert.True(t, errors.As(err, &lost) && lost.Name == "b" && lost.Reason == holdfast.LossEvicted,
			"ended by %v", err)
		assert.True(t, l.Remaining() == 0 && errors.Is(l.Err(), holdfast.ErrLost),
			"%v left, %v", l.Remaining(), l.Err())
		assert.Is(t, l.Extend(t.Context(), ttl), holdfast.ErrNotHeld)
		// The work may still be under way, so the other locks are not released yet.
		assert.True(t, w.state("a").Held() && w.state("c").Held(),
			"a and c were released while the work may still be under way")
		err = l.Release(t.Context())
		assert.Is(t, err, holdfast.ErrNotHeld)
		assert.True(t, errors.As(err, &lost) && lost.Name == "b", "Release: %v; want the loss of b", err)
		w.wantFree("a")
		w.wantFree("c")
	})
}

func TestAfterALossTheOtherLocksEndThoughReleaseNeverComes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLockAll(t, c.MultiMutex([]string{"a", "b"}))
		evict(t, c, "b", 0)
		_ = ended(l.Context())
		time.Sleep(ttl)
		w.wantFree("a")
		// A goroutine of this process gets the lock too.
		release(t, mustLock(t, c.Mutex("a", holdfast.MaxWait(ttl))))
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
	})
}

func TestAfterALossTheOtherLocksAreNotHandedOverLocally(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLockAll(t, c.MultiMutex([]string{"a", "b"}))
		next := w.waiting(c.Mutex("a"), t.Context())
		evict(t, c, "b", 0)
		_ = ended(l.Context())
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
		got := <-next
		assert.Must(t, got.err)
		time.Sleep(2 * ttl)
		assert.NoError(t, got.Err())
		release(t, got.Lease)
	})
}

func TestSeveralLocksOfUnknownOutcomeAreCancelled(t *testing.T) {
	for name, fault := range map[string]func(w *world){
		"reply lost":   func(w *world) { w.LoseReply(only("acquire_all", 4, errLink)) },
		"request lost": func(w *world) { w.FailRequest(only("acquire_all", 4, errLink)) },
		"request late": func(w *world) { w.net.slow(slowly("acquire_all", 10*time.Second, 0)) },
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			fault(w)
			c := w.client()
			_, err := c.MultiMutex([]string{"a", "b"}).TryLock(t.Context())
			assert.Is(t, err, holdfast.ErrUnknownOutcome)
			time.Sleep(12 * time.Second)
			w.wantFree("a")
			w.wantFree("b")
			w.net.slow(nil)
			releaseAll(t, mustLockAll(t, c.MultiMutex([]string{"a", "b"})))
		})
	}
}

func TestAGrantOfSeveralLocksThatComesTooLateIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(holdfast.Config{TTL: time.Second, RequestTimeout: 400 * time.Millisecond})
		w.net.slow(func(string) (there, back time.Duration) { return 0, 200 * time.Millisecond })
		_, err := c.MultiMutex([]string{"a", "b"}, holdfast.TTL(100*time.Millisecond)).Lock(t.Context())
		wantLost(t, err, holdfast.LossExpired)
		time.Sleep(time.Second)
		w.wantFree("a")
		w.wantFree("b")
	})
}

func TestAContextOfSeveralLocksRefusesADeadlockOnEachOfThem(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLockAll(t, c.MultiMutex([]string{"a", "b", "c"}))
		for _, name := range []string{"a", "b", "c"} {
			_, err := c.Mutex(name).Lock(l.Context())
			assert.Is(t, err, holdfast.ErrDeadlock)
		}
		_, err := c.MultiMutex([]string{"d", "b"}).Lock(l.Context())
		assert.Is(t, err, holdfast.ErrDeadlock)
		d, err := c.Mutex("d").Lock(l.Context())
		assert.Must(t, err)
		_, err = c.MultiMutex([]string{"e", "d"}).Lock(d.Context())
		assert.Is(t, err, holdfast.ErrDeadlock)
		release(t, d)
		releaseAll(t, l)
		err = c.MultiMutex([]string{"a", "b"}).Do(t.Context(), func(ctx context.Context) error {
			_, err := c.Mutex("b").Lock(ctx)
			assert.Is(t, err, holdfast.ErrDeadlock)
			return ctx.Err()
		})
		assert.NoError(t, err)
	})
}

func TestSeveralLocksAreExtendedTogether(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLockAll(t, c.MultiMutex([]string{"a", "b"}, holdfast.NoRenewal()))
		time.Sleep(10 * time.Second)
		assert.Must(t, l.Extend(t.Context(), time.Minute))
		assert.Equal(t, l.Remaining(), time.Minute-margin(time.Minute), "left")
		time.Sleep(time.Minute)
		wantLost(t, context.Cause(l.Context()), holdfast.LossExpired)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
	})
}

func TestAClosedClientHoldsNoneOfSeveralLocks(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		held := mustLock(t, w.client().Mutex("b"))
		c := w.client()
		l := mustLockAll(t, c.MultiMutex([]string{"x", "y"}))
		done := passing(t.Context(), c.MultiMutex([]string{"a", "b", "c"}).Lock)
		assert.NoError(t, c.Close(t.Context()))
		assert.Is(t, <-done, holdfast.ErrClosed)
		assert.Is(t, context.Cause(l.Context()), holdfast.ErrClosed)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrClosed)
		for _, name := range []string{"a", "c", "x", "y"} {
			w.wantFree(name)
		}
		_, err := c.MultiMutex([]string{"a"}).Lock(t.Context())
		assert.Is(t, err, holdfast.ErrClosed)
		release(t, held)
	})
}

// Many goroutines of several processes want sets of names, and others want single names.
// All of them get their locks, and no lock is held twice.
func TestSetsOfLocksNeverOverlapAndNeverHang(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) { sets(t, w, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func sets(t *testing.T, w *world, dice *rand.Rand) {
	var (
		mu      sync.Mutex
		holders = map[string]int{}
		tokens  = map[string]uint64{}
		all     sync.WaitGroup
	)
	enter := func(id int, name string, token uint64) {
		mu.Lock()
		defer mu.Unlock()
		assert.True(t, holders[name] == 0 && token > tokens[name],
			"%q is held by %d and given to %d with %d after %d", name, holders[name], id, token, tokens[name])
		holders[name], tokens[name] = id, token
	}
	leave := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		holders[name] = 0
	}
	w.net.slow(func(string) (there, back time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(dice.IntN(3000)) * time.Microsecond, time.Duration(dice.IntN(3000)) * time.Microsecond
	})
	roll := func(n int) int { mu.Lock(); defer mu.Unlock(); return dice.IntN(n) }
	for p := range 3 {
		c := w.client(holdfast.Config{MaxLocalHandOvers: []int{0, 3, -1}[p]})
		for g := range 6 {
			id := 1 + p*10 + g
			all.Go(func() {
				for range 15 {
					names := []string{"a", "b", "c", "d", "e"}[roll(3):][:1+roll(3)]
					if roll(3) == 0 {
						l := mustLock(t, c.Mutex(names[0]))
						enter(id, names[0], l.Token())
						time.Sleep(time.Duration(roll(2000)) * time.Microsecond)
						leave(names[0])
						release(t, l)
						continue
					}
					l := mustLockAll(t, c.MultiMutex(names))
					for _, name := range names {
						enter(id, name, l.Token(name))
					}
					time.Sleep(time.Duration(roll(2000)) * time.Microsecond)
					for _, name := range names {
						leave(name)
					}
					releaseAll(t, l)
				}
			})
		}
	}
	start := time.Now()
	all.Wait()
	assert.AtMost(t, time.Since(start), ttl, "it took: somebody waited for a lease to run out")
}

// Several locks are trusted as long as the one that ends first.
func TestSeveralLocksAreTrustedAsLongAsTheFirstThatEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLockAll(t, w.client().MultiMutex([]string{"a", "b", "c"}, holdfast.NoRenewal()))
		w.FailRequest(func(action string, keys []string) error {
			if action == "renew" && keys[0] == "holdfast:{a}" {
				return errLink
			}
			return nil
		})
		assert.True(t, l.Extend(t.Context(), time.Hour) != nil, "the lock a was extended over a link that is broken")
		w.FailRequest(nil)
		left := l.Remaining()
		assert.True(t, left <= trusted, "all are trusted for %v, and one of them for %v", left, trusted)
		releaseAll(t, l)
	})
}
