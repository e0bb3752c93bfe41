// Every grant is followed by one end, in order, and a slow log handler or observer delays nobody (G2).

package contract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/store"
)

// story returns events as one line.
func story(events []observe.Event) string {
	var words []string
	for _, e := range events {
		word := e.Kind.String()
		if e.Wake != observe.WakeNone {
			word += "/" + e.Wake.String()
		}
		if e.Local {
			word += "/here"
		}
		if e.Err != nil {
			word += "/error"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestTheObserverIsToldAWholeLife(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		events := &recorder{}
		c := w.client(holdfast.Config{Observer: events})
		other := mustLock(t, w.client().Mutex("a"))
		next := w.waiting(c.Mutex("a"), t.Context())
		time.Sleep(time.Second)
		release(t, other)
		l := (<-next).Lease
		local := w.waiting(c.Mutex("a"), t.Context())
		time.Sleep(5 * time.Millisecond)
		release(t, l)
		l = (<-local).Lease
		time.Sleep(ttl / 2)
		_, err := c.Mutex("a").TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrHeld)
		w.Flush()
		<-l.Context().Done()
		synctest.Wait()
		want := "wait wake/push grant/push wait/here release/here grant/local/here renew fail/error lost/error"
		got := story(events.all())
		// A local hand-over wakes the next goroutine before the release is reported:
		// either event may be first.
		got = strings.Replace(got, "grant/local/here release/here", "release/here grant/local/here", 1)
		// The pushed grant is confirmed at the same time.
		assert.Equal(t, strings.Count(got, " renew"), 2, "renewals in half a TTL: %s", got)
		got = strings.Replace(got, " renew", "", 1)
		assert.True(t, got == want, "got  %s\nwant %s", got, want)
		all := events.all()
		wait, grant, lost := all[0], all[2], all[len(all)-1]
		assert.True(t, wait.Position == 1 && wait.Name == "a" && strings.HasPrefix(wait.HolderID, c.ID()),
			"wait %+v", wait)
		if grant.Wait != time.Second || grant.Token == 0 || grant.HolderID != wait.HolderID || grant.Waiters != 0 {
			t.Errorf("grant %+v", grant)
		}
		assert.True(t, lost.Token == l.Token() && lost.Held >= ttl/2 && lost.HolderID == l.HolderID(),
			"lost %+v", lost)
	})
}

// ends are the events that end a grant.
var ends = []observe.EventKind{observe.EventRelease, observe.EventLost, observe.EventLeak}

func TestEveryGrantIsFollowedByOneEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		events := &recorder{}
		c := w.client(holdfast.Config{Observer: events})
		release(t, mustLock(t, c.Mutex("released")))
		assert.NoError(t, mustLock(t, c.Mutex("later")).ReleaseAfter(t.Context(), time.Second))
		closed := mustLock(t, c.Mutex("closed"))
		mustLock(t, c.Mutex("closed, never released"))
		failed := mustLock(t, c.Mutex("failed"))
		w.FailRequest(only("release", 2, errLink))
		assert.Is(t, failed.Release(t.Context()), holdfast.ErrUnknownOutcome)
		time.Sleep(time.Minute)
		lost := mustLock(t, c.Mutex("lost"))
		w.FailRequest(func(action string, keys []string) error {
			if action == "renew" && len(keys) == 1 && keys[0] == "holdfast:{lost}" {
				return errLink
			}
			return nil
		})
		evict(t, c, "lost", 0)
		<-lost.Context().Done()
		synctest.Wait()
		assert.Is(t, lost.Release(t.Context()), holdfast.ErrNotHeld)
		assert.NoError(t, c.Close(t.Context()))
		assert.Is(t, closed.Release(t.Context()), holdfast.ErrClosed)

		count := map[string]int{}
		for _, e := range events.all(ends...) {
			count[e.Name]++
		}
		for _, e := range events.all(observe.EventGrant) {
			assert.Equal(t, count[e.Name], 1, "ends of %q", e.Name)
		}
	})
}

