// A lost push cannot make a waiter hang (G10), waiting is cheap (G16), and it needs no subscription (G33).

package contract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

func TestALostPushCostsAPollAndNeverTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		next := w.waiting(b.Mutex("a"), t.Context())
		time.Sleep(5 * time.Second)
		left := l.Remaining()
		w.DropPushes(1)
		release(t, l)
		start := time.Now()
		got := <-next
		assert.Must(t, got.err)
		assert.AtMost(t, got.at.Sub(start), left+time.Second, "found after, the holder had %v left", left)
		assert.Equal(t, got.Remaining(), trusted, "what is left of a lease that a poll confirmed just now")
		release(t, got.Lease)
	})
}

func TestABrokenSubscriptionIsFollowedByAPoll(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		events := &recorder{}
		a, b := w.client(), w.client(holdfast.Config{Observer: events})
		l := mustLock(t, a.Mutex("a"))
		next := w.waiting(b.Mutex("a"), t.Context())
		resume := w.BreakSubscriptions()
		release(t, l) // no push arrives
		time.Sleep(time.Second)
		start := time.Now()
		resume()
		got := <-next
		assert.MustTrue(t, got.err == nil && got.at.Equal(start),
			"%v, %v after the subscription was made again", got.err, got.at.Sub(start))
		wake := events.all(observe.EventWake)
		assert.True(t, len(wake) == 1 && wake[0].Wake == observe.WakeResume, "woken by %v", wake)
		release(t, got.Lease)
	})
}

func TestAWaiterWithoutASubscriptionIsSkippedAndKeepsItsPosition(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		first := w.waiting(w.client().Mutex("a"), t.Context())
		second := w.waiting(w.client().Mutex("a"), t.Context())
		resume := w.BreakSubscriptions()
		release(t, l)
		resume()
		one := <-first
		select {
		case <-second:
			t.Error("the second one overtook the first")
		default:
		}
		release(t, one.Lease)
		release(t, (<-second).Lease)
	})
}

// frozen makes n waiters of as many clients that subscribe, and do nothing else, like stopped processes.
func (w *world) frozen(t *testing.T, group, n int, ttl time.Duration) {
	for i := range n {
		client := fmt.Sprintf("frozen%d-%d", group, i)
		stop, err := w.Listen(t.Context(), "holdfast:push:"+client, store.Listener{Message: func(string) {}})
		assert.Must(t, err)
		t.Cleanup(stop)
		_, err = w.Run(t.Context(), script.Acquire, []string{"holdfast:{a}"}, []string{
			client + "/1", fmt.Sprint(ttl.Milliseconds()), "900000", "x", "600000", "holdfast:push:",
		})
		assert.Must(t, err)
	}
}

// Clients that are frozen while they wait delay the queue once, and together, wherever they stand. Those that answer
// are served in order. The last of all is frozen, too, if behind is not 0.
func TestFrozenWaitersDelayTheQueueOnceTogether(t *testing.T) {
	for _, of := range []struct {
		live, frozen, behind int
		ttl                  time.Duration
	}{
		{3, 4, 0, 2 * time.Second}, {3, 8, 0, 20 * time.Second}, {3, 33, 0, 20 * time.Second},
		{1, 12, 12, 20 * time.Second}, {3, 6, 6, 20 * time.Second}, {1, 1, 23, 20 * time.Second},
		{2, 12, 1, 20 * time.Second}, {2, 12, 1, time.Hour},
	} {
		runBubble(t, fmt.Sprint(of), func(t *testing.T, w *world) {
			cfg := holdfast.Config{TTL: of.ttl}
			l := mustLock(t, w.client(cfg).Mutex("a"))
			var live []<-chan outcome
			for group := range of.live {
				w.frozen(t, group, of.frozen, of.ttl)
				live = append(live, w.waiting(w.client(cfg).Mutex("a"), t.Context()))
			}
			w.frozen(t, of.live, of.behind, of.ttl)
			time.Sleep(2 * time.Second)
			release(t, l)
			began := time.Now()
			for i, next := range live {
				got := <-next
				assert.Must(t, got.err)
				for _, later := range live[i+1:] {
					assert.Equal(t, len(later), 0, "a later waiter has the lock, too")
				}
				assert.Equal(t, len(strings.Fields(w.Dump("holdfast:{a}")["lost"])), 1, "lost grants")
				release(t, got.Lease)
			}
			assert.AtMost(t, time.Since(began), 5*time.Second, "the frozen clients delay %d waiters", of.live)
		})
	}
}

