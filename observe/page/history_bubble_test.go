package page

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

func TestTheTimelineTellsHowHoldsEnded(t *testing.T) {
	bubble(t, Config{KeepWatching: true}, func(t *testing.T, w *world) {
		for i, c := range []struct {
			how  string
			lost int
			end  func(name string)
		}{
			{endReleased, 0, func(name string) {
				l := w.lock(name)
				w.pass(5 * time.Second)
				w.release(l)
			}},
			{endReleased, 0, func(name string) { // kept for a minimum time
				l := w.lock(name, holdfast.MinHold(20*time.Second))
				w.pass(5 * time.Second)
				w.release(l)
				w.pass(30 * time.Second)
			}},
			{endExpired, 1, func(name string) {
				w.lock(name, holdfast.NoRenewal(), holdfast.TTL(5*time.Second))
				w.pass(10 * time.Second)
			}},
			{endEvicted, 1, func(name string) {
				w.lock(name)
				w.pass(5 * time.Second)
				e := holdfast.Eviction{By: "ann", Reason: "stuck", AtOnce: true}
				n, err := w.client.Evict(t.Context(), name, e)
				assert.MustTrue(t, n == 1 && err == nil, "%v %v", n, err)
			}},
			{endEvicted, 1, func(name string) { // asked to end, and at work for a while
				l := w.lock(name)
				w.pass(5 * time.Second)
				e := holdfast.Eviction{By: "ann", Reason: "stuck"}
				n, err := w.client.Evict(t.Context(), name, e)
				assert.MustTrue(t, n == 1 && err == nil, "%v %v", n, err)
				w.pass(5 * time.Second)
				d := w.detail(name)
				assert.True(t, d.Lock.Holders[0].Ending, "%+v", d.Lock.Holders)
				_ = l.Release(t.Context())
			}},
			{endGone, 1, func(name string) {
				w.lock(name)
				w.pass(5 * time.Second)
				w.store.Flush()
			}},
		} {
			name := fmt.Sprintf("%s/%d/%d", c.how, c.lost, i)
			c.end(name)
			w.pass(2 * time.Second)
			d := w.detail(name)
			assert.MustTrue(t, len(d.Timeline.Holds) != 0, "%s: no hold", name)
			h := d.Timeline.Holds[len(d.Timeline.Holds)-1]
			assert.True(t, h.How == c.how && h.End != "" && d.Lock.Lost == c.lost,
				"%s: %+v, lost %d", name, h, d.Lock.Lost)
			assert.False(t, c.how == endEvicted && h.Note != "ann: stuck", "the note is %q", h.Note)
			if c.how == endExpired && since(t, h.Start, h.End) != 5*time.Second {
				t.Errorf("expired after %v", since(t, h.Start, h.End))
			}
		}
		w.pass(window + time.Minute)
		if d := w.detail("evicted/1/3"); len(d.Timeline.Holds) != 0 || d.Lock.Lost != 0 {
			t.Errorf("after the window: %+v, lost %d", d.Timeline.Holds, d.Lock.Lost)
		}
		assert.Equal(t, w.page.watcher.lost, 4, "lost in all")
	})
}

// The run of a job is evicted as a hold is.
func TestTheTimelineTellsThatARunWasEvicted(t *testing.T) {
	bubble(t, Config{KeepWatching: true}, func(t *testing.T, w *world) {
		_, err := w.client.Periodic("nightly", time.Hour).Do(t.Context(), func(ctx context.Context) error {
			w.pass(5 * time.Second)
			n, err := w.client.Evict(ctx, "nightly", holdfast.Eviction{By: "ann", Reason: "stuck", Job: true})
			assert.True(t, n == 1 && err == nil, "%v %v", n, err)
			<-ctx.Done()
			return nil
		})
		assert.Is(t, err, holdfast.ErrLost)
		w.pass(2 * time.Second)
		var d detailJSON
		w.get("/api/lock?name=nightly&kind=job", &d)
		assert.MustTrue(t, d.Lock.LastEviction != nil && len(d.Timeline.Holds) == 1, "%+v", d)
		h := d.Timeline.Holds[0]
		assert.True(t, h.How == endEvicted && h.Note == "ann: stuck" && d.Lock.Lost == 1, "%+v", h)
		assert.Equal(t, w.page.watcher.evicted, uint64(1), "evictions")
	})
}

func since(t *testing.T, start, end string) time.Duration {
	t.Helper()
	a, err := time.Parse(time.RFC3339, start)
	assert.Must(t, err)
	b, err := time.Parse(time.RFC3339, end)
	assert.Must(t, err)
	return b.Sub(a)
}