type traceKey struct{}

// An observer of metrics and traces needs no memory of its own: an event says to which
// call and which lease it belongs, and whether the call has waited.
func TestAnEventSaysToWhichCallAndLeaseItBelongs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		events := &recorder{}
		c := w.client(holdfast.Config{Observer: events})
		traced := context.WithValue(t.Context(), traceKey{}, "trace")
		first := mustLock(t, w.client().Mutex("a"))
		next := w.waiting(c.Mutex("a"), traced)
		time.Sleep(time.Second)
		release(t, first)
		l := (<-next).Lease
		local := w.waiting(c.Mutex("a"), traced)
		time.Sleep(5 * time.Millisecond)
		_, err := c.Mutex("a").TryLock(traced)
		assert.Is(t, err, holdfast.ErrHeld)
		_, err = c.Mutex("a", holdfast.MaxWait(time.Second)).Lock(traced)
		assert.Is(t, err, holdfast.ErrHeld)
		release(t, l)
		release(t, (<-local).Lease)
		p, err := c.Semaphore("p", 3).Acquire(traced, 2)
		assert.Must(t, err)
		release(t, p)
		r, err := c.RWMutex("r").RLock(traced)
		assert.Must(t, err)
		release(t, r)

		if n := len(events.all(observe.EventWait)); n < 3 {
			t.Errorf("%d waits: %s", n, story(events.all()))
		}
		var waited []bool
		begun := map[uint64]string{}
		for _, e := range events.all() {
			if e.Kind != observe.EventRenew && (e.Context == nil || e.Context.Value(traceKey{}) != "trace") {
				t.Errorf("%v without the caller's context", e.Kind)
			}
			want := map[string]string{"a": "exclusive", "p": "permits", "r": "shared"}[e.Name]
			assert.True(t, e.Mode == want, "%v of %q: mode %q", e.Kind, e.Name, e.Mode)
			switch e.Kind {
			case observe.EventWait, observe.EventFail:
				waited = append(waited, e.Waited)
			case observe.EventGrant:
				_, twice := begun[e.Lease]
				assert.True(t, !twice && e.Waited == (e.Wake != observe.WakeNone), "grant %+v", e)
				begun[e.Lease] = e.HolderID
			case observe.EventRelease:
				assert.Equal(t, begun[e.Lease], e.HolderID, "release %+v after %v", e, begun)
				delete(begun, e.Lease)
			default:
			}
		}
		assert.Equal(t, len(begun), 0, "leases without an end: %v", begun)
		// The first wait, the local one, the try that fails, and the wait that is over.
		if want := []bool{false, false, false, false, true}; !slices.Equal(waited, want) {
			t.Errorf("waited %v, want %v: %s", waited, want, story(events.all()))
		}
	})
}

// requests is an observer that also receives the requests.
type requests struct {
	recorder
	sent []observe.Request
}

func (r *requests) ObserveRequest(q observe.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, q)
}

func TestARequestObserverReceivesEveryRequest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		seen := &requests{}
		c := w.client(holdfast.Config{Observer: seen})
		w.net.slow(slowly("acquire", 20*time.Millisecond, 10*time.Millisecond))
		w.SetAcks(store.Acks{Replicas: 1})
		l := mustLock(t, c.Mutex("a", holdfast.WaitReplicas(1, time.Second)))
		time.Sleep(ttl / 2)
		w.FailRequest(only("release", 2, errLink))
		assert.Is(t, l.Release(context.WithValue(t.Context(), traceKey{}, "trace")), holdfast.ErrUnknownOutcome)
		time.Sleep(ttl)
		seen.mu.Lock()
		defer seen.mu.Unlock()
		count := map[string]int{}
		for _, q := range seen.sent {
			count[q.Script]++
			want := 30 * time.Millisecond
			assert.False(t, q.Script == "acquire" && q.Took != want, "acquire took %v, want %v", q.Took, want)
			if q.Script != "release" {
				continue
			}
			assert.True(t, errors.Is(q.Err, errLink) && q.Context.Value(traceKey{}) == "trace",
				"want a release with its error and the caller's context, got %+v", q)
		}
		for action, n := range w.net.sent {
			assert.True(t, count[action] == n,
				"%s was sent %d times, and reported %d times", action, n, count[action])
		}
		assert.True(t, count["renew"] != 0, "no renewal is reported")
	})
}

