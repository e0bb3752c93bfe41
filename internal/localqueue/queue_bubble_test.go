package localqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/internal/assert"
)

var (
	errRefused = errors.New("refused")
	errClosed  = errors.New("closed")
)

// hold is the type of holds in these tests.
type hold struct {
	id int

	mu       sync.Mutex
	stale    bool // a reader must ask before it joins
	over     bool // no reader may join it
	readers  int  // reservations and members
	handed   int
	limit    int // of hand-overs
	waits    bool
	released int
}

// fixture is a queue of such holds.
type fixture struct {
	*Queue[*hold, string]

	mu      sync.Mutex // guards the fields below
	waiting []string
	again   int // how many refusals are repeated
}

func newFixture() *fixture {
	f := &fixture{}
	f.Queue = New(Rules[*hold, string]{
		Join: func(h *hold, want string, writerHere bool) Decision {
			switch {
			case writerHere:
				return Wait
			case h == nil || want == "other":
				return Ask
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.stale {
				return Check
			}
			return Share
		},
		Joinable: func(h *hold) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return !h.over
		},
		Reserve: func(h *hold) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.over {
				return false
			}
			h.readers++
			return true
		},
		Unreserve: func(h *hold) { f.part(h) },
		HandOver: func(h *hold, readersWait bool) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.waits = readersWait
			if h.handed >= h.limit {
				return false
			}
			h.handed++
			return true
		},
		Release: func(h *hold, then func()) {
			h.mu.Lock()
			h.released++
			h.mu.Unlock()
			then()
		},
		OnWait: func(_ context.Context, want string, h *hold) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.waiting = append(f.waiting, fmt.Sprint(want, h != nil))
		},
		Refuse: func(context.Context, string, *hold) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.again > 0 {
				f.again--
				return nil
			}
			return errRefused
		},
		Closed: errClosed,
	})
	return f
}

// somebodyWaits reports whether a goroutine waits for the exclusive turn.
func (f *fixture) somebodyWaits(key string) bool {
	s := f.lock(key)
	defer s.mu.Unlock()
	e := s.entries[Exclusive][key]
	return e != nil && e.queue.last != nil
}

// part ends the membership of one reader in a hold of "a".
func (f *fixture) part(h *hold) {
	h.mu.Lock()
	h.readers--
	last := h.readers == 0
	h.over = h.over || last
	h.mu.Unlock()
	if last {
		f.Unshare("a", h)
	}
}

// caller is a goroutine that has called TakeTurn.
type caller struct {
	turn   Turn[*hold, string]
	err    error
	done   bool // it has its answer
	cancel context.CancelFunc
}

// enter begins a call, and returns when it waits or has its answer.
func (f *fixture) enter(key string, c Class, want string, try bool) *caller {
	ca := f.begin(key, c, want, try)
	synctest.Wait()
	return ca
}

// begin begins a call.
func (f *fixture) begin(key string, c Class, want string, try bool) *caller {
	ca := &caller{}
	var ctx context.Context
	ctx, ca.cancel = context.WithCancel(context.Background())
	go func() {
		ca.turn, ca.err = f.TakeTurn(ctx, key, c, want, try)
		ca.done = true
	}()
	return ca
}

// wantTurn checks that the caller has the turn, with this decision.
func (ca *caller) wantTurn(t *testing.T, h *hold, do Decision) {
	t.Helper()
	synctest.Wait()
	if !ca.done || ca.err != nil || ca.turn.Joined || ca.turn.None() || ca.turn.Hold != h || ca.turn.Do != do {
		t.Errorf("want the turn with %v and %d, got %+v, %v, %v", h, do, ca.turn, ca.err, ca.done)
	}
}

func (ca *caller) wantJoined(t *testing.T, h *hold) {
	t.Helper()
	synctest.Wait()
	if !ca.done || ca.err != nil || !ca.turn.Joined || ca.turn.Hold != h {
		t.Errorf("want to have joined %v, got %+v, %v, %v", h, ca.turn, ca.err, ca.done)
	}
}

func (ca *caller) wantErr(t *testing.T, err error) {
	t.Helper()
	synctest.Wait()
	if !ca.done || !errors.Is(ca.err, err) || ca.turn != (Turn[*hold, string]{}) {
		t.Errorf("want %v, got %+v, %v, %v", err, ca.turn, ca.err, ca.done)
	}
}

func (ca *caller) wantWaiting(t *testing.T) {
	t.Helper()
	synctest.Wait()
	assert.False(t, ca.done, "want it to wait, got %+v, %v", ca.turn, ca.err)
}

// wantEmpty checks that the queue has no entry of any lock.
func (f *fixture) wantEmpty(t *testing.T) {
	t.Helper()
	for i := range f.shards {
		for c, entries := range f.shards[i].entries {
			for key, e := range entries {
				t.Errorf("class %d of %q: %+v is left", c, key, e)
			}
		}
		for key, h := range f.shards[i].uncontended {
			t.Errorf("the hold %v of %q is left", h, key)
		}
		if e := f.shards[i].spare; e != nil && *e != (entry[*hold]{}) {
			t.Errorf("the spare entry is %+v", e)
		}
	}
}

