package page

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestAViewerGetsASnapshotAndThenTheDifferences(t *testing.T) {
	bubble(t, Config{Title: "here"}, func(t *testing.T, w *world) {
		a := w.lock("a")
		w.lock("b")
		s := w.view()
		w.pass(time.Millisecond)
		first := s.next()
		if !slices.Equal(names(first), []string{"snapshot"}) || len(first[0].Locks) != 2 || first[0].Title != "here" {
			t.Fatalf("%+v", first)
		}
		if l := first[0].Locks[0]; l.Name != "a" || !l.Held || l.Kind != "exclusive" || l.Holders[0].App != "worker" ||
			l.Holders[0].Token != tokenText(a) {
			t.Errorf("%+v", l)
		}
		w.pass(2500 * time.Millisecond)
		more := names(s.next())
		assert.True(t, len(more) == 0, "nothing has changed, and there are %q", more)
		w.release(a)
		w.pass(time.Second)
		changes := s.next()
		if !slices.Equal(names(changes), []string{"change"}) || len(changes[0].Locks) != 1 ||
			changes[0].Locks[0].Held || changes[0].Locks[0].Name != "a" || len(changes[0].Gone) != 0 {
			t.Errorf("a release: %+v", changes)
		}
		if changes[0].Seq != first[0].Seq+1 || changes[0].id != strconv.FormatUint(changes[0].Seq, 10) {
			t.Errorf("the IDs are %q and %q", first[0].id, changes[0].id)
		}
		w.store.Flush()
		w.pass(time.Second)
		if gone := s.next(); len(gone) != 1 || !slices.Equal(gone[0].Gone, []string{"lock:a", "lock:b"}) ||
			gone[0].Totals.Locks != 0 || gone[0].Totals.Lost != 1 {
			t.Errorf("no record is left: %+v", gone)
		}
		s.leave()
		<-s.done
	})
}

func tokenText(l *holdfast.Lease) string { return strconv.FormatUint(l.Token(), 10) }

func TestAViewerThatConnectsAgainGetsAFullSnapshot(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		a := w.lock("a")
		s := w.view()
		w.pass(time.Second)
		s.leave()
		<-s.done
		w.release(a)
		w.lock("b")
		again := w.view()
		w.pass(2 * time.Second)
		known := map[string]lockJSON{}
		events := again.next()
		assert.Equal(t, events[0].name, "snapshot", "the first event is a")
		replay(t, known, events)
		assert.True(t, !known["lock:a"].Held && known["lock:b"].Held,
			"want a free and b held, got %+v", known)
		again.leave()
		<-again.done
	})
}

// A viewer that gets every difference knows what a new one gets as a snapshot.
func TestDifferencesAddUpToTheSnapshot(t *testing.T) {
	bubble(t, Config{Interval: 100 * time.Millisecond}, func(t *testing.T, w *world) {
		s := w.view()
		known := map[string]lockJSON{}
		seq := uint64(0)
		for i := range 60 {
			l := w.lock("lock/" + strconv.Itoa(i%7))
			w.pass(time.Duration(37+i) * time.Millisecond)
			if i%3 == 0 {
				w.pass(time.Second)
			}
			w.release(l)
			if i == 40 {
				w.store.Flush()
			}
			events := s.next()
			for _, e := range events {
				if e.name == "change" && e.Seq != seq+1 {
					t.Fatalf("%d follows %d", e.Seq, seq)
				}
				seq = max(seq, e.Seq)
			}
			replay(t, known, events)
		}
		w.pass(time.Second)
		replay(t, known, s.next())
		other, full := w.view(), map[string]lockJSON{}
		replay(t, full, other.next())
		if len(known) == 0 || !reflect.DeepEqual(known, full) {
			t.Errorf("%q\nwant %q", sorted(known), sorted(full))
		}
	})
}

