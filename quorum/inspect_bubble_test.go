package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Of each server, all pages of a large record are read.
func TestALockWithVeryManyReadersIsShownWhole(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for _, p := range w.peers {
			for i := range 600 {
				answer, err := p.Store.Run(t.Context(), script.Acquire, []string{"holdfast:{x}"}, []string{
					fmt.Sprintf("c%d/1", i), "30000", "630000", "s", "0", "holdfast:push:",
				})
				assert.MustTrue(t, err == nil, "%q, %v", answer, err)
			}
		}
		info, err := w.client().Inspect(t.Context(), "x")
		assert.Must(t, err)
		assert.Equal(t, len(info.Holders), 600, "readers")
	})
}

// A holder is one that a majority of all servers has. A lock is free only if the servers that do not answer cannot give
// anybody a majority, whatever they have.
func TestALockIsFreeOnlyIfThatIsProven(t *testing.T) {
	for _, c := range []struct {
		have, dead []int
		want       string
	}{
		{nil, []int{3, 4}, "free"},
		{[]int{0}, nil, "free"},
		{[]int{0, 1}, nil, "free"},
		{[]int{0}, []int{4}, "free"},
		{[]int{0}, []int{3, 4}, "unproven"},
		{[]int{0, 3, 4}, []int{3, 4}, "unproven"}, // it is held
		{[]int{0, 1}, []int{4}, "unproven"},
		{[]int{0, 1}, []int{3, 4}, "unproven"},
		{[]int{0, 1, 2}, []int{3, 4}, "held"},
	} {
		calls := map[string]func(c *holdfast.Client, ctx context.Context) (int, error){
			"Inspect": func(c *holdfast.Client, ctx context.Context) (int, error) {
				info, err := c.Inspect(ctx, "x")
				return len(info.Holders), err
			},
			"Holders": func(c *holdfast.Client, ctx context.Context) (int, error) {
				info, err := c.Holders(ctx, "x")
				return len(info.Holders), err
			},
			"List": func(c *holdfast.Client, ctx context.Context) (n int, err error) {
				for info, bad := range c.List(ctx, "") {
					n, err = n+len(info.Holders), errors.Join(err, bad)
				}
				return n, err
			},
			"Evict": func(c *holdfast.Client, ctx context.Context) (int, error) {
				return c.Evict(ctx, "x", holdfast.Eviction{By: "op", Reason: "test"})
			},
			"Evict AtOnce": func(c *holdfast.Client, ctx context.Context) (int, error) {
				return c.Evict(ctx, "x", holdfast.Eviction{By: "op", Reason: "test", AtOnce: true})
			},
		}
		for name, call := range calls {
			bubble(t, func(t *testing.T, w *world) {
				for _, i := range c.have {
					answer, err := w.peers[i].Store.Run(t.Context(), script.Acquire, []string{"holdfast:{x}"}, []string{
						fmt.Sprintf("c/1.%d", i+1), "30000", "630000", "x", "0", "holdfast:push:",
					})
					assert.MustTrue(t, err == nil, "%q, %v", answer, err)
				}
				client := w.client()
				w.kill(c.dead...)
				n, err := call(client, t.Context())
				got := "free"
				switch {
				case err != nil && strings.Contains(err.Error(), "only the servers that did not answer can tell"):
					got = "unproven"
					assert.Contains(t, holdfast.Hint(err), "ask again when the servers")
				case err != nil:
					got = err.Error()
				case n > 0:
					got = "held"
				}
				assert.Equal(t, got, c.want, "%s, a holder on %v, without answers from %v", name, c.have, c.dead)
				if name == "Evict AtOnce" { // what is left has no majority
					n, err := call(client, t.Context())
					assert.True(t, n == 0 && err == nil, "evicted again: %d, %v", n, err)
				}
			})
		}
	}
}

// Nor is a token called stale while the servers that do not answer may make its lease live.
func TestATokenIsStaleOnlyIfThatIsProven(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.kill(3, 4)
		l, err := c.Mutex("x", holdfast.Checked()).Lock(t.Context())
		assert.Must(t, err)
		assert.NoError(t, c.Check(t.Context(), "x", l.Token()))
		w.revive(3, 4)
		w.kill(0)
		err = c.Check(t.Context(), "x", l.Token())
		assert.True(t, err != nil && !errors.Is(err, holdfast.ErrNotHeld), "got %v", err)
		assert.Contains(t, err.Error(), "only the servers that did not answer can tell")
		w.revive(0)
		assert.NoError(t, c.Check(t.Context(), "x", l.Token()))
		assert.Is(t, c.Check(t.Context(), "x", l.Token()+1<<10), holdfast.ErrNotHeld)
		w.release(l)
	})
}

// A server that is known to be silent is not waited for: each of many inspections would take as long as
// a request may.
func TestInspectionsDoNotWaitForASilentServer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.lock(c, "x")
		for _, p := range w.peers[:2] {
			p.slow(time.Minute, 0)
		}
		look := func() {
			t.Helper()
			info, err := c.Inspect(t.Context(), "x")
			assert.MustTrue(t, err == nil && len(info.Holders) == 1, "%d holders, %v", len(info.Holders), err)
		}
		look() // it finds out
		start := time.Now()
		look()
		n, err := c.Evict(t.Context(), "x", holdfast.Eviction{By: "op", Reason: "test"})
		assert.True(t, n == 1 && err == nil, "evicted %d, %v", n, err)
		assert.Equal(t, time.Since(start), 0, "an inspection and an eviction took")
	})
}

// mumbling is a server whose records nobody understands.
type mumbling struct{ store.Store }

func (mum mumbling) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	if action == script.Inspect {
		return "mumble", nil
	}
	return mum.Store.Run(ctx, action, keys, args)
}

// A server that answers nonsense counts as one that is missing. Guarantee: I12.
func TestAServerThatAnswersNonsenseHasNoVeto(t *testing.T) {
	odd := mumbling{memstore.New()}
	_, c := open(t, []store.Store{memstore.New(), memstore.New(), odd}, quorum.Config{})
	l, err := c.Mutex("x").Lock(t.Context())
	assert.Must(t, err)
	info, err := c.Inspect(t.Context(), "x")
	assert.Must(t, err)
	assert.Equal(t, len(info.Holders), 1, "holders")
	assert.NoError(t, l.Release(t.Context()))

	_, c = open(t, []store.Store{memstore.New(), odd, mumbling{memstore.New()}}, quorum.Config{})
	_, err = c.Inspect(t.Context(), "x")
	var few *quorum.NoMajorityError
	assert.True(t, errors.As(err, &few) && few.Have == 1, "most servers answer nonsense: %v", err)
}
