package quorum_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// Server 2 keeps a token of its own for the lease, because it did not get that of the majority. Guarantee: G39.
func TestACheckNeedsAMajorityAndKnowsServersWithAnotherToken(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, service := w.client(), w.client()
		w.peers[2].FailRequest(failing("raise_fence", errRefused))
		l, err := a.Mutex("x", holdfast.Checked()).Lock(t.Context())
		assert.Must(t, err)
		synctest.Wait() // servers that granted late have the token
		fence := func(server int) string {
			word, _, _ := strings.Cut(w.peers[server].Dump("holdfast:{x}")["lock"], " ")
			return word
		}
		assert.True(t, fence(0) == fence(1) && fence(0) != fence(2), "%s, %s, %s", fence(0), fence(1), fence(2))
		check := func(what string, want error) {
			t.Helper()
			err := service.Check(t.Context(), "x", l.Token())
			assert.True(t, errors.Is(err, want), "%s: %v", what, err)
		}
		check("by all", nil)
		for _, away := range [][]int{{0, 1}, {1, 3}, {2, 4}} { // without server 2, all of the rest have the token
			w.kill(away...)
			check("by three of five", nil)
			w.revive(away...)
		}
		w.kill(0, 1, 3)
		err = service.Check(t.Context(), "x", l.Token())
		assert.True(t, err != nil && !errors.Is(err, holdfast.ErrNotHeld), "by two of five: %v", err)
		w.revive(0, 1, 3)
		assert.Is(t, service.Check(t.Context(), "x", l.Token()+1<<10), holdfast.ErrNotHeld)

		for _, p := range w.peers[:3] {
			p.Flush()
		}
		check("by two, and three know nothing", holdfast.ErrNotHeld)
		_ = l.Release(t.Context())
	})
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l, err := a.Mutex("x", holdfast.Checked()).Lock(t.Context())
		assert.Must(t, err)
		assert.NoError(t, b.Check(t.Context(), "x", l.Token()))
		assert.NoError(t, l.Release(t.Context()))
		assert.Is(t, b.Check(t.Context(), "x", l.Token()), holdfast.ErrNotHeld)
		next := w.lock(b, "x")
		assert.Is(t, a.Check(t.Context(), "x", next.Token()), holdfast.ErrInvalid)
		var out *holdfast.NotHeldError
		err = b.Check(t.Context(), "x", l.Token())
		assert.True(t, errors.As(err, &out) && out.HeldBy == next.HolderID() && out.Now == next.Token(),
			"%v", err)
		assert.NoError(t, next.Release(t.Context()))
	})
}
