// A watcher is told, and delays nobody (G35).

package contract_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/store"
)

// awaiting calls await in a goroutine of its own, and returns once it waits.
func awaiting(ctx context.Context, await func(context.Context) error) <-chan outcome {
	return acquiring(ctx, func(ctx context.Context) (*holdfast.Lease, error) { return nil, await(ctx) })
}

// wantFreeAfter asserts that the lock was free, and that the news came so long after start.
func wantFreeAfter(t *testing.T, done <-chan outcome, start time.Time, least, most time.Duration) {
	t.Helper()
	got := <-done
	if after := got.at.Sub(start); got.err != nil || after < least || after > most {
		t.Errorf("%v after %v, want nil after %v to %v", got.err, after, least, most)
	}
}

// marked reports whether the lock's record says that somebody watches.
func (w *world) marked(c *holdfast.Client, name string) bool {
	return strings.HasSuffix(w.Dump("holdfast:{" + name + "}")["lock"], "!")
}

func TestAFreeLockIsFoundFreeByOneRequest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("a")))
		synctest.Wait() // the client has made itself known
		before := w.net.total()
		for name, await := range map[string]func(context.Context) error{
			"mutex": c.Mutex("a").AwaitFree, "never used": c.Mutex("b").AwaitFree,
			"writer": c.RWMutex("a").AwaitFree, "reader": c.RWMutex("a").AwaitReadable,
			"no wait": c.Mutex("a", holdfast.MaxWait(0)).AwaitFree,
			"permits": func(ctx context.Context) error { return c.Semaphore("a", 3).AwaitFree(ctx, 2) },
		} {
			err := await(t.Context())
			assert.True(t, err == nil, "%s: %v", name, err)
		}
		assert.Equal(t, w.net.total()-before, 6, "requests for 6 calls")
		w.wantFree("a")
		if len(w.Keys()) > 2 { // the client's own, and that of a
			t.Errorf("keys %v", w.Keys())
		}
	})
}

// Hundreds watch. One push tells all of them, and nobody gets the lock.
func TestAReleaseTellsAllWatchersAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, c := w.client(), w.client()
		l := mustLock(t, holder.Mutex("a"))
		var all []<-chan outcome
		for range 100 {
			all = append(all, awaiting(t.Context(), c.Mutex("a").AwaitFree))
		}
		assert.True(t, w.marked(c, "a"), "the record does not say that somebody watches")
		time.Sleep(time.Second)
		before := w.net.count("await_free")
		start := time.Now()
		release(t, l)
		for _, done := range all {
			wantFreeAfter(t, done, start, 0, time.Millisecond)
		}
		assert.Equal(t, w.net.count("await_free")-before, 0, "requests of the watchers")
		w.wantFree("a")
		assert.False(t, w.marked(c, "a"), "a free lock has the mark")
		// The next pair is on the fast path again.
		synctest.Wait()
		before = w.net.total()
		release(t, mustLock(t, holder.Mutex("a")))
		assert.Equal(t, w.net.total()-before, 2, "requests for a pair")
	})
}

// Waiters come first: each gets the lock by the hand-over, at once. The watcher learns when the
// last of them has released, and costs them nothing.
func TestAWatcherDelaysNoHandOver(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		early := awaiting(t.Context(), w.client().Mutex("a").AwaitFree)
		first := w.waiting(w.client().Mutex("a"), t.Context())
		between := awaiting(t.Context(), w.client().Mutex("a").AwaitFree)
		second := w.waiting(w.client().Mutex("a"), t.Context())
		time.Sleep(time.Second)
		for _, next := range []<-chan outcome{first, second} {
			start := time.Now()
			polls := w.net.count("poll")
			release(t, l)
			o := <-next
			assert.MustTrue(t, o.err == nil && time.Since(start) <= time.Millisecond && w.net.count("poll") == polls,
				"a waiter got the lock after %v, %v", time.Since(start), o.err)
			l = keep(o.Lease)
			time.Sleep(time.Second)
			waits(t, "the early watcher", early)
			waits(t, "the watcher between", between)
		}
		start := time.Now()
		release(t, l)
		wantFreeAfter(t, early, start, 0, time.Millisecond)
		wantFreeAfter(t, between, start, 0, time.Millisecond)
	})
}

// The lock is free for an instant only: the next client gets it before the watcher could ask.
func TestAShortFreedomIsNotMissed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		other := w.client()
		done := awaiting(t.Context(), w.client().Mutex("a").AwaitFree)
		start := time.Now()
		release(t, l)
		next := mustLock(t, other.Mutex("a"))
		wantFreeAfter(t, done, start, 0, time.Millisecond)
		release(t, next)
	})
}

