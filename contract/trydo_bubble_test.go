// A try that finds the lock held: the work is skipped, or the error says which program has the lock.

package contract_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestTryDoRunsIfTheLockIsFreeAndSkipsIfItIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		failed := errors.New("the work failed")
		for kind, try := range map[string]func(c *holdfast.Client, f func(context.Context) error) (bool, error){
			"mutex": func(c *holdfast.Client, f func(context.Context) error) (bool, error) {
				return c.Mutex("a").TryDo(t.Context(), f)
			},
			"writer": func(c *holdfast.Client, f func(context.Context) error) (bool, error) {
				return c.RWMutex("a").TryDo(t.Context(), f)
			},
			"semaphore": func(c *holdfast.Client, f func(context.Context) error) (bool, error) {
				return c.Semaphore("s", 2).TryDo(t.Context(), 2, f)
			},
			"several": func(c *holdfast.Client, f func(context.Context) error) (bool, error) {
				return c.MultiMutex([]string{"a", "b"}).TryDo(t.Context(), f)
			},
		} {
			ran, err := try(a, func(context.Context) error {
				for _, c := range []*holdfast.Client{a, b} { // another call of this process, and another process
					again, err := try(c, func(context.Context) error {
						t.Errorf("%s: it ran beside the holder", kind)
						return nil
					})
					assert.True(t, !again && err == nil, "%s: a held lock: ran %v, %v", kind, again, err)
				}
				return failed
			})
			assert.True(t, ran && errors.Is(err, failed), "%s: a free lock: ran %v, %v", kind, ran, err)
		}
		w.wantFree("a")

		// Readers run beside each other, and not beside a writer.
		readers := 0
		read := func(c *holdfast.Client, f func(context.Context) error) bool {
			ran, err := c.RWMutex("a").TryRDo(t.Context(), func(ctx context.Context) error { readers++; return f(ctx) })
			assert.NoError(t, err)
			return ran
		}
		done := func(context.Context) error { return nil }
		ran := read(a, func(ctx context.Context) error {
			assert.True(t, read(b, done), "a reader did not run beside another")
			return ctx.Err()
		})
		writer := mustLock(t, a.RWMutex("a").Mutex)
		assert.True(t, ran && !read(a, done) && !read(b, done) && readers == 2, "%d readers ran", readers)
		release(t, writer)

		// Without an answer, nothing is known of the lock: that is no skip.
		w.FailRequest(func(string, []string) error { return errLink })
		ran, err := b.Mutex("a").TryDo(t.Context(), done)
		assert.True(t, !ran && err != nil, "no server: ran %v, %v", ran, err)
		ran, err = b.Mutex("a").TryDo(t.Context(), nil)
		assert.True(t, !ran && errors.Is(err, holdfast.ErrInvalid), "no function: ran %v, %v", ran, err)
	})
}

// While the server does not answer, no try calls the lock held because another call of its process asks for it
// too, and all tries together take no longer than one.
func TestATryIsNoSkipWhileAnotherCallAsks(t *testing.T) {
	work := func(context.Context) error { return nil }
	for kind, try := range map[string]func(ctx context.Context, c *holdfast.Client) (bool, error){
		"mutex": func(ctx context.Context, c *holdfast.Client) (bool, error) {
			return c.Mutex("a").TryDo(ctx, work)
		},
		"reader": func(ctx context.Context, c *holdfast.Client) (bool, error) {
			return c.RWMutex("a").TryRDo(ctx, work)
		},
		"several": func(ctx context.Context, c *holdfast.Client) (bool, error) {
			return c.MultiMutex([]string{"a", "b"}).TryDo(ctx, work)
		},
	} {
		for fault, begin := range outages {
			runBubble(t, kind+", "+fault, func(t *testing.T, w *world) {
				c := w.client(holdfast.Config{RequestTimeout: time.Second})
				release(t, mustLock(t, c.Mutex("warm")))
				synctest.Wait()
				brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				w.net.slow(func(string) (time.Duration, time.Duration) { return time.Millisecond, 0 })
				back, start := begin(w), time.Now()
				var all sync.WaitGroup
				all.Go(func() { // a call that waits until its deadline
					l, err := c.Mutex("a").Lock(brief)
					assert.True(t, l == nil && !errors.Is(err, holdfast.ErrHeld), "a wait: %v", err)
				})
				for i := range 5 {
					ctx := t.Context()
					if i == 3 {
						ctx = brief
					}
					all.Go(func() {
						ran, err := try(ctx, c)
						failed := err != nil && !errors.Is(err, holdfast.ErrHeld)
						assert.True(t, !ran && failed, "%d: ran %v, %v", i, ran, err)
					})
					synctest.Wait()
				}
				all.Wait()
				assert.AtMost(t, time.Since(start), 1100*time.Millisecond, "all tries took")
				back()
			})
		}
	}
}

