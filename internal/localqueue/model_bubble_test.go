package localqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// answer is what a caller of TakeTurn gets, or what the model expects.
type answer struct {
	given  bool
	turn   bool
	joined bool
	hold   *hold
	do     Decision
	err    error
}

// actor is a caller of TakeTurn, in the queue and in the model.
type actor struct {
	*caller
	class Class
	want  answer
	at    bool // it has the turn, and waits at the server
}

func (a *actor) got() answer {
	if !a.done {
		return answer{}
	}
	if t := a.turn; t.Joined { // its decision has no effect
		return answer{given: true, joined: true, hold: t.Hold}
	}
	return answer{true, !a.turn.None(), false, a.turn.Hold, a.turn.Do, a.err}
}

// model is one lock, in slices and without concurrency: what the queue must do.
type model struct {
	owner   [classes]*actor
	queue   [classes][]*actor
	tries   [classes][]*actor
	hold    *hold // that readers may join
	waits   [classes]bool
	refusal [classes]error // what the server told the owner that waits; nil: nothing
}

// take gives the turn to a. For a reader it returns what the reader does with it.
func (m *model) take(a *actor) {
	m.owner[a.class] = a
	a.want = answer{given: true, turn: true}
	if a.class == Shared {
		a.want.hold, a.want.do = m.decide()
	}
}

func (m *model) decide() (*hold, Decision) {
	switch {
	case m.owner[Exclusive] != nil:
		return nil, Wait
	case m.hold == nil:
		return nil, Ask
	case m.hold.stale:
		return m.hold, Check
	case m.hold.over:
		return nil, Ask
	}
	return m.hold, Share
}

func (m *model) join(a *actor, h *hold) {
	a.want = answer{given: true, joined: true, hold: h}
}

// enter is TakeTurn.
func (m *model) enter(a *actor, try bool) {
	if a.class == Shared {
		if h, do := m.decide(); do == Share {
			m.join(a, h)
			return
		}
	}
	switch {
	case m.owner[a.class] == nil:
		m.take(a)
	case !try:
		m.queue[a.class] = append(m.queue[a.class], a)
	case a.class == Exclusive && m.owner[Exclusive].want.hold != nil:
		a.want = answer{given: true, err: errRefused}
	case m.waits[a.class]:
		a.want = answer{given: true, err: m.refusal[a.class]}
	default:
		m.tries[a.class] = append(m.tries[a.class], a)
	}
}

// checkAgain answers the tries of a class: with err, or they check again if that is nil.
func (m *model) checkAgain(c Class, err error) {
	tries := m.tries[c]
	m.tries[c] = nil
	for _, try := range tries {
		if err != nil {
			try.want = answer{given: true, err: err}
		} else {
			m.enter(try, true)
		}
	}
}

// passOn is PassOnWith, and PassOn without an error.
func (m *model) passOn(c Class, err error) {
	m.waits[c], m.refusal[c] = false, nil
	m.owner[c] = nil
	if len(m.queue[c]) > 0 {
		next := m.queue[c][0]
		m.queue[c] = m.queue[c][1:]
		m.owner[c] = next
		m.take(next)
		if next.want.do == Share && c == Shared {
			m.join(next, next.want.hold)
			m.passOn(c, nil)
		}
	}
	m.checkAgain(c, err)
}

// share is Turn.Share.
func (m *model) share(h *hold) {
	if !h.over {
		m.hold = h
		for _, a := range slices.Concat(m.tries[Shared], m.queue[Shared]) {
			m.join(a, h)
		}
		m.tries[Shared], m.queue[Shared] = nil, nil
	}
	m.passOn(Shared, nil)
}

// giveUp is the end of a caller's context.
func (m *model) giveUp(a *actor) {
	a.want = answer{given: true, err: context.Canceled}
	is := func(b *actor) bool { return a == b }
	m.queue[a.class] = slices.DeleteFunc(m.queue[a.class], is)
	m.tries[a.class] = slices.DeleteFunc(m.tries[a.class], is)
}

// waiters are all actors that wait.
func (m *model) waiters() []*actor {
	return slices.Concat(slices.Concat(m.queue[:]...), slices.Concat(m.tries[:]...))
}