// The log says why a lease could not be renewed.
func TestALostLeaseIsLoggedWithTheErrorOfItsRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var log bytes.Buffer
		c := w.client(holdfast.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		l := mustLock(t, c.Mutex("a"))
		w.FailRequest(only("renew", -1, &store.ServerError{Code: "MISCONF", Message: "MISCONF full"}))
		<-l.Context().Done()
		synctest.Wait()
		for _, want := range []string{"reason=expired", `error="holdfast: server: MISCONF full"`, "hint=", "disk"} {
			assert.Contains(t, log.String(), want)
		}
	})
}

// A refusal is not the reason if a later renewal was confirmed.
func TestALostLeaseIsLoggedWithoutAnErrorThatIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var log bytes.Buffer
		c := w.client(holdfast.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		l, err := c.MultiMutex([]string{"a", "b"}).Lock(t.Context())
		assert.Must(t, err)
		w.FailRequest(only("renew", 1, &store.ServerError{Code: "MISCONF", Message: "MISCONF full"}))
		time.Sleep(ttl)
		_, err = w.client().Evict(t.Context(), "a", holdfast.Eviction{By: "x", Reason: "y"})
		assert.Must(t, err)
		time.Sleep(2 * ttl) // b is not renewed any more
		synctest.Wait()
		assert.Contains(t, log.String(), "lock=b reason=expired")
		assert.False(t, strings.Contains(log.String(), "MISCONF"), "it says %v", &log)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
	})
}

func TestEventsHaveNames(t *testing.T) {
	for kind := observe.EventWait; kind <= observe.EventLeak; kind++ {
		assert.True(t, kind.String() != "", "event %d has no name", kind)
	}
	for wake := observe.WakeNone; wake <= observe.WakeLocal; wake++ {
		assert.True(t, wake.String() != "", "wake %d has no name", wake)
	}
}

// blocker is an observer and a log handler. It blocks from some event on until it is
// released, and records its events.
type blocker struct {
	recorder
	slog.Handler
	blocks func(kind observe.EventKind) bool // 0: a log line
	gate   chan struct{}
}

func newBlocker(blocks ...observe.EventKind) *blocker {
	b := &blocker{gate: make(chan struct{}), Handler: slog.NewTextHandler(&bytes.Buffer{}, nil)}
	b.blocks = func(kind observe.EventKind) bool { return slices.Contains(blocks, kind) }
	return b
}

func (b *blocker) Observe(e observe.Event) {
	b.recorder.Observe(e)
	if b.blocks(e.Kind) {
		<-b.gate
	}
}

func (b *blocker) Handle(context.Context, slog.Record) error {
	if b.blocks(0) {
		<-b.gate
	}
	return nil
}

func (b *blocker) config() holdfast.Config {
	return holdfast.Config{Observer: b, Logger: slog.New(b)}
}

