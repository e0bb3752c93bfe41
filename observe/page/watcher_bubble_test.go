package page

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// halfScan is a store that lists a key after each pause, and can lose a node.
type halfScan struct {
	*memstore.Store
	pause time.Duration
	lost  string // the name on the node that is down; empty: none is
	quiet bool   // nothing comes at all
}

func (h *halfScan) Scan(ctx context.Context, prefix string, visit func(keys []string) error) error {
	if h.quiet {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, name := range []string{"a", "b", "c"} {
		if name == h.lost {
			continue
		}
		time.Sleep(h.pause)
		if err := visit([]string{prefix + name + "}"}); err != nil {
			return err
		}
	}
	if h.lost != "" {
		return store.ErrNotSent
	}
	return nil
}

func TestAReadThatFailsShowsWhatItHasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &halfScan{Store: memstore.New(), pause: maxSilence * 9 / 10}
		c, err := holdfast.New(h, holdfast.Config{})
		assert.Must(t, err)
		defer c.Close(context.Background())
		w := newWatcher(t.Context(), c, Config{Logger: slog.New(slog.DiscardHandler)})
		read := func() (held []string, err error) {
			began := time.Now()
			all, err := w.read()
			w.take(all, err, nil, began, time.Since(began))
			for id, e := range w.locks {
				if e.lock.Held {
					held = append(held, id)
				}
			}
			slices.Sort(held)
			return held, err
		}
		var leases []*holdfast.Lease
		for _, name := range []string{"a", "b", "c"} {
			l, err := c.Mutex(name).TryLock(t.Context())
			assert.Must(t, err)
			leases = append(leases, l)
		}
		held, err := read()
		assert.Must(t, err) // although it took longer than a silence may
		assert.EqualSlices(t, held, []string{"lock:a", "lock:b", "lock:c"}, "held")

		for _, l := range leases[1:] {
			assert.Must(t, l.Release(t.Context()))
		}
		h.lost = "b"
		held, err = read()
		assert.Is(t, err, holdfast.ErrUnreachable)
		assert.EqualSlices(t, held, []string{"lock:a", "lock:b"}, "held, and b is of the read before")
		assert.True(t, strings.Contains(w.reads.err, "cannot be reached"), "the error: %q", w.reads.err)

		h.quiet = true
		held, err = read()
		assert.Is(t, err, context.DeadlineExceeded)
		assert.EqualSlices(t, held, []string{"lock:a", "lock:b"}, "held, in the read before")
	})
}
