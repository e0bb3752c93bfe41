package contract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/store"
)

// labelSets collects the labels of all goroutines, as the goroutine profile shows them.
type labelSets struct {
	mu   sync.Mutex
	seen map[string]bool
}

var labelLine = regexp.MustCompile(`(?m)^# labels: \{(.*)\}$`)

func (s *labelSets) check() {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range labelLine.FindAllStringSubmatch(profile.String(), -1) {
		s.seen[m[1]] = true
	}
}

// Observe implements [holdfast.Observer].
func (s *labelSets) Observe(holdfast.Event) { s.check() }

// checkingStore checks the labels while a subscription is made.
type checkingStore struct {
	*network
	labels *labelSets
}

func (s *checkingStore) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	s.labels.check()
	return s.network.Listen(ctx, channel, l)
}

// Every goroutine in the background has a label that says what it does, and none of the
// labels of the caller that happened to start it.
func TestBackgroundGoroutinesAreLabelled(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := &labelSets{seen: map[string]bool{}}
		delay := func(string) (there, back time.Duration) {
			s.check()
			return time.Millisecond, time.Millisecond
		}
		w.net.slow(delay)
		pprof.Do(t.Context(), pprof.Labels("caller", "a program"), func(ctx context.Context) {
			c := w.client(holdfast.Config{Observer: s})
			watch, stop := context.WithCancel(ctx)
			var calls sync.WaitGroup
			calls.Go(func() {
				for range c.Election("e").Observe(watch) {
					s.check()
				}
			})
			// Many goroutines at once, which share requests.
			for i := range 50 {
				calls.Go(func() { release(t, mustLock(t, c.Mutex(fmt.Sprint("many", i)))) })
			}
			held := mustLock(t, c.Mutex("x"))
			brief, cancel := context.WithTimeout(ctx, time.Minute)
			other, err := holdfast.New(&checkingStore{w.net, s}, holdfast.Config{})
			assert.Must(t, err)
			defer func() { _ = other.Close(ctx) }()
			_, err = other.Mutex("x").Lock(brief) // meanwhile x is renewed
			cancel()
			assert.Is(t, err, context.DeadlineExceeded)
			// A request without an answer is cancelled.
			w.LoseReply(func(action string, _ []string) error {
				if action == "acquire" || action == "acquire_free" {
					return errors.New("the connection is broken")
				}
				return nil
			})
			_, err = c.Mutex("y").TryLock(ctx)
			assert.Is(t, err, holdfast.ErrUnknownOutcome)
			synctest.Wait()
			w.LoseReply(nil)
			time.Sleep(time.Second)
			// A loss is reported in the background.
			w.Flush()
			<-held.Context().Done()
			synctest.Wait()
			s.check()
			stop()
			calls.Wait()
		})
		s.mu.Lock()
		all := maps.Clone(s.seen)
		s.mu.Unlock()
		for _, want := range []string{
			"renewals", "subscription", "events", "registration", "cancel", "batch", "election", "memstore",
		} {
			if !all[fmt.Sprintf("%q:%q", "holdfast", want)] {
				t.Errorf("no goroutine had the label %q; seen: %v", want, slices.Sorted(maps.Keys(all)))
			}
		}
		for labels := range all {
			assert.False(t, strings.Contains(labels, `"holdfast"`) && strings.Contains(labels, `"caller"`),
				"a goroutine has the labels %s", labels)
		}
	})
}