// The server says that the lock is free later, and falls silent. The waiter asks again as
// soon as it would without those words.
func TestAWordFromBeforeASilenceDoesNotLengthenIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		next := w.waiting(b.Mutex("a"), t.Context())
		waiter := w.state("a").Waiters[0].HolderID
		var silent time.Time
		fail := only("poll", 1, errLink)
		w.FailRequest(func(action string, args []string) error {
			err := fail(action, args)
			if err != nil {
				silent = time.Now()
				go w.Publish("holdfast:push:"+b.ID(), "kept "+waiter+" 20000")
			}
			return err
		})
		w.DropPushes(1)
		release(t, l)
		got := <-next
		if waited := got.at.Sub(silent); got.err != nil || silent.IsZero() || waited > time.Second {
			t.Errorf("%v, %v after the poll that failed", got.err, waited)
		}
		release(t, got.Lease)
	})
}

// Two pushes arrive before the waiter can take one. It polls because of one of them, and what
// the other one says is older than the answer.
func TestAnAnswerReplacesWhatArrivedBeforeIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for i := range 20 {
			name := fmt.Sprint(i)
			b := w.client()
			mustLock(t, w.client().Mutex(name, holdfast.NoRenewal(), holdfast.TTL(2*time.Second)))
			start := time.Now()
			w.net.slow(func(action string) (_, back time.Duration) {
				if action == "acquire" {
					back = 500 * time.Millisecond
				}
				return 0, back
			})
			next := w.waiting(b.Mutex(name), t.Context())
			time.Sleep(700 * time.Millisecond) // busy; in the queue, and the answer is under way
			waiter := w.state(name).Waiters[0].HolderID
			w.Publish("holdfast:push:"+b.ID(), "kept "+waiter+" 20000")
			w.Publish("holdfast:push:"+b.ID(), "granted "+waiter+" 1 0")
			got := <-next
			if waited := got.at.Sub(start); got.err != nil || waited > 3*time.Second {
				t.Fatalf("%v after %v, and the lease was over after two seconds", got.err, waited)
			}
			release(t, got.Lease)
			w.net.slow(nil)
		}
	})
}

// The server has removed the position by then: the waiter joins again.
func TestAWaiterOutlastsAServerThatIsSilentForLongerThanItsPositionLasts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		mustLock(t, w.client().Mutex("a"))
		next := w.waiting(w.client().Mutex("a"), t.Context())
		w.FailRequest(func(string, []string) error { return errLink })
		time.Sleep(time.Hour)
		w.FailRequest(nil)
		got := <-next
		assert.Must(t, got.err)
		release(t, got.Lease)
	})
}

func TestAWaiterThatTheServerForgotJoinsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.client(), w.client(), w.client()
		mustLock(t, a.Mutex("a"))
		next := w.waiting(b.Mutex("a"), t.Context())
		w.Flush()
		l := must(t, c.Mutex("a").TryLock)
		time.Sleep(2 * time.Minute) // the waiter polls, and joins the queue of the new record
		s := w.state("a")
		assert.MustTrue(t, len(s.Waiters) == 1 && s.Waiters[0].ClientID == b.ID(), "waiters: %+v", s.Waiters)
		release(t, l)
		got := <-next
		assert.Must(t, got.err)
		release(t, got.Lease)
	})
}

// A push can be delayed for longer than its lease. By then the server may have forgotten
// the waiter, which has joined again.
func TestAPushFromBeforeAWaiterJoinedAgainIsNotTrusted(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		next := w.waiting(b.Mutex("a"), t.Context())
		waiter := w.state("a").Waiters[0].HolderID
		w.Flush()
		<-l.Context().Done()
		other := mustLock(t, w.client().Mutex("a"))
		time.Sleep(2 * time.Minute)
		assert.MustEqual(t, len(w.state("a").Waiters), 1, "the waiter has not joined again")
		w.Publish("holdfast:push:"+b.ID(), fmt.Sprintf("granted %s %d 0", waiter, other.Token()>>10-1))
		synctest.Wait()
		select {
		case got := <-next:
			t.Errorf("granted %v, %v while %s holds the lock", got.Lease, got.err, other.HolderID())
		default:
			release(t, other)
			release(t, (<-next).Lease)
		}
	})
}

