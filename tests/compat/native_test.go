package compat

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
)

func TestNativeLocksAndTheOriginalExcludeEachOther(t *testing.T) {
	onWires(t, func(t *testing.T, w world) {
		c := w.client(holdfast.Config{})
		lease, err := c.Mutex("key").Lock(t.Context())
		must(t, err)
		assert.True(t, lease.Token() == 0, "token: %d", lease.Token())
		assert.MustTrue(t, assert.Err(w.try()) != nil, "the original has it, too")
		info, err := w.client(holdfast.Config{}).Inspect(t.Context(), "key")
		must(t, err)
		assert.True(t, len(info.Holders) == 1 && strings.HasPrefix(info.Holders[0].HolderID, lease.HolderID()),
			"holders: %+v", info.Holders)
		must(t, lease.Release(t.Context()))
		release, err := w.try()
		must(t, err)
		var held *holdfast.HeldError
		_, err = c.Mutex("key").TryLock(t.Context())
		assert.True(t, errors.As(err, &held) && held.HeldBy != "" && held.Remaining != 0,
			"held by the original: %v", err)
		done := make(chan error, 1)
		waits := make(chan struct{}, 16)
		waiting := w.client(holdfast.Config{Observer: observer(func(e observe.Event) {
			if e.Kind == observe.EventWait {
				waits <- struct{}{}
			}
		})})
		go func() {
			done <- waiting.Mutex("key").Do(t.Context(), func(context.Context) error { return nil })
		}()
		redistest.Next(t, "the wait", waits)
		must(t, release())
		must(t, redistest.Next(t, "the lock", done))
	})
}

// A try that too few servers granted leaves nothing on those that did.
func TestANativeTryThatFailsLeavesNothing(t *testing.T) {
	onWires(t, func(t *testing.T, w world) {
		minority := len(w.servers) / 2
		for _, server := range w.servers[minority:] {
			server.Do(t, "SET", "key", "other")
		}
		_, err := w.client(holdfast.Config{}).Mutex("key").TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrHeld)
		for _, server := range w.servers[:minority] {
			assert.True(t, free(t, server), "the try left its key")
		}
	})
}