// A handler that blocks delays neither the end of a context, nor a renewal, nor another
// loss.
func TestAHandlerThatBlocksDelaysNobody(t *testing.T) {
	for name, blocks := range map[string]observe.EventKind{
		"log": 0, "loss": observe.EventLost, "renewal": observe.EventRenew,
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			const many = 1000 / few
			b := newBlocker(blocks)
			c := w.client(b.config())
			var leases []*holdfast.Lease
			for i := range many {
				leases = append(leases, mustLock(t, c.Mutex(fmt.Sprint("a", i))))
			}
			first := mustLock(t, c.Mutex("first", holdfast.TTL(time.Second)))
			// It shares no request with the others.
			w.SetAcks(store.Acks{Replicas: 1})
			live := mustLock(t, c.Mutex("live", holdfast.TTL(5*time.Second), holdfast.WaitReplicas(1, time.Second)))
			start := time.Now()
			time.Sleep(ttl / 2) // all leases were renewed once
			w.FailRequest(func(action string, keys []string) error {
				if action == "renew" && (len(keys) > 1 || keys[0] != "holdfast:{live}") {
					return errLink
				}
				return nil
			})
			select {
			case <-first.Context().Done():
			case <-time.After(2 * time.Second):
				t.Error("the first loss is not signalled")
			}
			var wrong sync.Map
			var all sync.WaitGroup
			for i, l := range leases {
				at := time.Now().Add(l.Remaining())
				all.Go(func() {
					select {
					case <-l.Context().Done():
					case <-time.After(2 * ttl):
					}
					if now := time.Now(); !now.Equal(at) {
						wrong.Store(i, now.Sub(at))
					}
				})
			}
			all.Wait()
			wrong.Range(func(i, late any) bool {
				t.Errorf("lease %v ended %v after its deadline", i, late)
				return false
			})
			w.FailRequest(nil)
			assert.AtLeast(t, time.Since(start), ttl, "nothing was ever renewed")
			time.Sleep(3 * ttl)
			assert.NoError(t, live.Err())
			close(b.gate)
			synctest.Wait()
			assert.Equal(t, len(b.all(observe.EventLost)), many+1, "losses told")
			release(t, live)
		})
	}
}

// Whatever blocks and for how long: the events of a lease are its grant, its renewals and
// one end, in this order.
func TestEventsOfALeaseKeepTheirOrder(t *testing.T) {
	for name, blocks := range map[string][]observe.EventKind{
		"nothing": nil, "log": {0}, "renewal": {observe.EventRenew}, "loss": {observe.EventLost},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			b := newBlocker(blocks...)
			c := w.client(b.config())
			rw, mu := c.RWMutex("rw"), c.Mutex("re", holdfast.Reentrant())
			first := mustLock(t, mu)
			again, err := mu.Lock(first.Context())
			assert.Must(t, err)
			one := must(t, rw.RLock)
			two, err := rw.RLock(t.Context())
			assert.Must(t, err)
			lost := mustLock(t, c.Mutex("lost"))
			time.Sleep(ttl)
			release(t, one)
			release(t, first)
			evict(t, w.over(w.Store, holdfast.Config{}), "lost", 0)
			time.Sleep(ttl)
			release(t, again)
			release(t, two)
			assert.Is(t, lost.Release(t.Context()), holdfast.ErrNotHeld)
			close(b.gate)
			synctest.Wait()
			wantOrder(t, b.all())
		})
	}
}

// While the observer still handles the grant of a lease, other events of that lease wait.
func TestNoEventOfALeaseComesBeforeItsGrant(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := newBlocker(observe.EventGrant)
		c := w.client(b.config())
		granted := make(chan *holdfast.Lease, 1)
		go func() { granted <- mustLock(t, c.Mutex("m")) }()
		time.Sleep(ttl)
		if got := b.all(); len(got) != 1 || got[0].Kind != observe.EventGrant {
			t.Errorf("while the grant was told: %s", story(got))
		}
		close(b.gate)
		l := <-granted
		synctest.Wait()
		assert.True(t, len(b.all(observe.EventRenew)) != 0, "the renewals from before are told to nobody")
		release(t, l)
	})
}