func TestASlowViewerGetsASnapshotInPlaceOfWhatItMissed(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		leave := w.page.watcher.join()
		defer leave()
		w.pass(time.Second)
		slow := &viewer{page: w.page, begun: true, sent: w.page.watcher.seq}
		for range keptChanges + 5 {
			l := w.lock("a")
			w.pass(time.Second)
			w.release(l)
			w.pass(time.Second)
		}
		assert.Equal(t, len(w.page.watcher.changes), keptChanges, "changes kept")
		s := &stream{t: t, header: map[string][]string{}}
		slow.w, slow.out = s, nil
		news, name, parts := slow.missing()
		assert.True(t, name == "snapshot" && len(parts) == 1 && slow.sent == w.page.watcher.seq,
			"%s, %d parts, at %d of %d", name, len(parts), slow.sent, w.page.watcher.seq)
		w.lock("b")
		<-news
		w.pass(time.Second)
		_, name, parts = slow.missing()
		assert.True(t, name == "change" && len(parts) == 1, "%s, %d parts", name, len(parts))
	})
}

func TestAllViewersShareTheReadsAndNobodyLookingPausesThem(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		if w.pass(time.Minute); w.reads() != 0 {
			t.Errorf("%d reads, and nobody has looked", w.reads())
		}
		viewers := []*stream{w.view(), w.view(), w.view()}
		w.pass(10 * time.Second)
		n := w.reads()
		assert.True(t, n >= 10 && n <= 12, "%d reads in ten seconds", n)
		for _, s := range viewers {
			if len(s.next()) < 2 { // a snapshot, and a tick
				t.Error("a viewer heard nothing")
			}
			s.leave()
			<-s.done
		}
		w.pass(idleAfter + 2*time.Second)
		before := w.reads()
		w.pass(time.Hour)
		assert.True(t, w.reads() == before, "%d reads, and nobody looks", w.reads()-before)
		w.lock("late")
		var list listJSON
		w.get("/api/locks", &list)
		assert.True(t, len(list.Locks) == 1, "after the pause: %+v", list.Locks)
	})
}

func (w *world) reads() uint64 {
	synctest.Wait()
	w.page.watcher.mu.Lock()
	defer w.page.watcher.mu.Unlock()
	return w.page.watcher.reads.count
}

func TestSlowReadsTakeAFifthOfTheTime(t *testing.T) {
	bubble(t, Config{KeepWatching: true}, func(t *testing.T, w *world) {
		w.lock("a")
		w.store.FailRequest(func(string, []string) error {
			time.Sleep(500 * time.Millisecond)
			return nil
		})
		w.pass(time.Minute)
		before, began := w.reads(), w.spent()
		w.pass(10 * time.Minute)
		n, spent := w.reads()-before, w.spent()-began
		assert.True(t, n != 0 && spent >= 30*time.Second && spent <= 2*time.Minute+10*time.Second,
			"%d reads took %v of ten minutes", n, spent)
		w.store.FailRequest(nil)
	})
}

func (w *world) spent() time.Duration {
	w.page.watcher.mu.Lock()
	defer w.page.watcher.mu.Unlock()
	return w.page.watcher.reads.total
}

// Behind a proxy, the connection of a HEAD serves other requests next.
func TestAHeadOfTheStreamEnds(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		answer := serve(w.page, request(http.MethodHead, "/api/events", nil))
		assert.True(t, answer.Code == http.StatusOK && answer.Body.Len() == 0, "%d, %s", answer.Code, answer.Body)
		assert.Equal(t, answer.Header().Get("Content-Type"), "text/event-stream", "the type")
	})
}

func TestTooManyLocksAreLeftOutFreeOnesFirst(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.page.watcher.most = 20
		for i := range 12 {
			w.lock("held/" + strconv.Itoa(i))
		}
		for i := range 40 {
			w.release(w.lock("free/" + strconv.Itoa(i)))
		}
		s := w.view()
		w.pass(10 * time.Second)
		events := s.next()
		last := events[len(events)-1]
		assert.True(t, last.Read.Cut && last.Totals.Held == 12 && last.Totals.Locks == 22 && last.Totals.Lost == 0,
			"%+v", last)
		for _, e := range events {
			assert.Equal(t, len(e.Gone), 0, "%q are told to be gone", e.Gone)
		}
		for i := range 20 { // what is known and in use stays; eight more fit
			w.lock("new/" + strconv.Itoa(i))
		}
		w.pass(10 * time.Second)
		events = s.next()
		last = events[len(events)-1]
		assert.True(t, last.Read.Cut && last.Totals.Held == 20 && last.Totals.Lost == 0,
			"want a list that is cut at 20 held locks, got %+v", last)
	})
}

