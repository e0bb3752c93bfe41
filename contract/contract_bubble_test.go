package contract_test

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
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// hooked is a store that calls a function after each action, with the context that the
// library gave it and the answer, which the function may change.
type hooked struct {
	*memstore.Store
	after func(ctx context.Context, action string, answer *string)
}

func (h *hooked) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	answer, err := h.Store.Run(ctx, action, keys, args)
	if h.after != nil {
		h.after(ctx, action.Name, &answer)
	}
	return answer, err
}

// hook makes a client of a world over such a store.
func (w *world) hook(after func(ctx context.Context, action string, answer *string)) *holdfast.Client {
	w.t.Helper()
	c, err := holdfast.New(&hooked{w.Store, after}, holdfast.Config{RequestTimeout: time.Second})
	assert.Must(w.t, err)
	w.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// A store learns from its context how long a request may take: never longer than the
// caller waits. After that time the context has ended.
func TestAStoreIsToldHowLongARequestMayTake(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var given context.Context
		c := w.hook(func(ctx context.Context, action string, _ *string) {
			if action == "acquire" {
				given = ctx
			}
		})
		for waits, want := range map[time.Duration]time.Duration{
			time.Minute: time.Second, 100 * time.Millisecond: 100 * time.Millisecond,
		} {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), waits)
			l, err := c.Mutex("m").TryLock(ctx)
			assert.Must(t, err)
			at, bounded := given.Deadline()
			assert.True(t, bounded && at.Sub(start) == want && given.Err() == nil,
				"a deadline after %v (%v), and %v", at.Sub(start), bounded, given.Err())
			time.Sleep(want)
			synctest.Wait()
			assert.Is(t, given.Err(), context.DeadlineExceeded)
			release(t, l)
			cancel()
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

// After a failover a server may answer with an old record. An observer is not told of
// that leader again.
func TestAnObserverIsNotToldOfAnEarlierLeaderAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var old string
		lags := false
		c := w.hook(func(_ context.Context, action string, answer *string) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case action != "read_leader":
			case lags:
				*answer = old
			case old == "":
				old = *answer
			}
		})
		candidate := w.client()
		first := mustCampaign(t, candidate.Election("e"), "one")
		seen := observe(t, c.Election("e"))
		resign(t, first)
		synctest.Wait()
		second := mustCampaign(t, candidate.Election("e"), "two")
		seen.want(t, "one", "-", "two")
		mu.Lock()
		lags = true
		mu.Unlock()
		assert.Must(t, second.Proclaim(t.Context(), "three"))
		seen.want(t, "one", "-", "two")
		mu.Lock()
		lags = false
		mu.Unlock()
		time.Sleep(ttl)
		seen.want(t, "one", "-", "two", "three")
		seen.stop()
		resign(t, second)
	})
}

// What an observer was told of a leader is true until its lease expires, although the
// server is unreachable.
func TestAnObserverIsNotToldOfAShortAbsenceOfTheServer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lead := mustCampaign(t, w.client().Election("e"), "one")
		seen := observe(t, w.client().Election("e"))
		w.FailRequest(only("read_leader", 3, errLink))
		assert.Must(t, lead.Proclaim(t.Context(), "two"))
		time.Sleep(ttl / 3)
		seen.want(t, "one", "two")
		seen.stop()
		resign(t, lead)
	})
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

// A reader gives up at the moment at which it joins the hold of another reader. (Which of
// the two it sees first is random, so the test tries often.)
func TestAReaderThatGivesUpAsItIsGrantedKeepsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var c *holdfast.Client
		var meanwhile func()
		c = w.hook(func(_ context.Context, action string, _ *string) {
			if action == "acquire" && meanwhile != nil {
				f := meanwhile
				meanwhile = nil
				f()
			}
		})
		release(t, must(t, c.RWMutex("m").RLock)) // the client is warm
		for range 30 {
			second := make(chan outcome, 1)
			meanwhile = func() {
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					l, err := c.RWMutex("m").RLock(ctx)
					second <- outcome{Lease: l, err: err}
				}()
				synctest.Wait() // it waits for the first
				cancel()
			}
			first := must(t, c.RWMutex("m").RLock)
			if got := <-second; got.err == nil {
				release(t, keep(got.Lease))
			}
			release(t, first)
			if w.wantFree("m"); t.Failed() {
				return
			}
		}
	})
}

// A grant that replicas must acknowledge does not come from a batch, because a batch has
// no acknowledgements.
func TestManyAcquisitionsAtOnceAreAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		w.net.slow(func(string) (time.Duration, time.Duration) { return time.Millisecond, time.Millisecond })
		w.SetAcks(store.Acks{Replicas: 1})
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				l, err := c.Mutex(fmt.Sprint("own-", i), holdfast.WaitReplicas(2, limit)).TryLock(t.Context())
				if assert.Is(t, err, holdfast.ErrNotAcked); l != nil {
					release(t, l)
				}
			})
		}
		all.Wait()
	})
}
