package contract_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// pushlessNet is a network that refuses subscriptions while refuse is set.
type pushlessNet struct {
	*network
	refuse atomic.Pointer[error]
	asked  atomic.Int64
	slow   time.Duration // what a subscription takes
	permit string        // what the server says of its user's rights; empty: all is permitted
}

func (net *pushlessNet) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	net.asked.Add(1)
	if err := net.refuse.Load(); err != nil {
		if errors.Is(*err, errLink) { // a proxy that drops unknown commands
			<-ctx.Done()
		}
		return nil, *err
	}
	select {
	case <-time.After(net.slow):
		return net.network.Listen(ctx, channel, l)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (net *pushlessNet) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	if action == script.CheckACL && net.permit != "" {
		return net.permit, nil
	}
	return net.network.Run(ctx, action, keys, args)
}

// pushlessClient makes a client that cannot subscribe: the reason is err.
func (w *world) pushlessClient(err error, cfg holdfast.Config) (*holdfast.Client, *pushlessNet) {
	w.t.Helper()
	net := &pushlessNet{network: w.net}
	net.refuse.Store(&err)
	return w.over(net, cfg), net
}

// over makes a client of a store, which is closed with the test.
func (w *world) over(s store.Store, cfg holdfast.Config) *holdfast.Client {
	w.t.Helper()
	c, err := holdfast.New(s, cfg)
	assert.Must(w.t, err)
	w.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

var errNoPerm = &holdfast.ServerError{Code: "NOPERM", Message: "NOPERM no permission for the 'subscribe' command"}

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
			unavailable := events.all(holdfast.EventPushUnavailable)
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
		assert.Equal(t, len(events.all(holdfast.EventPushUnavailable)), 1, "how often the observer is told")
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
