package contract_test

import (
	"bytes"
	"context"
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
	"github.com/holdfast-go/holdfast/store"
)

// blocker is an observer and a log handler. It blocks from some event on until it is
// released, and records its events.
type blocker struct {
	recorder
	slog.Handler
	blocks func(kind holdfast.EventKind) bool // 0: a log line
	gate   chan struct{}
}

func newBlocker(blocks ...holdfast.EventKind) *blocker {
	b := &blocker{gate: make(chan struct{}), Handler: slog.NewTextHandler(&bytes.Buffer{}, nil)}
	b.blocks = func(kind holdfast.EventKind) bool { return slices.Contains(blocks, kind) }
	return b
}

func (b *blocker) Observe(e holdfast.Event) {
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
	for name, blocks := range map[string]holdfast.EventKind{
		"log": 0, "loss": holdfast.EventLost, "renewal": holdfast.EventRenew,
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
			assert.Equal(t, len(b.all(holdfast.EventLost)), many+1, "losses told")
			release(t, live)
		})
	}
}

// Whatever blocks and for how long: the events of a lease are its grant, its renewals and
// one end, in this order.
func TestEventsOfALeaseKeepTheirOrder(t *testing.T) {
	for name, blocks := range map[string][]holdfast.EventKind{
		"nothing": nil, "log": {0}, "renewal": {holdfast.EventRenew}, "loss": {holdfast.EventLost},
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
			w.Evict(t, "lost")
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
		b := newBlocker(holdfast.EventGrant)
		c := w.client(b.config())
		granted := make(chan *holdfast.Lease, 1)
		go func() { granted <- mustLock(t, c.Mutex("m")) }()
		time.Sleep(ttl)
		if got := b.all(); len(got) != 1 || got[0].Kind != holdfast.EventGrant {
			t.Errorf("while the grant was told: %s", story(got))
		}
		close(b.gate)
		l := <-granted
		synctest.Wait()
		assert.True(t, len(b.all(holdfast.EventRenew)) != 0, "the renewals from before are told to nobody")
		release(t, l)
	})
}

// wantOrder asserts that the events of each holder begin with grants, end with as many
// ends, and have their renewals in between.
func wantOrder(t *testing.T, events []holdfast.Event) {
	t.Helper()
	stories := map[string][]holdfast.Event{}
	for _, e := range events {
		stories[e.Name] = append(stories[e.Name], e)
	}
	want := map[string]int{"rw": 2, "re": 2, "lost": 1}
	for name, leases := range want {
		grants, ends, renewals := 0, 0, 0
		for _, e := range stories[name] {
			switch e.Kind {
			case holdfast.EventGrant:
				grants++
			case holdfast.EventRelease, holdfast.EventLost:
				ends++
			case holdfast.EventRenew:
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
	for _, kind := range []holdfast.EventKind{0, holdfast.EventLost, holdfast.EventRelease, holdfast.EventRenew} {
		runBubble(t, kind.String(), func(t *testing.T, w *world) {
			b := newBlocker(kind)
			defer close(b.gate)
			c := w.client(b.config())
			mustLock(t, c.Mutex("a"))
			mustLock(t, c.Mutex("lost"))
			w.Evict(t, "lost")
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
		if err := c.Close(context.Background()); err != nil || len(events.all(holdfast.EventRelease)) != 1 {
			t.Errorf("%v, told %s", err, story(events.all()))
		}
	})
}

// Evict evicts a lock without the network.
func (w *world) Evict(t *testing.T, name string) {
	t.Helper()
	c := w.over(w.Store, holdfast.Config{})
	n, err := c.Evict(t.Context(), name, holdfast.Eviction{By: "ann", Reason: "test"})
	assert.MustTrue(t, n == 1 && err == nil, "%d holds were evicted, %v", n, err)
}

// If a handler blocks for long, the number of waiting events is limited. It is then told
// that events are missing.
func TestAHandlerThatBlocksForLongIsToldThatItMissedEvents(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b, said := newBlocker(holdfast.EventRenew), new(bytes.Buffer)
		b.Handler = nil
		c := w.client(holdfast.Config{Observer: b, Logger: slog.New(slog.NewTextHandler(said, nil))})
		l := mustLock(t, c.Mutex("a", holdfast.TTL(time.Second)))
		time.Sleep(time.Hour)
		close(b.gate)
		release(t, l)
		synctest.Wait()
		n := len(b.all(holdfast.EventRenew))
		assert.True(t, n >= 100 && n <= 2000, "%d of some 10,000 renewals were told", n)
		assert.Equal(t, len(b.all(holdfast.EventRelease)), 1, "how often the end was told")
		assert.True(t, strings.Contains(said.String(), "some events were dropped"), "logged: %q", said)
	})
}

// slowObserver is slow with each event.
type slowObserver struct{ told atomic.Int64 }

func (o *slowObserver) Observe(e holdfast.Event) {
	time.Sleep(10 * time.Millisecond)
	if e.Kind == holdfast.EventRelease {
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
