package contract_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/memstore"
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
	})
}

// A record that cannot be read hides no other: it has its place in the listing, with the error.
func TestListGoesOnAfterAnUnreadableRecord(t *testing.T) {
	failing := func(err error) func(*world) {
		return func(w *world) {
			w.Store.FailRequest(func(action string, keys []string) error {
				if action == "inspect" && strings.HasPrefix(keys[0], "holdfast:{bad") {
					return err
				}
				return nil
			})
		}
	}
	for what, spoil := range map[string]func(*world){
		"a later format": func(w *world) {
			for _, key := range []string{"holdfast:{bad}", "holdfast:{bad2}", "holdfast:{bad}:periodic"} {
				w.Store.PlantNewerFormat(key)
			}
		},
		"a key without permission": failing(&store.ServerError{Code: "NOPERM", Message: "NOPERM no key"}),
		"a script that fails":      failing(&store.ServerError{Code: "ERR", Message: "ERR user_script:83: attempt"}),
		"words that make no sense": failing(wire.BadAnswer("lock x")),
	} {
		runBubble(t, what, func(t *testing.T, w *world) {
			c := w.client(holdfast.Config{})
			for _, name := range []string{"a", "bad", "bad2", "z"} {
				release(t, mustLock(t, c.Mutex(name)))
			}
			job := c.Periodic("bad", time.Hour)
			assert.Must(t, assert.Err(job.Do(t.Context(), func(context.Context) error { return nil })))
			spoil(w)
			var got []string
			for s, err := range c.List(t.Context(), "") {
				if err != nil {
					assert.Contains(t, err.Error(), fmt.Sprintf("%q", s.Name))
				}
				job := s.Job != nil && s.Job.Name == s.Name
				got = append(got, fmt.Sprintf("%s job=%t bad=%t", s.Name, job, err != nil))
			}
			slices.Sort(got)
			assert.EqualSlices(t, got, []string{
				"a job=false bad=false", "bad job=false bad=true", "bad job=true bad=true",
				"bad2 job=false bad=true", "z job=false bad=false",
			}, "the list")
		})
	}
}

// A server that refuses to read any record is one error and not a row for each.
func TestListEndsIfTheServerRefusesEveryRecord(t *testing.T) {
	for name, records := range map[string]int{"NOPERM": 3, "ERR": 3, "NOPERM of many": 1000} {
		runBubble(t, name, func(t *testing.T, w *world) {
			code, _, _ := strings.Cut(name, " ")
			c := w.client(holdfast.Config{})
			for i := range records {
				release(t, mustLock(t, c.Mutex(strconv.Itoa(i))))
			}
			var asked atomic.Int64
			w.Store.FailRequest(func(action string, _ []string) error {
				if action == "inspect" {
					asked.Add(1)
					return &store.ServerError{Code: code, Message: code + " unknown command"}
				}
				return nil
			})
			rows := 0
			for s, err := range c.List(t.Context(), "") {
				rows++
				var refused *holdfast.ServerError
				assert.True(t, s.Name == "" && errors.As(err, &refused) && refused.Code == code, "%q: %v", s.Name, err)
			}
			assert.Equal(t, rows, 1, "rows")
			assert.True(t, asked.Load() < 200, "it asked %d times", asked.Load())
		})
	}
}

// One record that the script fails on is a row, also if it is the only one.
func TestListNamesTheOnlyRecordIfItIsDamaged(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(holdfast.Config{})
		release(t, mustLock(t, c.Mutex("bad")))
		w.Store.FailRequest(func(action string, keys []string) error {
			if action == "inspect" && keys[0] == "holdfast:{bad}" {
				return &store.ServerError{Code: "ERR", Message: "ERR user_script:83: attempt"}
			}
			return nil
		})
		var got []string
		for s, err := range c.List(t.Context(), "") {
			got = append(got, fmt.Sprintf("%s bad=%t", s.Name, err != nil))
		}
		assert.EqualSlices(t, got, []string{"bad bad=true"}, "the list")
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
				return &store.ServerError{Code: "NOAUTH", Message: "NOAUTH Authentication required."}
			}
			return nil
		})
		var last error
		for s, err := range c.List(t.Context(), "") {
			last = err
			assert.True(t, err == nil || s.Name == "", "the error that ends the listing has the state %+v", s)
		}
		var refusal *store.ServerError
		assert.True(t, errors.As(last, &refusal) && refusal.Code == "NOAUTH" && strings.Contains(last.Error(), `"7"`),
			"%v", last)
		w.Store.FailRequest(nil)
		assert.Must(t, c.Close(t.Context()))
		for _, err := range c.List(t.Context(), "") {
			assert.Is(t, err, holdfast.ErrClosed)
		}
	})
}

// halfScan is a store of which one node cannot be scanned.
type halfScan struct {
	*memstore.Store
	err error
}

func (s halfScan) Scan(ctx context.Context, prefix string, visit func(keys []string) error) error {
	return cmp.Or(s.Store.Scan(ctx, prefix, visit), s.err)
}

func TestListYieldsWhatItReadsBeforeTheError(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, err := holdfast.New(halfScan{w.Store, store.ErrNotSent}, holdfast.Config{})
		assert.Must(t, err)
		defer func() { _ = c.Close(t.Context()) }()
		release(t, mustLock(t, c.Mutex("a")))
		release(t, mustLock(t, c.Mutex("b")))
		refused := false // one record cannot be read, and perhaps none
		w.Store.FailRequest(func(action string, keys []string) error {
			if action == "inspect" && refused && strings.Contains(keys[0], "{") && !strings.Contains(keys[0], "{}") {
				return &store.ServerError{Code: "ERR", Message: "ERR damaged"}
			}
			return nil
		})
		for _, refused = range []bool{false, true} {
			var names []string
			var last error
			for s, err := range c.List(t.Context(), "") {
				names, last = append(names, s.Name), err
				assert.Equal(t, err != nil, refused || s.Name == "", "%q: an error", s.Name)
			}
			assert.Is(t, last, holdfast.ErrUnreachable)
			assert.Contains(t, last.Error(), `listing "*": `)
			slices.Sort(names)
			assert.EqualSlices(t, names, []string{"", "a", "b"}, "the names")
			for range c.List(t.Context(), "") {
				break // the error does not come after that
			}
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
