package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/store"
)

// listed returns what List yields, as text.
func listed(t *testing.T, c *holdfast.Client, pattern string) (lines []string) {
	t.Helper()
	for s, err := range c.List(t.Context(), pattern) {
		assert.Must(t, err)
		lines = append(lines,
			fmt.Sprintf("%s held=%t waiters=%d job=%t", s.Name, s.Held(), len(s.Waiters), s.Job != nil))
	}
	slices.Sort(lines)
	return lines
}

func TestListYieldsEveryLockAndJob(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(holdfast.Config{App: "a"}), w.client(holdfast.Config{App: "b"})
		got := listed(t, a, "")
		assert.True(t, len(got) == 0, "an empty server: %q", got)
		held := mustLock(t, a.Mutex("order/7"))
		defer release(t, held)
		release(t, mustLock(t, a.Mutex("order/8")))
		other := mustLock(t, a.Mutex("a {name}: ü"))
		defer release(t, other)
		ctx, cancel := context.WithCancel(t.Context())
		waiter := w.waiting(b.Mutex("order/7"), ctx)
		defer func() { cancel(); <-waiter }()
		job := a.Periodic("nightly", time.Hour)
		assert.Must(t, assert.Err(job.Do(t.Context(), func(context.Context) error { return nil })))
		want := []string{
			"a {name}: ü held=true waiters=0 job=false", "nightly held=false waiters=0 job=true",
			"order/7 held=true waiters=1 job=false", "order/8 held=false waiters=0 job=false",
		}
		got = listed(t, b, "")
		assert.True(t, slices.Equal(got, want), "%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		for s, err := range b.List(t.Context(), "order/7") {
			same, _ := b.Inspect(t.Context(), "order/7")
			h, known := s.Holders[0], same.Holders[0]
			assert.True(t, err == nil && h.Client.String() == known.Client.String() && s.Fence == held.Token(),
				"%+v, %v", s, err)
		}
	})
}

func TestListMatchesNames(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(holdfast.Config{})
		for _, name := range []string{"a", "ab", "a/b", "a*"} {
			release(t, mustLock(t, c.Mutex(name)))
		}
		for pattern, want := range map[string]string{
			"": "a,a*,a/b,ab", "a": "a", "a*": "a,a*,a/b,ab", "a?": "a*,ab", `a\*`: "a*", "a[b-c]": "ab",
			"*b": "a/b,ab", "[^x]": "a",
		} {
			var names []string
			for s, err := range c.List(t.Context(), pattern) {
				assert.Must(t, err)
				names = append(names, s.Name)
			}
			slices.Sort(names)
			assert.Equal(t, strings.Join(names, ","), want, "%q lists", pattern)
		}
		for _, pattern := range []string{"[", "[b-a]", "a[b"} {
			for _, err := range c.List(t.Context(), pattern) {
				assert.True(t, errors.Is(err, holdfast.ErrInvalid), "%q: %v", pattern, err)
			}
		}
	})
}

// A key that is named like a record and holds something else does not end the listing.
func TestListLeavesOutWhatIsNoLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(holdfast.Config{})
		w.Store.PlantForeign("holdfast:{a}")
		release(t, mustLock(t, c.Mutex("b")))
		w.Store.PlantForeign("holdfast:{c}:periodic")
		var names []string
		for s, err := range c.List(t.Context(), "") {
			assert.Must(t, err)
			names = append(names, s.Name)
		}
		assert.EqualSlices(t, names, []string{"b"}, "the list")
		w.Store.PlantNewerFormat("holdfast:{d}") // a lock, which this version cannot read
		var last error
		for _, err := range c.List(t.Context(), "") {
			last = err
		}
		assert.True(t, last != nil, "a record of a later format is no error")
	})
}

// A caller that has seen enough leaves nothing behind: the bubble fails if a goroutine is
// left over.
func TestListEndsWithItsCaller(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(holdfast.Config{})
		for i := range 1000 {
			release(t, mustLock(t, c.Mutex(fmt.Sprint(i))))
		}
		n := 0
		for _, err := range c.List(t.Context(), "") {
			assert.Must(t, err)
			if n++; n == 3 {
				break
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		n = 0
		for s, err := range c.List(ctx, "") {
			if n++; n == 3 {
				cancel()
			}
			last = err
			assert.False(t, err != nil && s.Name != "", "an error comes with the state %+v", s)
		}
		assert.True(t, errors.Is(last, context.Canceled) && n <= 100,
			"after %d states: %v; want an end by the context, within 100 states", n, last)
	})
}

func TestListTellsWhyItEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(holdfast.Config{})
		for i := range 10 {
			release(t, mustLock(t, c.Mutex(fmt.Sprint(i))))
		}
		w.Store.FailRequest(func(action string, keys []string) error {
			if action == "inspect" && strings.Contains(keys[0], "{7}") {
				return &store.ServerError{Code: "FORMAT", Message: "FORMAT of a later version"}
			}
			return nil
		})
		var last error
		for _, err := range c.List(t.Context(), "") {
			last = err
		}
		var refusal *store.ServerError
		assert.True(t, errors.As(last, &refusal) && refusal.Code == "FORMAT" && strings.Contains(last.Error(), `"7"`),
			"%v", last)
		w.Store.FailRequest(nil)
		assert.Must(t, c.Close(t.Context()))
		for _, err := range c.List(t.Context(), "") {
			assert.Is(t, err, holdfast.ErrClosed)
		}
	})
}

// scanless is a store without Scan.
type scanless struct{ store.Store }

func TestAStoreThatCannotScanIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, err := holdfast.New(scanless{w.Store}, holdfast.Config{})
		assert.Must(t, err)
		defer func() { _ = c.Close(t.Context()) }()
		n := 0
		for _, err := range c.List(t.Context(), "") {
			n++
			assert.True(t, errors.Is(err, holdfast.ErrInvalid), "%v", err)
		}
		assert.Equal(t, n, 1, "answers, of which one is an error")
	})
}