func bubble(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		test(t, f)
		synctest.Wait()
		f.wantEmpty(t)
	})
}

func TestATryIsRepeatedAsTheRulesSay(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		for _, class := range []Class{Exclusive, Permits} {
			first := f.enter("a", class, "1", true)
			first.wantTurn(t, nil, Ask)
			second := f.enter("a", class, "2", true)
			second.wantWaiting(t) // the server has not answered the first
			first.turn.PassOn()
			second.wantTurn(t, nil, Ask)
			third := f.enter("a", class, "3", true)
			told := errors.New("told")
			second.turn.Waiting(told)
			third.wantErr(t, told)
			f.enter("a", class, "4", true).wantErr(t, told)
			second.turn.PassOn()
		}
		first := f.enter("a", Exclusive, "1", true)
		second := f.enter("a", Exclusive, "2", true)
		f.again = 2
		first.turn.SetHold(&hold{})
		second.wantErr(t, errRefused)
		assert.Equal(t, f.again, 0, "tries that are left")
		assert.True(t, f.Busy("a", Exclusive), "the turn is lost")
		first.turn.PassOn()
	})
}

func TestAQueueThatClosesEndsAllWaiting(t *testing.T) {
	for _, class := range []Class{Exclusive, Permits, Shared} {
		bubble(t, func(t *testing.T, f *fixture) {
			first, second := f.enter("a", class, "1", false), f.enter("a", class, "2", false)
			f.Close()
			second.wantErr(t, errClosed)
			f.enter("a", class, "3", false).wantErr(t, errClosed)
			first.turn.PassOn()
		})
	}
}

// lateContext is a context whose end is noticed too late. When the call has seen the
// end and asks for the reason, the context first runs a function of the test.
type lateContext struct {
	context.Context
	done    chan struct{}
	between func()
}

func (c *lateContext) Done() <-chan struct{} { return c.done }

func (c *lateContext) Err() error {
	c.between()
	return context.Canceled
}

// tooLate makes a call give up, and answers it before it has left.
func (f *fixture) tooLate(t *testing.T, c Class, try bool, answer func(first Turn[*hold, string])) {
	t.Helper()
	first := f.enter("a", c, "1", false)
	ctx := &lateContext{context.Background(), make(chan struct{}), func() { answer(first.turn) }}
	second := &caller{}
	go func() {
		second.turn, second.err = f.TakeTurn(ctx, "a", c, "2", try)
		second.done = true
	}()
	synctest.Wait()
	close(ctx.done)
	second.wantErr(t, context.Canceled)
}

func TestAWaiterThatLeavesTooLatePassesTheTurnOn(t *testing.T) {
	for _, class := range []Class{Exclusive, Permits, Shared} {
		bubble(t, func(t *testing.T, f *fixture) {
			var third *caller
			f.tooLate(t, class, false, func(first Turn[*hold, string]) {
				third = f.begin("a", class, "3", false)
				first.PassOn()
			})
			third.wantTurn(t, nil, Ask)
			third.turn.PassOn()
		})
	}
}

func TestAWaiterThatLeavesTooLateAClosedQueueLeavesTheTurnAlone(t *testing.T) {
	for _, class := range []Class{Exclusive, Permits, Shared} {
		bubble(t, func(t *testing.T, f *fixture) {
			var holder Turn[*hold, string]
			f.tooLate(t, class, false, func(first Turn[*hold, string]) {
				holder = first
				f.Close()
			})
			assert.True(t, f.Busy("a", class), "it has given up the turn of another goroutine")
			holder.PassOn()
		})
	}
}

func TestAHoldForAWaiterThatLeavesTooLateGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		h := &hold{limit: 2}
		var third *caller
		f.tooLate(t, Exclusive, false, func(first Turn[*hold, string]) {
			assert.True(t, first.HandOver(h), "nobody waits")
			third = f.begin("a", Exclusive, "3", false)
			for !f.somebodyWaits("a") { // synctest.Wait is for the test's own goroutine
				runtime.Gosched()
			}
		})
		third.wantTurn(t, h, Ask)
		third.turn.PassOn()
		if h.handed != 2 || h.released != 0 {
			t.Errorf("handed over %d times, released %d times", h.handed, h.released)
		}
	})
}

func TestAHoldForAWaiterThatLeavesTooLateGoesBack(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		h := &hold{limit: 2}
		f.tooLate(t, Exclusive, false, func(first Turn[*hold, string]) {
			assert.True(t, first.HandOver(h), "nobody waits")
		})
		assert.True(t, h.released == 1, "released %d times", h.released)
	})
}

func TestAReservationForAReaderThatLeavesTooLateIsGivenBack(t *testing.T) {
	for _, try := range []bool{false, true} {
		bubble(t, func(t *testing.T, f *fixture) {
			h := &hold{readers: 1}
			f.tooLate(t, Shared, try, func(first Turn[*hold, string]) { first.Share(h) })
			assert.True(t, h.readers == 1, "%d readers are left", h.readers)
			f.part(h)
		})
	}
}