// The push of a replaced primary arrives late, after the new primary has answered that
// the attempt waits.
func TestAPushFromBeforeTheQueuedAnswerIsNotTrusted(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		next := w.waiting(b.Mutex("a"), t.Context())
		waiter := w.state("a").Waiters[0].HolderID
		time.Sleep(time.Second)
		then := time.Now().UnixMicro()
		polled := w.net.count("poll")
		time.Sleep(time.Minute)
		assert.MustTrue(t, w.net.count("poll") != polled, "the waiter has not looked")
		w.Publish("holdfast:push:"+b.ID(), fmt.Sprintf("granted %s %d 0", waiter, then))
		synctest.Wait()
		select {
		case got := <-next:
			t.Errorf("granted %v, %v while %s holds the lock", got.Lease, got.err, l.HolderID())
		default:
			release(t, l)
			release(t, (<-next).Lease)
		}
	})
}

func TestPushesOfStrangersChangeNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		next := w.waiting(b.Mutex("a"), t.Context())
		now := fmt.Sprint(time.Now().UnixMicro())
		for _, payload := range []string{
			"", "granted", "hello", "granted x/1 " + now + " 0", "granted " + a.ID() + "/1 " + now + " 0",
			"granted " + b.ID() + "/99 " + now + " 0", "granted " + b.ID() + "/x " + now + " 0",
			"granted " + b.ID() + "/1 x 0",
		} {
			w.Publish("holdfast:push:"+b.ID(), payload)
		}
		synctest.Wait()
		assert.Equal(t, len(next), 0, "a stranger's push granted the lock")
		release(t, l)
		release(t, (<-next).Lease)
	})
}

func TestASubscriptionThatFailsIsTriedAgainAndLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		release(t, mustLock(t, b.Mutex("other")))
		var resume func()
		w.LoseReply(func(action string, _ []string) error {
			if action == "acquire" {
				resume = w.Stall() // between the first answer and the subscription
			}
			return nil
		})
		held := wantOver(t, 20*time.Second, b.Mutex("a", holdfast.MaxWait(20*time.Second)).Lock)
		assert.True(t, held.Err != nil && strings.Contains(held.Err.Error(), "no answer in time"), "it says %q", held)
		w.LoseReply(nil)
		resume()
		release(t, l)
		w.wantFree("a")
		release(t, mustLock(t, b.Mutex("a")))
	})
}

func TestWaitingCostsTheServerNextToNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 20
		l := mustLock(t, w.client().Mutex("a"))
		var waiters []<-chan outcome
		ctx, cancel := context.WithCancel(t.Context())
		for range n {
			waiters = append(waiters, w.waiting(w.client().Mutex("a"), ctx))
		}
		before := w.net.count("poll")
		time.Sleep(time.Hour)
		assert.AtMost(t, w.net.count("poll")-before, n*60*4,
			"polls of %d waiters in an hour: more than one in 15s each", n)
		cancel()
		for _, ch := range waiters {
			assert.Is(t, (<-ch).err, context.Canceled)
		}
		release(t, l)
		synctest.Wait()
		w.wantFree("a")
	})
}

func TestWithoutSubscriptionsWaitersPoll(t *testing.T) {
	for name, refusal := range map[string]error{
		"not permitted": errNoPerm,
		"unknown":       &holdfast.ServerError{Code: "ERR", Message: "ERR unknown command 'subscribe'"},
		"swallowed":     errLink,
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			var said bytes.Buffer
			events := &recorder{}
			cfg := holdfast.Config{Observer: events, Logger: slog.New(slog.NewTextHandler(&said, nil))}
			c, _ := w.pushlessClient(refusal, cfg)
			for round := range 3 {
				l := mustLock(t, w.client().Mutex("a"))
				next := w.waiting(c.Mutex("a"), t.Context())
				time.Sleep(10 * time.Second)
				assert.MustEqual(t, len(w.state("a").Waiters), 1, "waiters in the line")
				start := time.Now()
				release(t, l)
				got := <-next
				if waited := got.at.Sub(start); got.err != nil || waited > 1500*time.Millisecond {
					t.Errorf("round %d: %v after %v", round, got.err, waited)
				}
				release(t, got.Lease)
				w.wantFree("a")
			}
			n := strings.Count(said.String(), "so waiters poll")
			assert.True(t, n == 1, "said %d times:\n%s", n, said.String())
			unavailable := events.all(observe.EventPushUnavailable)
			assert.True(t, len(unavailable) == 1 && errors.Is(unavailable[0].Err, refusal),
				"the observer is told %v", unavailable)
		})
	}
}