// wantOrder asserts that the events of each holder begin with grants, end with as many
// ends, and have their renewals in between.
func wantOrder(t *testing.T, events []observe.Event) {
	t.Helper()
	stories := map[string][]observe.Event{}
	for _, e := range events {
		stories[e.Name] = append(stories[e.Name], e)
	}
	want := map[string]int{"rw": 2, "re": 2, "lost": 1}
	for name, leases := range want {
		grants, ends, renewals := 0, 0, 0
		for _, e := range stories[name] {
			switch e.Kind {
			case observe.EventGrant:
				grants++
			case observe.EventRelease, observe.EventLost:
				ends++
			case observe.EventRenew:
				if renewals++; grants == 0 || ends == leases {
					t.Errorf("%s: a renewal after %d grants and %d ends: %s", name, grants, ends, story(stories[name]))
				}
			default: // the event belongs to no lease
			}
			assert.True(t, ends <= grants, "%s: ends before it begins: %s", name, story(stories[name]))
		}
		if grants != leases || ends != leases || renewals == 0 {
			t.Errorf("%s: %s", name, story(stories[name]))
		}
	}
}

// Close waits until all events are delivered. For a handler that blocks it waits only a
// moment.
func TestCloseDoesNotHangOnAHandler(t *testing.T) {
	for _, kind := range []observe.EventKind{0, observe.EventLost, observe.EventRelease, observe.EventRenew} {
		runBubble(t, kind.String(), func(t *testing.T, w *world) {
			b := newBlocker(kind)
			defer close(b.gate)
			c := w.client(b.config())
			mustLock(t, c.Mutex("a"))
			mustLock(t, c.Mutex("lost"))
			evict(t, w.over(w.Store, holdfast.Config{}), "lost", 0)
			time.Sleep(ttl)
			start := time.Now()
			err := c.Close(context.Background())
			assert.True(t, err == nil && time.Since(start) <= 2*time.Second, "%v after %v", err, time.Since(start))
		})
	}
	bubble(t, func(t *testing.T, w *world) {
		events := &recorder{}
		c := w.client(holdfast.Config{Observer: events})
		mustLock(t, c.Mutex("a"))
		if err := c.Close(context.Background()); err != nil || len(events.all(observe.EventRelease)) != 1 {
			t.Errorf("%v, told %s", err, story(events.all()))
		}
	})
}

// If a handler blocks for long, the number of waiting events is limited. It is then told
// that events are missing.
func TestAHandlerThatBlocksForLongIsToldThatItMissedEvents(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b, said := newBlocker(observe.EventRenew), new(bytes.Buffer)
		b.Handler = nil
		c := w.client(holdfast.Config{Observer: b, Logger: slog.New(slog.NewTextHandler(said, nil))})
		l := mustLock(t, c.Mutex("a", holdfast.TTL(time.Second)))
		time.Sleep(time.Hour)
		close(b.gate)
		release(t, l)
		synctest.Wait()
		n := len(b.all(observe.EventRenew))
		assert.True(t, n >= 100 && n <= 2000, "%d of some 10,000 renewals were told", n)
		assert.Equal(t, len(b.all(observe.EventRelease)), 1, "how often the end was told")
		assert.True(t, strings.Contains(said.String(), "some events were dropped"), "logged: %q", said)
	})
}

// slowObserver is slow with each event.
type slowObserver struct{ told atomic.Int64 }

func (o *slowObserver) Observe(e observe.Event) {
	time.Sleep(10 * time.Millisecond)
	if e.Kind == observe.EventRelease {
		o.told.Add(1)
	}
}

func TestCloseReturnsWhenEveryEventIsDelivered(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		slow := &slowObserver{}
		c := w.client(holdfast.Config{Observer: slow})
		const n = 20
		for i := range n {
			mustLock(t, c.Mutex(fmt.Sprint(i)))
		}
		assert.NoError(t, c.Close(t.Context()))
		told := slow.told.Load()
		assert.True(t, told == n, "the observer was told of %d releases of %d", told, n)
	})
}