// If a reader that only tries leaves when it should check again, it has nothing to
// release.
func TestATryThatLeavesTooLateLeavesTheTurnAlone(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		var third *caller
		f.tooLate(t, Shared, true, func(first Turn[*hold, string]) {
			first.PassOn()
			third = f.begin("a", Shared, "3", false)
		})
		third.wantTurn(t, nil, Ask)
		third.turn.PassOn()
	})
}

func TestReadersJoinAHold(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		h := &hold{}
		first := f.enter("a", Shared, "1", false)
		first.wantTurn(t, nil, Ask)
		second, try := f.enter("a", Shared, "2", false), f.enter("a", Shared, "3", true)
		third := f.enter("a", Shared, "4", false)
		try.wantWaiting(t) // for the answer to the first
		first.turn.Share(h)
		second.wantJoined(t, h)
		try.wantJoined(t, h)
		third.wantJoined(t, h)
		f.enter("a", Shared, "5", true).wantJoined(t, h)
		if h.readers != 4 || f.Busy("a", Shared) {
			t.Errorf("%d readers, busy: %v", h.readers, f.Busy("a", Shared))
		}
		// A reader that wants another hold asks, and does not join this one.
		other := f.enter("a", Shared, "other", false)
		other.wantTurn(t, nil, Ask)
		other.turn.PassOn()
		h.over = true
		last := f.enter("a", Shared, "6", false)
		last.wantTurn(t, nil, Ask) // the hold has ended, and Unshare has not been called yet
		f.Unshare("a", &hold{})
		f.Unshare("a", h)
		last.turn.Share(h) // too late
	})
}

func TestAReaderThatTriesIsToldWhatTheServerSaid(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		first := f.enter("a", Shared, "1", false)
		told := errors.New("told")
		for i, answer := range []func(error){first.turn.Waiting, first.turn.PassOnWith} {
			if try := f.enter("a", Shared, "2", true); i == 0 {
				answer(told)
				try.wantErr(t, told)
				f.again = 1
				f.enter("a", Shared, "3", true).wantErr(t, errRefused) // it waits there
				first.turn.PassOn()
				first = f.enter("a", Shared, "4", false)
			} else {
				first.turn.PassOnWith(told)
				try.wantErr(t, told)
			}
		}
		// A silent server answers no reader: the try asks itself.
		first = f.enter("a", Shared, "5", false)
		try := f.enter("a", Shared, "6", true)
		first.turn.Waiting(nil)
		synctest.Wait()
		if !try.done || try.err != nil || !try.turn.None() {
			t.Errorf("got %+v, %v", try.turn, try.err)
		}
		first.turn.PassOn()
	})
}

func TestAReaderDoesWhatIsRightWhenItsTurnComes(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		h := &hold{stale: true}
		f.Share("a", &hold{over: true}) // is not shared
		f.wantEmpty(t)
		f.Share("a", h)
		f.Share("a", &hold{}) // there is one
		first := f.enter("a", Shared, "1", false)
		first.wantTurn(t, h, Check)
		second, third := f.enter("a", Shared, "2", false), f.enter("a", Shared, "3", false)
		h.stale = false
		first.turn.PassOn()
		second.wantJoined(t, h)
		third.wantJoined(t, h)
		writer := f.enter("a", Exclusive, "w", false)
		fourth := f.enter("a", Shared, "4", false)
		fourth.wantTurn(t, nil, Wait)
		fifth := f.enter("a", Shared, "5", false)
		writer.turn.PassOn()
		h.stale = true
		fourth.turn.PassOn()
		fifth.wantTurn(t, h, Check)
		fifth.turn.PassOn()
		f.Unshare("a", h)
	})
}

// A hold that nobody waits for needs no entry, however it ends and whoever comes meanwhile.
func TestAHoldWithoutWaitersHasNoEntry(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		h := &hold{limit: 1}
		isUncontended := func(want bool) {
			t.Helper()
			s := f.lock("a")
			defer s.mu.Unlock()
			e := s.entries[Exclusive]["a"]
			if (e == nil) != want || !s.busy(Exclusive, "a") || (s.uncontended["a"] == h) != want {
				t.Errorf("want a hold without an entry: %v; got %v, %v", want, e, s.uncontended)
			}
		}
		first := f.enter("a", Exclusive, "1", false)
		first.turn.SetHold(h)
		isUncontended(true)
		assert.False(t, f.Turn("a", Exclusive).HandOver(h), "handed over to nobody")
		reader := f.enter("a", Shared, "r", false)
		reader.wantTurn(t, nil, Wait)
		reader.turn.PassOn()
		f.enter("a", Exclusive, "2", true).wantErr(t, errRefused)
		second := f.enter("a", Exclusive, "3", false)
		isUncontended(false)
		assert.True(t, first.turn.HandOver(h), "not handed over")
		second.wantTurn(t, h, Ask)
		second.turn.PassOn()
		f.enter("a", Exclusive, "4", false).turn.SetHold(h)
		f.Turn("a", Exclusive).PassOn()
		f.enter("a", Exclusive, "5", true).turn.PassOn()
	})
}