// An acquisition whose answers are lost is taken back, although the caller's context has ended. redsync and
// redislock keep the key for its whole TTL.
func TestAnAcquisitionWithoutAnAnswerIsTakenBack(t *testing.T) {
	onWires(t, func(t *testing.T, w world) {
		proxies, addrs := proxied(t, w)
		c := w.clientAt(addrs, holdfast.Config{TTL: time.Hour})
		lease, err := c.Mutex("key").Lock(t.Context()) // the servers know the scripts: the next one is one request
		must(t, err)
		must(t, lease.Release(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		// Every answer is lost until the call has returned. The client also registers in the background: that request
		// does not end the context.
		for _, proxy := range proxies {
			proxy.DropReplies(math.MaxInt, "EVALSHA")
			proxy.Hook(func(e redistest.Event) {
				if e.Stage == redistest.Executed && slices.Contains(e.Request, "key") {
					cancel()
				}
			})
		}
		_, err = c.Mutex("key").TryLock(ctx)
		for _, proxy := range proxies {
			proxy.Pass()
		}
		assert.Is(t, err, context.Canceled)
		for _, server := range w.servers {
			redistest.Await(t, "the key to go", func() bool { return free(t, server) })
		}
	})
}

// proxied has a proxy before each server.
func proxied(t *testing.T, w world) (proxies []*redistest.Proxy, addrs []string) {
	for _, server := range w.servers {
		proxies = append(proxies, redistest.NewProxy(t, server.Addr()))
		addrs = append(addrs, proxies[len(proxies)-1].Addr())
	}
	return proxies, addrs
}

// A grant that arrives after its own end is none, and is taken back. The call does not wait for it.
func TestALateGrantIsNone(t *testing.T) {
	onWires(t, func(t *testing.T, w world) {
		proxies, addrs := proxied(t, w)
		c := w.clientAt(addrs, holdfast.Config{})
		lease, err := c.Mutex("key").Lock(t.Context())
		must(t, err)
		must(t, lease.Release(t.Context()))
		for _, proxy := range proxies {
			proxy.Delay(4 * time.Second)
		}
		_, err = c.Mutex("key", holdfast.TTL(2*time.Second)).TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrUnknownOutcome)
		for _, server := range w.servers {
			redistest.Await(t, "the key to go", func() bool { return free(t, server) })
		}
	})
}

// A key of another kind never becomes free, and the originals wait for it for ever.
func TestAKeyOfAnotherKindIsRefusedAndLeftAlone(t *testing.T) {
	onWires(t, func(t *testing.T, w world) {
		for _, server := range w.servers {
			server.Do(t, "LPUSH", "key", "other")
		}
		_, err := w.client(holdfast.Config{}).Mutex("key").Lock(t.Context())
		var refused *holdfast.ServerError
		assert.True(t, errors.As(err, &refused) && refused.Code == "WRONGTYPE", "%v", err)
		for _, server := range w.servers {
			assert.Equal[any](t, server.Do(t, "LLEN", "key"), int64(1), "elements of the list")
		}
	})
}

// observer receives events.
type observer func(observe.Event)

func (o observer) Observe(e observe.Event) { o(e) }

// waitsAndWakes observes when a waiter waits, and what wakes it.
func waitsAndWakes(waits chan<- struct{}, wakes chan<- observe.Wake) observer {
	return func(e observe.Event) {
		if e.Kind == observe.EventWait {
			waits <- struct{}{}
		}
		if e.Kind == observe.EventWake {
			wakes <- e.Wake
		}
	}
}

// A release of a native lock wakes native waiters on the same wire.
func TestAReleaseWakesNativeWaiters(t *testing.T) {
	onWires(t, func(t *testing.T, w world) {
		a := w.client(holdfast.Config{})
		waits, wakes := make(chan struct{}, 64), make(chan observe.Wake, 64)
		b := w.client(holdfast.Config{Observer: waitsAndWakes(waits, wakes)})
		pushed := 0
		for range 10 {
			// It is free. If a try left something on a server, its wait would last for a TTL.
			lease, err := a.Mutex("key", holdfast.MaxWait(20*time.Second)).Lock(t.Context())
			must(t, err)
			done := make(chan error, 1)
			go func() { done <- b.Mutex("key").Do(t.Context(), func(context.Context) error { return nil }) }()
			redistest.Next(t, "the wait", waits)
			must(t, lease.Release(t.Context()))
			must(t, redistest.Next(t, "the lock", done))
			for len(wakes) > 0 {
				if <-wakes == observe.WakePush {
					pushed++
				}
			}
		}
		assert.True(t, pushed != 0, "no waiter was woken by a message")
	})
}

func TestWhatTheWireCannotCarryIsRefusedByName(t *testing.T) {
	onWires(t, func(t *testing.T, w world) {
		c := w.client(holdfast.Config{})
		ctx := t.Context()
		for what, call := range map[string]func() error{
			"readers": func() error { _, err := c.RWMutex("key").RLock(ctx); return err },
			"permits": func() error { _, err := c.Semaphore("key", 2).Acquire(ctx, 1); return err },
			"Owner":   func() error { _, err := c.Mutex("key", holdfast.Owner("o")).TryLock(ctx); return err },
			"Periodic": func() error {
				_, err := c.Periodic("key", time.Hour).Do(ctx, func(context.Context) error { return nil })
				return err
			},
			"Election":         func() error { _, err := c.Election("key").Leader(ctx); return err },
			"Check of a token": func() error { return c.Check(ctx, "key", 0) },
		} {
			err := call()
			var refused *holdfast.ServerError
			if !errors.As(err, &refused) || refused.Code != "UNSUPPORTED" || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, server := range w.servers {
			assert.True(t, server.Do(t, "EXISTS", "key") == int64(0), "a refused call left something")
			server.Do(t, "SET", "key", "other")
		}
		_, err := c.Election("key").Campaign(ctx, "here") // it does not wait for the holder first
		refusedBy(t, "Campaign", err, "UNSUPPORTED")
	})
}

func TestANativeLeaseIsRenewedAndItsLossIsTold(t *testing.T) {
	onWires(t, func(t *testing.T, w world) {
		c := w.client(holdfast.Config{})
		lease, err := c.Mutex("key", holdfast.TTL(6*time.Second)).Lock(t.Context())
		must(t, err)
		redistest.Await(t, "a renewal", func() bool { return w.servers[0].CommandCalls(t)["pexpire"] >= 1 })
		assert.MustTrue(t, lease.Err() == nil, "lost: %v", lease.Err())
		for _, server := range w.servers {
			server.Do(t, "SET", "key", "other")
		}
		redistest.Next(t, "the loss", lease.Context().Done())
		assert.Is(t, lease.Release(t.Context()), holdfast.ErrNotHeld)
		for _, server := range w.servers {
			assert.True(t, server.Do(t, "GET", "key") == "other", "it deleted the key of another client")
		}
	})
}

func TestAnEvictionEndsAHoldOfTheOriginal(t *testing.T) {
	onWires(t, func(t *testing.T, w world) {
		_, err := w.try()
		must(t, err)
		c := w.client(holdfast.Config{})
		_, err = c.Evict(t.Context(), "key", holdfast.Eviction{By: "ann", Reason: "test", AtOnce: true})
		must(t, err)
		lease, err := c.Mutex("key").TryLock(t.Context())
		must(t, err)
		must(t, lease.Release(t.Context()))
	})
}

// One of three servers is lost, and the lock goes on. With two lost, an acquisition fails, and
// leaves nothing.
func TestAQuorumOnRedsyncsWire(t *testing.T) {
	t.Parallel()
	servers := redistest.Primaries(t, 3, redistest.AllowAll())
	c := native(t, redsyncStore(t, redistest.Addrs(servers)), holdfast.Config{RequestTimeout: 2 * time.Second})
	lease, err := c.Mutex("key", holdfast.TTL(10*time.Second)).Lock(t.Context())
	must(t, err)
	servers[1].Kill()
	before := servers[0].CommandCalls(t)["pexpire"]
	redistest.Await(t, "a renewal", func() bool { return servers[0].CommandCalls(t)["pexpire"] > before })
	assert.MustTrue(t, lease.Err() == nil, "lost with one server: %v", lease.Err())
	must(t, lease.Release(t.Context()))
	servers[2].Kill()
	assert.True(t, assert.Err(c.Mutex("key", holdfast.TTL(time.Hour)).TryLock(t.Context())) != nil,
		"locked on one of three servers")
	redistest.Await(t, "the first server to be free", func() bool { return free(t, servers[0]) })
}

// Clients of native locks and programs with the original take one lock in turn, and nobody meets
// anybody inside. If a try left something on a server, each wait would last for a TTL: the first ends
// the test.
func TestCrossings(t *testing.T) {
	onWires(t, func(t *testing.T, w world) {
		inside := make(chan struct{}, 1)
		enter := func() {
			select {
			case inside <- struct{}{}:
				<-inside
			default:
				t.Error("two are inside")
			}
		}
		var all sync.WaitGroup
		const rounds = 25
		for range 2 {
			c := w.client(holdfast.Config{})
			all.Go(func() {
				for range rounds {
					err := c.Mutex("key", holdfast.MaxWait(20*time.Second)).
						Do(t.Context(), func(context.Context) error { enter(); return nil })
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
			all.Go(func() {
				for got := 0; got < rounds && !t.Failed(); {
					release, err := w.try()
					if err != nil {
						continue
					}
					got++
					enter()
					assert.NoError(t, release())
				}
			})
		}
		all.Wait()
	})
}