// run is the queue and its model in one random sequence.
type run struct {
	*fixture
	model
	rng   *rand.Rand
	names int
	holds []*hold
	all   []*actor
}

// step does one thing to both.
func (r *run) step() string {
	switch n := r.rng.IntN(10); {
	case n < 4:
		return r.arrive(Class(r.rng.IntN(int(classes))), r.rng.IntN(3) == 0)
	case n < 5 && len(r.waiters()) > 0:
		a := r.waiters()[r.rng.IntN(len(r.waiters()))]
		r.giveUp(a)
		a.cancel()
		return "cancel"
	case n < 6:
		return r.end()
	case n < 7 && r.owner[Exclusive] != nil:
		return r.exclusive(r.owner[Exclusive])
	case n < 8 && r.owner[Permits] != nil:
		r.turn(Permits).PassOn()
		r.model.passOn(Permits, nil)
		return "leave permits"
	case r.owner[Shared] != nil:
		return r.shared(r.owner[Shared])
	}
	return "nothing"
}

// turn is the turn of a class, as TakeTurn has answered it or by its key.
func (r *run) turn(c Class) Turn[*hold, string] {
	if r.rng.IntN(2) == 0 {
		return r.Turn("a", c)
	}
	return r.owner[c].turn
}

func (r *run) arrive(c Class, try bool) string {
	if len(r.tries[c]) > 0 {
		try = false // if two check again, either may be the first
	}
	r.names++
	a := &actor{class: c}
	r.all = append(r.all, a)
	r.model.enter(a, try)
	a.caller = r.fixture.enter("a", c, fmt.Sprint(r.names), try)
	return fmt.Sprintf("enter class %d, try %v", c, try)
}

func (r *run) newHold() *hold {
	h := &hold{id: len(r.holds), limit: r.rng.IntN(4), over: r.rng.IntN(5) == 0}
	r.holds = append(r.holds, h)
	return h
}

// end ends the hold that readers may join, makes it stale, or replaces it.
func (r *run) end() string {
	switch h := r.model.hold; {
	case h == nil:
		h = r.newHold()
		r.Queue.Share("a", h)
		if !h.over {
			r.model.hold = h
		}
		return "share a hold"
	case r.rng.IntN(3) > 0:
		h.stale = !h.stale
		return "stale"
	default:
		h.over = true
		r.Unshare("a", h)
		r.model.hold = nil
		return "unshare"
	}
}

func (r *run) exclusive(a *actor) string {
	h, turn := a.want.hold, r.turn(Exclusive)
	if h == nil && !a.at && r.rng.IntN(3) == 0 {
		turn.Waiting(errRefused)
		a.at, r.waits[Exclusive], r.refusal[Exclusive] = true, true, errRefused
		r.checkAgain(Exclusive, errRefused)
		return "wait at the server"
	}
	if h == nil {
		h = r.newHold()
	}
	turn.SetHold(h)
	r.waits[Exclusive], r.refusal[Exclusive] = false, nil
	r.checkAgain(Exclusive, errRefused)
	synctest.Wait() // until they have found the hold
	may := len(r.queue[Exclusive]) > 0 && h.handed < h.limit
	if may {
		next := r.queue[Exclusive][0]
		r.queue[Exclusive] = r.queue[Exclusive][1:]
		r.model.take(next)
		next.want.hold = h
	}
	if turn.HandOver(h) != may {
		a.want = answer{} // which it is not
	}
	if may {
		return "hand over"
	}
	turn.PassOn()
	r.model.passOn(Exclusive, nil)
	return "leave"
}

func (r *run) shared(a *actor) string {
	switch n := r.rng.IntN(4); {
	case n == 0 && !a.at:
		err := []error{errRefused, nil}[r.rng.IntN(2)]
		r.turn(Shared).Waiting(err)
		a.at, r.waits[Shared], r.refusal[Shared] = true, true, err
		r.checkAgain(Shared, err)
		return fmt.Sprintf("wait at the server after %v", err)
	case n == 1:
		err := []error{errRefused, nil}[r.rng.IntN(2)]
		r.turn(Shared).PassOnWith(err)
		r.model.passOn(Shared, err)
		return fmt.Sprintf("leave with %v", err)
	}
	h := r.newHold()
	if a.want.do == Check && r.rng.IntN(2) == 0 {
		h = a.want.hold
	}
	r.turn(Shared).Share(h)
	r.model.share(h)
	return "share"
}