func TestPollingInsteadOfSubscribingHasABoundedCost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, net := w.pushlessClient(errNoPerm, holdfast.Config{})
		mustLock(t, w.client().Mutex("a"))
		ctx, cancel := context.WithCancel(t.Context())
		var waiters []<-chan outcome
		for range 20 { // goroutines of one process wait as one
			waiters = append(waiters, w.waiting(c.Mutex("a"), ctx))
		}
		before := w.net.count("poll")
		time.Sleep(time.Hour)
		polls := w.net.count("poll") - before
		assert.True(t, polls >= 3000 && polls <= 4200, "%d polls in an hour, want about one a second", polls)
		n := net.asked.Load()
		assert.True(t, n >= 50 && n <= 60, "%d subscriptions were asked for in an hour, want about one a minute", n)
		cancel()
		for _, ch := range waiters {
			assert.Is(t, (<-ch).err, context.Canceled)
		}
	})
}

func TestASubscriptionIsTriedAgainAfterAMinute(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, net := w.pushlessClient(errNoPerm, holdfast.Config{})
		a := w.client()
		wait := func() (waited time.Duration) {
			l := mustLock(t, a.Mutex("a"))
			next := w.waiting(c.Mutex("a"), t.Context())
			start := time.Now()
			release(t, l)
			got := <-next
			release(t, got.Lease)
			return got.at.Sub(start)
		}
		assert.MustTrue(t, wait() != 0 && net.asked.Load() == 1, "%d subscriptions were asked for", net.asked.Load())
		net.refuse.Store(nil) // an administrator has mended it
		assert.True(t, wait() != 0 && net.asked.Load() == 1,
			"%d subscriptions were asked for within a minute", net.asked.Load())
		time.Sleep(time.Minute)
		if waited := wait(); waited != 0 || net.asked.Load() != 2 {
			t.Errorf("waited for %v after %d subscriptions were asked for", waited, net.asked.Load())
		}
	})
}

// contend keeps a lock busy until the test ends, with a waiter that receives pushes.
func (w *world) contend(name string) {
	var holders sync.WaitGroup
	for range 2 {
		mu := w.client().Mutex(name)
		holders.Go(func() {
			for {
				l, err := mu.Lock(w.t.Context())
				if err != nil {
					return
				}
				time.Sleep(5 * time.Millisecond)
				_ = l.Release(context.Background())
			}
		})
	}
	// A goroutine that sleeps when the bubble's first one returns sleeps for ever.
	w.t.Cleanup(holders.Wait)
	synctest.Wait()
}

func TestAWaiterGetsPushesAsSoonAsItsSubscriptionIsConfirmed(t *testing.T) {
	runBubble(t, "it takes longer than a request may", func(t *testing.T, w *world) {
		net := &pushlessNet{network: w.net, slow: 2 * time.Second}
		c := w.over(net, holdfast.Config{RequestTimeout: time.Second})
		w.contend("a")
		start := time.Now()
		release(t, mustLock(t, c.Mutex("a")))
		if waited := time.Since(start); waited > 3*time.Second || net.asked.Load() != 1 {
			t.Errorf("waited for %v, %d subscriptions were asked for", waited, net.asked.Load())
		}
	})
	runBubble(t, "it was swallowed for a while", func(t *testing.T, w *world) {
		c, net := w.pushlessClient(errLink, holdfast.Config{})
		w.contend("a")
		next := w.waiting(c.Mutex("a"), t.Context())
		time.Sleep(20 * time.Second)
		net.refuse.Store(nil)
		start := time.Now()
		got := <-next
		waited := got.at.Sub(start)
		assert.True(t, got.err == nil && waited <= 40*time.Second, "%v after %v", got.err, waited)
		release(t, got.Lease)
	})
	runBubble(t, "it was not permitted", func(t *testing.T, w *world) {
		c, net := w.pushlessClient(errNoPerm, holdfast.Config{})
		w.contend("a")
		next := w.waiting(c.Mutex("a"), t.Context())
		time.Sleep(time.Second)
		net.refuse.Store(nil) // an administrator has mended it
		start := time.Now()
		got := <-next
		waited := got.at.Sub(start)
		assert.True(t, got.err == nil && waited <= time.Minute+time.Second, "%v after %v", got.err, waited)
		release(t, got.Lease)
	})
}

