package quorum_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
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

// The records of tokens that are not live are read at the same time, and each once. Guarantee: G39.
func TestStaleTokensDelayACheckByFewReadings(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, s := w.client(), w.store()
		l, err := c.Mutex("x", holdfast.Checked()).Lock(t.Context())
		assert.Must(t, err)
		synctest.Wait()
		token := strconv.FormatUint(l.Token()>>10, 10)
		keys, tokens := []string{"holdfast:{x}"}, []string{token}
		for i := range 31 {
			keys, tokens = append(keys, fmt.Sprintf("holdfast:{y%d}", i)), append(tokens, token)
		}
		const way = 50 * time.Millisecond
		for _, p := range w.peers {
			p.slow(way, way)
		}
		start := time.Now()
		answer, err := s.Run(t.Context(), script.Check, keys, tokens)
		assert.NoError(t, err)
		assert.Equal(t, answer, "live"+strings.Repeat("\nfree", 31), "the answer")
		took := time.Since(start)
		assert.True(t, took <= 3*2*way, "31 stale tokens take %v, and one request takes %v", took, 2*way)

		for i := range keys {
			keys[i], tokens[i] = keys[0], "5" // all of one lock
		}
		before := w.sentEverywhere("inspect")
		_, err = s.Run(t.Context(), script.Check, keys, tokens)
		assert.NoError(t, err)
		assert.Equal(t, w.sentEverywhere("inspect")-before, len(w.peers), "the requests that read one record")
		for _, p := range w.peers {
			p.slow(0, 0)
		}
		w.release(l)
	})
}