func TestTwoClocksDoNotMakeAWaiterSeemToChange(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	state := func(waited time.Duration) holdfast.LockInfo {
		return holdfast.LockInfo{Name: "a", Waiters: []holdfast.Waiter{{Position: 1, HolderID: "c/1", Waited: waited}}}
	}
	first := newLock(state(time.Second), now, nil)
	second := newLock(state(2*time.Second), now.Add(time.Second+7*time.Millisecond), first)
	a, b := string(encode(first)), string(encode(second))
	assert.True(t, a == b, "%s\n%s", a, b)
	third := newLock(state(time.Second), now.Add(time.Minute), first) // it waits anew
	assert.True(t, first.Waiters[0].Since != third.Waiters[0].Since, "another wait has the same beginning")
}

func TestASilentWaiterDoesNotCount(t *testing.T) {
	l := newLock(holdfast.LockInfo{Name: "a", Waiters: []holdfast.Waiter{
		{Position: 1, HolderID: "c/1", Silent: true}, {Position: 2, HolderID: "c/2"},
	}}, time.Unix(1_000_000, 0), nil)
	assert.True(t, l.Waiting == 1 && len(l.Waiters) == 1 && l.Waiters[0].ID == "c/2", "%+v", l)
}

func TestKeepWatchingReadsWhileNobodyLooks(t *testing.T) {
	bubble(t, Config{KeepWatching: true}, func(t *testing.T, w *world) {
		if w.pass(time.Minute); w.reads() < 59 {
			t.Errorf("%d reads in a minute", w.reads())
		}
	})
}

func TestAServerThatDoesNotAnswerIsToldAndTheLastStateStays(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.lock("a")
		s := w.view()
		w.pass(time.Second)
		s.next()
		down := errors.New("the cable is out")
		w.store.FailRequest(func(string, []string) error { return down })
		w.pass(20 * time.Second)
		events := s.next()
		assert.MustTrue(t, len(events) != 0 && events[len(events)-1].Read.Error != "" && events[0].Totals.Held == 1,
			"%+v", events)
		assert.EqualSlices(t, names(events), []string{"change"}, "what is told of one failure")
		w.store.FailRequest(nil)
		w.pass(time.Minute)
		events = s.next()
		last := events[len(events)-1]
		assert.True(t, last.Read.Error == "" && last.Totals.Held == 1, "%+v", last)
	})
}

func TestCloseEndsTheStreamsAndTheReads(t *testing.T) {
	bubble(t, Config{KeepWatching: true}, func(t *testing.T, w *world) {
		s := w.view()
		w.pass(time.Second)
		w.page.Close()
		<-s.done
		before := w.reads()
		late := w.view()
		<-late.done
		w.pass(time.Minute)
		assert.True(t, w.reads() == before, "a closed page reads")
	})
}

func TestANewConfigIsChecked(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		for _, cfg := range []Config{{Token: "short"}, {Interval: -1}, {Interval: time.Microsecond}} {
			if p, err := New(w.client, cfg); err == nil {
				p.Close()
				t.Errorf("%+v is accepted", cfg)
			}
		}
		assert.True(t, assert.Err(New(nil, Config{})) != nil, "no client is accepted")
	})
}

func TestAWaiterIsTold(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		held := w.lock("a")
		s := w.view()
		w.pass(time.Second)
		s.next()
		other := w.newClient("other")
		got := make(chan *holdfast.Lease, 1)
		go func() {
			l, err := other.Mutex("a").Lock(context.Background())
			assert.NoError(t, err)
			got <- l
		}()
		w.pass(2 * time.Second)
		known := map[string]lockJSON{}
		replay(t, known, s.next())
		l := known["lock:a"]
		assert.True(t, l.Waiting == 1 && l.Waiters[0].App == "other" && l.Waiters[0].Position != 0, "%+v", l)
		w.pass(3 * time.Second)
		more := names(s.next())
		assert.True(t, len(more) == 0, "the waiter waits on, and there are %q", more)
		w.release(held)
		next := <-got
		w.pass(2 * time.Second)
		replay(t, known, s.next())
		l = known["lock:a"]
		assert.True(t, l.Waiting == 0 && l.Holders[0].Token == tokenText(next), "%+v", l)
		d := w.detail("a")
		if len(d.Timeline.Holds) != 2 || d.Timeline.Holds[0].How != endReleased ||
			d.Timeline.Holds[0].End != d.Timeline.Holds[1].Start {
			t.Errorf("%+v", d.Timeline.Holds)
		}
	})
}