func TestAWaiterWithoutPushesLeavesTheQueueLikeAnyOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, _ := w.pushlessClient(errNoPerm, holdfast.Config{})
		l := mustLock(t, w.client().Mutex("a"))
		_, err := c.Mutex("a", holdfast.MaxWait(5*time.Second)).Lock(t.Context())
		assert.Is(t, err, holdfast.ErrHeld)
		_, err = c.Mutex("a").TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrHeld)
		synctest.Wait()
		release(t, l)
		w.wantFree("a")
	})
}

// One error names all missing permissions, before anything is written.
func TestMissingPermissionsAreNamedTogetherAndFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.over(&pushlessNet{network: w.net, permit: "missing hset pexpire publish"}, holdfast.Config{})
		_, err := c.Mutex("a").Lock(t.Context())
		var refused *holdfast.ServerError
		if !errors.As(err, &refused) || refused.Code != "NOPERM" ||
			!strings.Contains(err.Error(), "ACL SETUSER USER +hset +pexpire") {
			t.Errorf("it says %v", err)
		}
		assert.Contains(t, holdfast.Hint(err), "+hset +pexpire")
		assert.Equal(t, w.net.count("acquire"), 0, "acquisitions that were sent")
	})
}

// If the user may not publish, no client of this user gets pushes: their waiters poll.
func TestWithoutPublishingWaitersPoll(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		events := &recorder{}
		c := w.over(&pushlessNet{network: w.net, permit: "missing publish"}, holdfast.Config{Observer: events})
		l := mustLock(t, w.client().Mutex("a"))
		next := w.waiting(c.Mutex("a"), t.Context())
		w.DropPushes(-1)
		start := time.Now()
		release(t, l)
		got := <-next
		waited := got.at.Sub(start)
		assert.True(t, got.err == nil && waited <= 1500*time.Millisecond, "%v after %v", got.err, waited)
		release(t, got.Lease)
		assert.Equal(t, len(events.all(observe.EventPushUnavailable)), 1, "how often the observer is told")
	})
}

// If a server cannot tell its permissions, locks work all the same.
func TestAServerThatCannotTellItsPermissionsIsTriedAllTheSame(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.over(&pushlessNet{network: w.net, permit: "unknown"}, holdfast.Config{})
		release(t, mustLock(t, c.Mutex("a")))
		w.FailRequest(only("check_acl", 1, &holdfast.ServerError{Code: "ERR", Message: "ERR unknown"}))
		release(t, mustLock(t, w.client().Mutex("a")))
		w.FailRequest(only("check_acl", 1, errLink))
		_, err := w.client().Mutex("a").TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrUnreachable, errLink)
		w.wantFree("a")
	})
}

func TestTriesAreCountedAndSpread(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		c := w.client()
		mu := c.Mutex("a", holdfast.Tries(5, time.Second))
		before, start := w.net.count("acquire"), time.Now()
		_, err := mu.Lock(t.Context())
		var held *holdfast.HeldError
		if !errors.As(err, &held) || held.Tries != 5 || held.Waited != time.Since(start) ||
			held.HeldBy != l.HolderID() {
			t.Errorf("got %+v", err)
		}
		assert.Equal(t, w.net.count("acquire")-before, 5, "tries")
		took := time.Since(start)
		assert.True(t, took >= 2*time.Second && took <= 6*time.Second, "took %v", took)
		assert.True(t, len(w.state("a").Waiters) == 0 && w.net.count("poll") == 0,
			"an attempt that tries has a position in the wait queue, or polls")
		next := make(chan outcome, 1)
		go func() {
			l, err := mu.Lock(t.Context())
			next <- outcome{keep(l), err, time.Now()}
		}()
		time.Sleep(100 * time.Millisecond)
		release(t, l)
		got := <-next
		assert.Must(t, got.err)
		_, err = w.client().Mutex("a", holdfast.Tries(5, time.Second)).TryLock(t.Context())
		assert.True(t, errors.As(err, &held) && held.Tries == 0,
			"want a HeldError that counts no tries, got %+v", err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = w.client().Mutex("a", holdfast.Tries(100, time.Second)).Lock(ctx)
		assert.Is(t, err, context.DeadlineExceeded)
		release(t, got.Lease)
	})
}

