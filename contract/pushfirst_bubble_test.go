// A release that may have a waiter asks the store to send the push before the answer, and no other request does. So a
// lock without waiters costs what it costs.

package contract_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/audit"
	"github.com/holdfast-go/holdfast/internal/mark"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// hinted notes which requests have the hint.
type hinted struct {
	*memstore.Store
	mu    sync.Mutex // guards names
	names []string
}

func (h *hinted) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	if mark.IsPushFirst(ctx) || mark.IsAwaited(ctx) {
		h.mu.Lock()
		h.names = append(h.names, action.Name)
		h.mu.Unlock()
	}
	return h.Store.Run(ctx, action, keys, args)
}

func (h *hinted) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := h.names
	h.names = nil
	return names
}

// watching sees all requests, so the client wraps its store.
type watching struct{}

func (watching) Observe(observe.Event)          {}
func (watching) ObserveRequest(observe.Request) {}

// overHinted makes two clients of one store.
func overHinted(t *testing.T, s store.Store) (a, b *holdfast.Client) {
	t.Helper()
	made := func() *holdfast.Client {
		c, err := holdfast.New(s, holdfast.Config{Observer: watching{}})
		assert.Must(t, err)
		t.Cleanup(func() { assert.NoError(t, c.Close(context.Background())) })
		return c
	}
	return made(), made()
}

func wantHints(t *testing.T, when string, h *hinted, want ...string) {
	t.Helper()
	got := h.take()
	assert.True(t, slices.Equal(got, want), "%s: %q have the hint, want %q", when, got, want)
}

func TestOnlyAReleaseThatMayHaveAWaiterPushesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hinted{Store: memstore.New()}
		a, b := overHinted(t, h)
		release(t, mustLock(t, a.Mutex("a")))
		wantHints(t, "nobody waits", h)

		held := mustLock(t, a.Mutex("a"))
		next := lockSoon(t, b.Mutex("a"))
		release(t, held)
		wantHints(t, "the holder does not know of its waiter", h)
		release(t, <-next)
		wantHints(t, "the holder has waited", h, "release")

		held = mustLock(t, a.Mutex("a"))
		next = lockSoon(t, b.Mutex("a"))
		time.Sleep(ttl / 2) // a renewal says how many wait
		synctest.Wait()
		wantHints(t, "a renewal", h)
		release(t, held)
		wantHints(t, "the holder knows of a waiter", h, "release")
		assert.Must(t, (<-next).ReleaseAfter(t.Context(), time.Second))
		wantHints(t, "the holder has waited, and keeps the lock for a while", h, "release_after")
		time.Sleep(2 * time.Second)

		release(t, mustLock(t, b.Mutex("a")))
		wantHints(t, "nobody waits any more", h)
	})
}

// lockSoon begins to acquire a lock, and returns when the call waits.
func lockSoon(t *testing.T, mu *holdfast.Mutex) <-chan *holdfast.Lease {
	t.Helper()
	got := make(chan *holdfast.Lease, 1)
	go func() {
		l, err := mu.Lock(t.Context())
		assert.NoError(t, err)
		got <- l
	}()
	synctest.Wait()
	return got
}

// Whatever is around a store passes the hint on. A quorum does not: a majority of its servers grants to a waiter.
func TestEveryWrapperPassesTheHintOn(t *testing.T) {
	h := &hinted{Store: memstore.New()}
	for what, s := range map[string]store.Store{
		"audit": audit.Store(h, "channel"),
		"lazy":  quorum.Lazy(func() (store.Store, error) { return h, nil }),
	} {
		_, err := s.Run(mark.PushFirst(t.Context()), script.Inspect, []string{"holdfast:{a}"}, nil)
		assert.Must(t, err)
		wantHints(t, what, h, script.Inspect.Name)
	}
}

// A renewal for which a caller waits says so, and no other: a store may read the answer to those a little late.
func TestARenewalSaysWhetherACallerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hinted{Store: memstore.New()}
		a, b := overHinted(t, h)
		l := must(t, a.Mutex("a").Lock)
		wantHints(t, "after an acquisition", h)
		time.Sleep(3 * ttl)
		synctest.Wait()
		wantHints(t, "after renewals in the background", h)
		assert.Must(t, l.Extend(t.Context(), ttl))
		wantHints(t, "after Extend", h, "renew")
		info, ok := holdfast.LeaseOf(l.Context())
		assert.MustTrue(t, ok, "no lease")
		assert.Must(t, assert.Err(b.ExtendLease(t.Context(), info, ttl)))
		wantHints(t, "after ExtendLease", h, "renew")
		release(t, l)
	})
}
