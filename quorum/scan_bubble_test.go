package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
)

// scanned returns the keys of the locks that s finds, each once.
func scanned(ctx context.Context, s *quorum.Store) (keys []string, err error) {
	err = s.Scan(ctx, "holdfast:{", func(page []string) error {
		keys = append(keys, page...)
		return nil
	})
	slices.Sort(keys)
	return slices.Compact(keys), err
}

var threeKeys = []string{"holdfast:{x}", "holdfast:{y}", "holdfast:{z}"}

// A scan finds the locks of every node, as long as a majority can be read.
func TestAScanFindsWhatAnyMajorityKnows(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, s := w.client(), w.store()
		for _, name := range []string{"x", "y", "z"} {
			defer w.release(w.lock(c, name))
		}
		for _, dead := range []int{0, 4} {
			if keys, err := scanned(t.Context(), s); err != nil || !slices.Equal(keys, threeKeys) {
				t.Errorf("before node %d died: %q, %v", dead, keys, err)
			}
			w.peers[dead].kill()
		}
		if keys, err := scanned(t.Context(), s); err != nil || !slices.Equal(keys, threeKeys) {
			t.Errorf("two of five are dead: %q, %v", keys, err)
		}
		w.peers[2].kill()
		_, err := scanned(t.Context(), s)
		few := new(quorum.NoMajorityError)
		assert.True(t, errors.As(err, &few), "three of five are dead: %v", err)
		w.revive(0, 2, 4)
	})
}

// A node that is silent in the middle of its keys does not hold the scan of the others up.
// The time that visit takes is not the node's.
func TestAScanPassesASilentNode(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, s := w.client(), w.store()
		defer w.release(w.lock(c, "x"))
		w.peers[0].mu.Lock()
		w.peers[0].stuck = true
		w.peers[0].mu.Unlock()

		start, pages := time.Now(), 0
		err := s.Scan(t.Context(), "holdfast:{", func([]string) error {
			pages++
			return nil
		})
		if took := time.Since(start); err != nil || pages < 3 || took == 0 || took > 5*time.Second {
			t.Errorf("%d pages after %v, %v", pages, took, err)
		}

		w.peers[0].mu.Lock()
		w.peers[0].stuck = false
		w.peers[0].mu.Unlock()
		pages = 0
		err = s.Scan(t.Context(), "holdfast:{", func([]string) error {
			pages++
			<-time.After(time.Minute)
			return nil
		})
		assert.True(t, err == nil && pages >= 3,
			"with a slow visitor: %d pages, %v; want 3 or more, and no error", pages, err)
	})
}

// Servers that fall silent do not end the caller's context, and the error does not say that they did.
func TestAListingOfSilentServersSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		defer w.release(w.lock(c, "x"))
		for _, p := range w.peers[:3] {
			p.mu.Lock()
			p.stuck = true
			p.mu.Unlock()
		}
		var err error
		for _, one := range c.List(t.Context(), "y*") {
			err = errors.Join(err, one)
		}
		assert.True(t, err != nil && !errors.Is(err, context.Canceled), "%v", err)
		assert.True(t, strings.Contains(fmt.Sprint(err), "server-0: no answer in time"), "%v", err)
	})
}

// A scan ends with its caller, with what visit says, and with its store.
func TestAScanEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, s := w.client(), w.store()
		defer w.release(w.lock(c, "x"))

		enough, pages := errors.New("enough"), 0
		err := s.Scan(t.Context(), "holdfast:{", func([]string) error {
			pages++
			return enough
		})
		assert.True(t, errors.Is(err, enough) && pages == 1,
			"visit has seen enough: %d pages, %v; want its error after one page", pages, err)

		ctx, cancel := context.WithCancel(t.Context())
		err = s.Scan(ctx, "holdfast:{", func([]string) error {
			cancel()
			return nil
		})
		assert.Is(t, err, context.Canceled)
		cancel()

		w.peers[0].stuck = true
		other, start := w.store(), time.Now()
		time.AfterFunc(requestTime/2, other.Close)
		assert.Is(t, assert.Err(scanned(t.Context(), other)), quorum.ErrClosed)
		assert.Equal(t, time.Since(start), requestTime/2, "Close ended it after")
		assert.Is(t, assert.Err(scanned(t.Context(), other)), quorum.ErrClosed)
	})
}

// If the store of one node cannot scan, the scan is refused.
func TestANodeThatCannotScanIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.storeOver([]store.Store{w.peers[0], noScanner{w.peers[1]}, w.peers[2]}, quorum.Config{})
		_, err := scanned(t.Context(), s)
		assert.True(t, errors.Is(err, quorum.ErrUnsupported) && strings.Contains(err.Error(), "node 2"), "%v", err)
	})
}

type noScanner struct{ store.Store }