// fleet calls f in n goroutines, each with its own lock.
func fleet(c *holdfast.Client, n int, f func(m *holdfast.Mutex)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(c.Mutex(fmt.Sprint("own-", i))) })
	}
	wg.Wait()
}

// Goroutines that want different locks at the same time share requests. Each gets its lock
// as if it had asked alone.
func TestManyAcquisitionsShareRequests(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		w.net.slow(func(string) (time.Duration, time.Duration) { return time.Millisecond, time.Millisecond })
		fleet(c, 100, func(m *holdfast.Mutex) {
			l, err := m.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if s := w.state(m.Name()); len(s.Holders) != 1 || s.Holders[0].HolderID != l.HolderID() {
				t.Errorf("%s is held by %v, not by %s", m.Name(), s.Holders, l.HolderID())
			}
			release(t, l)
			w.wantFree(m.Name())
		})
		asked := w.net.count("acquire") + w.net.count("acquire_free")
		freed := w.net.count("release") + w.net.count("release_idle")
		assert.True(t, asked <= 20 && freed <= 60,
			"100 locks took %d requests to acquire and %d to release", asked, freed)
	})
}

// If a batch gets no answer, the outcome of each of its requests is unknown, and each
// is cancelled. So is the second request of each call.
func TestALostAnswerToABatchIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		w.net.slow(func(string) (time.Duration, time.Duration) { return time.Millisecond, time.Millisecond })
		w.LoseReply(func(name string, _ []string) error {
			if strings.HasPrefix(name, "acquire") {
				return errLink
			}
			return nil
		})
		var mu sync.Mutex
		failed := 0
		fleet(c, 20, func(m *holdfast.Mutex) {
			l, err := m.TryLock(t.Context())
			if err != nil {
				assert.Is(t, err, holdfast.ErrUnknownOutcome, errLink)
				mu.Lock()
				failed++
				mu.Unlock()
				return
			}
			release(t, l)
		})
		assert.MustTrue(t, failed == 20 && w.net.count("acquire_free") > 0, "%d calls failed", failed)
		time.Sleep(time.Second)
		for i := range 20 {
			w.wantFree(fmt.Sprint("own-", i))
		}
	})
}

// An acquisition that is refused in a batch waits in the queue like any other.
func TestABatchQueuesForALockThatIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		other, c := w.client(), w.client()
		held := mustLock(t, other.Mutex("own-15"))
		release(t, mustLock(t, c.Mutex("warm")))
		w.net.slow(func(string) (time.Duration, time.Duration) { return time.Millisecond, time.Millisecond })
		go func() {
			time.Sleep(time.Second)
			release(t, held)
		}()
		start := time.Now()
		fleet(c, 16, func(m *holdfast.Mutex) {
			l := mustLock(t, m)
			if waited := time.Since(start); (m.Name() == "own-15") != (waited >= time.Second) {
				t.Errorf("%s was acquired after %v", m.Name(), waited)
			}
			release(t, l)
		})
	})
}

// If the context ends before the batch is sent, the request is not sent.
func TestAContextThatEndsBeforeTheBatchIsSentSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		w.net.slow(func(string) (time.Duration, time.Duration) { return 5 * time.Millisecond, 0 })
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() { release(t, mustLock(t, c.Mutex(fmt.Sprint("own-", i)))) })
		}
		synctest.Wait()
		wg.Go(func() {
			_, err := c.Mutex("late").Lock(ctx)
			assert.Is(t, err, context.Canceled)
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		if s := w.state("late"); s.Fence != 0 || w.net.count("cancel") != 0 {
			t.Errorf("it was sent: fence %d, %d cancels", s.Fence, w.net.count("cancel"))
		}
	})
}
