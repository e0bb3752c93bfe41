package quorum_test

import (
	"context"
	"errors"
	"fmt"
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

// A holder is one that a majority of all servers has. Most of those that answer are not enough.
func TestAHolderOnMostOfTheServersThatAnswerIsNone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for i, p := range w.peers[:2] {
			answer, err := p.Store.Run(t.Context(), script.Acquire, []string{"holdfast:{x}"}, []string{
				fmt.Sprintf("c/1.%d", i+1), "30000", "630000", "x", "0", "holdfast:push:",
			})
			assert.MustTrue(t, err == nil, "%q, %v", answer, err)
		}
		w.kill(3, 4)
		info, err := w.client().Inspect(t.Context(), "x")
		assert.Must(t, err)
		assert.Equal(t, len(info.Holders), 0, "holders on two of five, of which three answer")
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