func TestAWatcherIsToldThoughThePushIsLostOrTheHolderDies(t *testing.T) {
	for name, c := range map[string]struct {
		happens     func(w *world, holder *holdfast.Client, l *holdfast.Lease)
		least, most time.Duration
	}{
		"the push is lost": {func(w *world, _ *holdfast.Client, l *holdfast.Lease) {
			w.DropPushes(1)
			release(w.t, l)
		}, ttl - 2*time.Second, ttl},
		"the holder dies": {func(_ *world, holder *holdfast.Client, _ *holdfast.Lease) {
			holder.Abandon()
		}, ttl - 2*time.Second, ttl},
		"an operator evicts the holder": {func(w *world, holder *holdfast.Client, _ *holdfast.Lease) {
			who := holdfast.Eviction{By: "ann", Reason: "test", AtOnce: true}
			assert.NoError(w.t, assert.Err(w.client().Evict(w.t.Context(), "a", who)))
		}, 0, time.Millisecond},
		"the subscription breaks, and the release falls into the gap": {
			func(w *world, _ *holdfast.Client, l *holdfast.Lease) {
				resume := w.BreakSubscriptions()
				release(w.t, l)
				resume()
			}, 0, time.Millisecond,
		},
		"the server forgets everything": {func(w *world, _ *holdfast.Client, _ *holdfast.Lease) {
			w.Flush()
		}, 0, ttl},
		"the lease is made shorter": {func(w *world, holder *holdfast.Client, l *holdfast.Lease) {
			assert.NoError(w.t, l.Shorten(w.t.Context(), time.Second))
			holder.Abandon()
		}, time.Second, time.Second + 50*time.Millisecond},
		"the lock is kept for a while": {func(w *world, _ *holdfast.Client, l *holdfast.Lease) {
			assert.NoError(w.t, l.ReleaseAfter(w.t.Context(), 2*time.Second))
		}, 2 * time.Second, 2*time.Second + 50*time.Millisecond},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			holder := w.client()
			l := mustLock(t, holder.Mutex("a"))
			done := awaiting(t.Context(), w.client().Mutex("a").AwaitFree)
			time.Sleep(time.Second)
			waits(t, "the watcher", done)
			start := time.Now()
			c.happens(w, holder, l)
			wantFreeAfter(t, done, start, c.least, c.most)
		})
	}
}

// The server is away when the call begins, or while it waits. It keeps trying.
func TestAWatcherOutlastsAServerThatIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder := w.client()
		l := mustLock(t, holder.Mutex("a"))
		c := w.client()
		w.FailRequest(only("await_free", 5, errLink))
		done := awaiting(t.Context(), c.Mutex("a").AwaitFree)
		time.Sleep(10 * time.Second)
		waits(t, "the watcher", done)
		w.FailRequest(only("await_free", -1, errLink))
		time.Sleep(2 * ttl)
		waits(t, "the watcher", done)
		start := time.Now()
		release(t, l) // the push arrives although no request does
		wantFreeAfter(t, done, start, 0, 2*time.Second)
		w.FailRequest(nil)

		refusal := &store.ServerError{Code: "NOPERM", Message: "NOPERM no"}
		w.FailRequest(only("await_free", -1, refusal))
		err := c.Mutex("a").AwaitFree(t.Context())
		assert.True(t, errors.As(err, &refusal), "a refusal that will not pass: %v", err)
		w.FailRequest(only("await_free", -1, errLink))
		assert.Is(t, c.Mutex("a", holdfast.MaxWait(0)).AwaitFree(t.Context()), holdfast.ErrUnknownOutcome)
	})
}

func TestTheEndOfAWatchLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder := w.client()
		l := mustLock(t, holder.Mutex("a"))
		c := w.client()

		ctx, cancel := context.WithCancel(t.Context())
		done := awaiting(ctx, c.Mutex("a").AwaitFree)
		cancel()
		assert.Is(t, (<-done).err, context.Canceled)
		assert.Is(t, c.Mutex("a").AwaitFree(ctx), context.Canceled)

		start := time.Now()
		err := c.Mutex("a", holdfast.MaxWait(time.Second)).AwaitFree(t.Context())
		held := wantHeld(t, err, time.Since(start))
		assert.True(t, held.HeldBy != "" && held.Waited == time.Second, "after the limit: %+v", held)
		err = c.Mutex("a", holdfast.MaxWait(0)).AwaitFree(t.Context())
		assert.Is(t, err, holdfast.ErrHeld)

		done = awaiting(t.Context(), c.Mutex("a").AwaitFree)
		assert.NoError(t, c.Close(t.Context()))
		assert.Is(t, (<-done).err, holdfast.ErrClosed)
		assert.Is(t, c.Mutex("a").AwaitFree(t.Context()), holdfast.ErrClosed)

		// The next release finds that nobody listens.
		release(t, l)
		w.wantFree("a")
		assert.False(t, w.marked(holder, "a"), "the mark is left")
	})
}

func TestAWatchThatCannotEndOrWorkIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLock(t, c.Mutex("a", holdfast.Reentrant()))
		under, cancel := context.WithTimeout(l.Context(), time.Minute)
		defer cancel()
		assert.Is(t, c.Mutex("a").AwaitFree(under), holdfast.ErrDeadlock)
		assert.Is(t, c.Mutex("a", holdfast.Reentrant()).AwaitFree(under), holdfast.ErrDeadlock)
		assert.Is(t, c.RWMutex("a").AwaitReadable(l.Context()))
		assert.Is(t, c.Mutex("").AwaitFree(t.Context()), holdfast.ErrInvalid)
		assert.Is(t, c.Mutex("a").AwaitFree(nil), holdfast.ErrInvalid) //nolint:staticcheck // that is the test
		assert.Is(t, c.Semaphore("s", 3).AwaitFree(t.Context(), 4), holdfast.ErrInvalid)
		assert.Is(t, c.Semaphore("s", 3).AwaitFree(t.Context(), 0), holdfast.ErrInvalid)
		release(t, l)
	})
}

// A client that may not subscribe asks about once a second.
func TestWithoutASubscriptionAWatcherPolls(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		c, _ := w.pushlessClient(&store.ServerError{Code: "NOPERM", Message: "NOPERM no SUBSCRIBE"}, holdfast.Config{})
		done := awaiting(t.Context(), c.Mutex("a").AwaitFree)
		time.Sleep(10 * time.Second)
		n := w.net.count("await_free")
		assert.True(t, n >= 6 && n <= 21, "%d requests in 10 s", n)
		assert.False(t, w.marked(c, "a"), "nobody listens, and the record has the mark")
		start := time.Now()
		release(t, l)
		wantFreeAfter(t, done, start, 0, 1600*time.Millisecond)
	})
}

// A reader waits for the end of a writer, a writer for the end of all readers. A reader that
// would have to wait behind a writer waits for that one, too.
func TestReadersAndWritersWaitForWhatIsInTheirWay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, other := w.client(), w.client()
		l := must(t, c.RWMutex("a").Lock)
		reader := awaiting(t.Context(), other.RWMutex("a").AwaitReadable)
		writer := awaiting(t.Context(), other.RWMutex("a").AwaitFree)
		time.Sleep(time.Second)
		start := time.Now()
		assert.Must(t, l.Downgrade(t.Context()))
		wantFreeAfter(t, reader, start, 0, time.Millisecond)
		waits(t, "the writer", writer)
		assert.Is(t, other.RWMutex("a").AwaitReadable(t.Context()))

		next := w.waiting(w.client().Mutex("a"), t.Context()) // a writer in the queue
		reader = awaiting(t.Context(), other.RWMutex("a").AwaitReadable)
		waits(t, "the reader", reader)
		release(t, l)
		o := <-next
		waits(t, "the reader", reader)
		waits(t, "the writer", writer)
		start = time.Now()
		release(t, o.Lease)
		wantFreeAfter(t, reader, start, 0, time.Millisecond)
		wantFreeAfter(t, writer, start, 0, time.Millisecond)
	})
}

func TestPermitsAreAwaited(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, other := w.client(), w.client()
		acquire := func(n int) *holdfast.Lease {
			l, err := c.Semaphore("s", 4).Acquire(t.Context(), n)
			assert.Must(t, err)
			return keep(l)
		}
		await := func(n int) <-chan outcome {
			return awaiting(t.Context(), func(ctx context.Context) error {
				return other.Semaphore("s", 4).AwaitFree(ctx, n)
			})
		}
		three, one := acquire(3), acquire(1)
		two, all := await(2), await(4)
		start := time.Now()
		release(t, one)
		wantFreeAfter(t, await(1), start, 0, time.Millisecond)
		waits(t, "the watcher for two permits", two)
		assert.Must(t, three.KeepPermits(t.Context(), 2))
		wantFreeAfter(t, two, start, 0, time.Millisecond)
		waits(t, "the watcher for all permits", all)

		var limit *holdfast.MismatchError
		err := other.Semaphore("s", 5).AwaitFree(t.Context(), 1)
		assert.True(t, errors.As(err, &limit) && limit.Got == 4, "another limit: %v", err)
		release(t, three)
		wantFreeAfter(t, all, start, 0, time.Millisecond)
	})
}

// Databases of one server share their channels. The news of a namesake in another database is
// that of another record.
func TestAWatcherIgnoresTheNewsOfAnotherDatabase(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("x"))
		done := awaiting(t.Context(), b.Mutex("x").AwaitFree)
		for _, news := range []string{"free - 0 0 1", "free - 0 0", "free s 1 0 1", "sooner"} {
			assert.MustEqual(t, w.Publish("holdfast:watch=x", news), 1, "heard %q", news)
			waits(t, "the watcher", done)
		}
		start := time.Now()
		assert.NoError(t, l.Release(t.Context()))
		wantFreeAfter(t, done, start, 0, 0)
	})
}