// check compares every caller with the model.
func (r *run) check() error {
	synctest.Wait()
	for i, a := range r.all {
		if got := a.got(); got != a.want {
			return fmt.Errorf("caller %d of class %d: got %+v, want %+v", i, a.class, got, a.want)
		}
	}
	for c := range classes {
		if busy := r.Busy("a", c); busy != (r.owner[c] != nil) {
			return fmt.Errorf("class %d: busy %v", c, busy)
		}
	}
	r.all = slices.DeleteFunc(r.all, func(a *actor) bool { return a.done && r.owner[a.class] != a })
	return nil
}

// Whatever happens, in whatever order, each caller gets the answer of a model without
// concurrency.
func TestTheQueueDoesWhatItsModelDoes(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			r := &run{fixture: newFixture(), rng: rand.New(rand.NewPCG(seed, 1))}
			var steps []string
			for range 60 {
				steps = append(steps, r.step())
				if err := r.check(); err != nil {
					t.Fatalf("seed %d: %v after %q", seed, err, steps)
				}
			}
			for _, a := range r.waiters() {
				r.giveUp(a)
				a.cancel()
			}
			synctest.Wait()
			for c, owner := range r.owner {
				if owner != nil {
					owner.turn.PassOn()
					r.model.passOn(Class(c), nil)
				}
			}
			if h := r.model.hold; h != nil {
				r.Unshare("a", h)
			}
			r.wantEmpty(t)
		})
	}
}

// Goroutines that come, go and give up at the same time exclude each other, lose no turn, and
// leave nothing behind.
func TestGoroutinesThatRaceExcludeEachOtherAndLeaveNothing(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture()
			var inside [classes]sync.Mutex // a second one inside finds it locked
			var mu sync.Mutex
			var held []*hold
			var all sync.WaitGroup
			for i := range uint64(24) {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(seed, i))
					for range 40 {
						c := Class(rng.IntN(int(classes)))
						ctx, cancel := context.WithCancel(t.Context())
						yields := rng.IntN(20)
						all.Go(func() {
							for range yields {
								runtime.Gosched()
							}
							cancel()
						})
						turn, err := f.TakeTurn(ctx, "a", c, "", rng.IntN(3) == 0)
						if err != nil || turn.None() {
							if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errRefused) {
								t.Errorf("got %v", err)
							}
							continue
						}
						if turn.Joined {
							f.part(turn.Hold)
							continue
						}
						if !inside[c].TryLock() {
							t.Errorf("class %d: two have the turn", c)
							return
						}
						runtime.Gosched()
						h := turn.Hold
						if h == nil {
							h = &hold{limit: 3}
							mu.Lock()
							held = append(held, h)
							mu.Unlock()
						}
						inside[c].Unlock()
						use(f, turn, h, rng)
					}
				})
			}
			all.Wait()
			for _, h := range held {
				if h.readers != 0 || h.released > 1 {
					t.Errorf("seed %d: %d readers are left, released %d times", seed, h.readers, h.released)
				}
			}
			f.wantEmpty(t)
		})
	}
}

// use does what a goroutine with the turn does, and leaves the turn.
func use(f *fixture, turn Turn[*hold, string], h *hold, rng *rand.Rand) {
	switch {
	case turn.class == Permits:
		turn.PassOn()
	case turn.class == Exclusive:
		turn.SetHold(h)
		if !turn.HandOver(h) {
			turn.PassOn()
		}
	case rng.IntN(3) == 0:
		turn.PassOnWith(errRefused)
	default:
		if rng.IntN(2) == 0 {
			turn.Waiting([]error{errRefused, nil}[rng.IntN(2)])
			runtime.Gosched()
		}
		h.mu.Lock()
		h.readers++
		h.mu.Unlock()
		turn.Share(h)
		f.part(h)
	}
}