// A call that waits for a server that is away is no holder. When it waits for a holder, tries are told.
func TestATryBesideACallThatWaitsIsToldWhy(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLock(t, w.client().Mutex("b"))
		w.FailRequest(func(string, []string) error { return errLink })
		waiter := w.waiting(c.Mutex("a"), t.Context())
		_, err := c.Mutex("a").TryLock(t.Context())
		assert.True(t, err != nil && !errors.Is(err, holdfast.ErrHeld), "the server is away: %v", err)
		w.FailRequest(nil)
		release(t, (<-waiter).Lease)

		waiter = w.waiting(c.Mutex("b"), t.Context())
		_, err = c.Mutex("b").TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrHeld)
		release(t, l)
		release(t, (<-waiter).Lease)

		// The first try is given up, and the second asks.
		resume := w.Stall()
		ctx, cancel := context.WithCancel(t.Context())
		first, second := acquiring(ctx, c.Mutex("a").TryLock), taking(t, c.Mutex("a").TryLock)
		cancel()
		assert.Is(t, (<-first).err, context.Canceled)
		resume()
		got := <-second
		assert.MustTrue(t, got.err == nil, "%v", got.err)
		release(t, got.Lease)
	})
}

// The holder's program is asked for once, however often a client tries.
func TestAHeldErrorNamesTheProgramOfTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(holdfast.Config{App: "report"}), w.client()
		l := mustLock(t, a.Mutex("a"))
		synctest.Wait() // the client has registered
		var held *holdfast.HeldError
		asked := w.net.count("read_client")
		for range 10 {
			_, err := b.Mutex("a").TryLock(t.Context())
			assert.MustTrue(t, errors.As(err, &held) && held.Client != nil, "%v", err)
			assert.Equal(t, held.Client.App, "report", "the program of %v", err)
			assert.Contains(t, err.Error(), held.HeldBy+" (report@")
		}
		assert.Equal(t, w.net.count("read_client"), asked+1, "requests for the program")

		_, err := b.Mutex("a", holdfast.MaxWait(time.Second)).Lock(t.Context())
		assert.MustTrue(t, errors.As(err, &held) && held.Client != nil, "%v", err)
		_, err = b.MultiMutex([]string{"b", "a"}).TryLock(t.Context())
		assert.MustTrue(t, errors.As(err, &held) && held.Client != nil, "%v", err)
		release(t, l)

		// Holders that take turns are remembered, too.
		other := w.client(holdfast.Config{App: "import"})
		for i := range 6 {
			holder := []*holdfast.Client{a, other}[i%2]
			l = mustLock(t, holder.Mutex("a"))
			synctest.Wait()
			_, err = b.Mutex("a").TryLock(t.Context())
			assert.MustTrue(t, errors.As(err, &held) && held.Client != nil, "%v", err)
			assert.Equal(t, held.Client.App, []string{"report", "import"}[i%2], "the program of %v", err)
			release(t, l)
		}
		assert.Equal(t, w.net.count("read_client"), asked+2, "requests for two programs")

		// An acquisition that succeeds asks for no program.
		asked = w.net.count("read_client")
		l = mustLock(t, b.Mutex("a"))
		assert.Equal(t, w.net.count("read_client"), asked, "requests for a program")
		release(t, l)
	})
}