// A lease that is renewed, and released while nobody looks, may end after the expiry that the
// page has seen. That is no loss.
func TestAHoldThatEndedWhileNobodyLookedIsNoLoss(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		l := w.lock("a")
		w.detail("a")
		w.pass(time.Minute) // the reads have paused
		w.release(l)
		w.pass(time.Minute)
		w.detail("a")
		w.pass(2 * time.Second)
		d := w.detail("a")
		assert.True(t, len(d.Timeline.Holds) == 1 && d.Timeline.Holds[0].How == endUnseen && d.Lock.Lost == 0,
			"%+v, lost %d", d.Timeline.Holds, d.Lock.Lost)
		if n := len(d.Timeline.Watched); n != 2 || d.Timeline.Watched[0].To == "" || d.Timeline.Watched[1].To != "" {
			t.Errorf("watched %+v", d.Timeline.Watched)
		}
	})
}

// The server keeps a lease for its lock-delay after its holder has lost it. The viewer gets both times, and a renewal
// is judged by the first.
func TestALeaseInItsLockDelayIsLost(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.lock("a", holdfast.TTL(20*time.Second), holdfast.LockDelay(time.Minute), holdfast.NoRenewal())
		for _, passed := range []time.Duration{0, 25 * time.Second} {
			w.pass(passed)
			var list listJSON
			w.get("/api/locks", &list)
			for _, l := range []*lockJSON{list.Locks[0], w.detail("a").Lock} {
				h := l.Holders[0]
				assert.True(t, l.Held && since(t, h.Trusted, h.Expires) == time.Minute, "%+v", h)
				left := since(t, list.Now, h.Trusted)
				assert.Equal(t, left < 0, passed > 0, "not renewed in time")
				assert.Equal(t, left.Abs() < 21*time.Second, true, "trust is left for its TTL")
			}
		}
		w.pass(time.Minute) // in which the reads paused
		w.detail("a")
		w.pass(2 * time.Second)
		d := w.detail("a")
		assert.True(t, len(d.Timeline.Holds) == 1 && d.Timeline.Holds[0].How == endExpired && d.Lock.Lost == 1,
			"%+v, lost %d", d.Timeline.Holds, d.Lock.Lost)
	})
}

func TestTheTimelineCountsWaiters(t *testing.T) {
	bubble(t, Config{KeepWatching: true}, func(t *testing.T, w *world) {
		w.lock("a")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 3)
		for i := range 3 {
			other := w.newClient("other" + strconv.Itoa(i))
			go func() {
				_, err := other.Mutex("a").Lock(ctx)
				done <- err
			}()
			w.pass(5 * time.Second)
		}
		cancel()
		for range 3 {
			assert.True(t, <-done != nil, "a waiter got the lock")
		}
		w.pass(5 * time.Second)
		got := ""
		for _, c := range w.detail("a").Timeline.Waiting {
			got += strconv.Itoa(c.N)
		}
		assert.Equal(t, got, "1230", "waiters over time")
	})
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	h := newHistory()
	now := time.Unix(1_000_000, 0)
	token := 0
	step := func(name string) {
		token++
		held := &lockJSON{ID: name, Held: true, read: now, Holders: []holderJSON{{
			Holder: lockjson.Holder{Token: strconv.Itoa(token << 10)},
			since:  now, expires: now.Add(time.Minute), LeaseMS: 60_000,
		}}}
		h.note(nil, held, now)
		h.note(held, &lockJSON{ID: name, read: now}, now.Add(time.Millisecond))
		now = now.Add(time.Millisecond)
	}
	for range 10 * perLock {
		step("busy")
	}
	assert.Equal(t, len(h.locks["busy"].holds), perLock, "holds of one lock")
	for i := range 2 * inTotal {
		step("lock/" + strconv.Itoa(i%20_000))
		if i%5000 == 4999 {
			if h.prune(now); h.size() > inTotal {
				t.Fatalf("%d are remembered", h.size())
			}
		}
	}
	last := h.locks["lock/"+strconv.Itoa((2*inTotal-1)%20_000)]
	assert.False(t, last == nil || len(last.holds) == 0, "the youngest is forgotten")
	assert.True(t, h.locks["busy"] == nil, "the oldest is remembered")
	now = now.Add(2 * window)
	h.prune(now)
	assert.True(t, h.size() == 0 && len(h.locks) == 0, "%d are remembered after the window", h.size())
}
