package sim

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
)

// world is one simulation. All of it but the inbox belongs to the scheduler.
type world struct {
	seed  uint64
	rng   *rand.Rand
	born  time.Time
	store *memstore.Store
	plan
	truth

	agenda agenda
	taken  map[time.Duration]bool // instants that an event has already
	links  []*link
	users  []*user
	quiet  bool // no new rounds, no new faults
	down   time.Duration
	health time.Duration // the last fault was over by then
	excuse time.Duration // until then a broken assumption explains what is believed
	steps  []forward     // of the server's clock

	copies time.Duration // until then copies are made of requests

	refuses time.Duration // until then the server refuses
	word    string        // with this word
	spans   []span

	names  *strings.Replacer // of clients, for their IDs
	log    []byte
	fault  string // the first violation
	wrong  int    // how long the log was by then
	counts map[string]int

	// mu guards what other goroutines leave for the scheduler.
	mu    sync.Mutex
	inbox []arrival
	bell  chan struct{}
}

// arrival is something that the scheduler is to take note of. Those of one instant are
// taken in the order of what they say.
type arrival struct {
	from *link
	says string
	take func()
}

// event happens at an instant that no other event has.
type event struct {
	at   time.Duration
	says string
	do   func()
}

type agenda []event

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at < a[j].at }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)        { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*a = old[:len(old)-1]
	return last
}

// simulate lives one world to its end, and answers it.
func simulate(t *testing.T, seed uint64) *world {
	t.Helper()
	var w *world
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(seed)
		w.live()
		w.end()
	})
	return w
}

func newWorld(seed uint64) *world {
	w := &world{
		seed: seed, rng: source(seed), born: time.Now(), store: newStore(),
		taken: map[time.Duration]bool{}, counts: map[string]int{},
		names: strings.NewReplacer(), bell: make(chan struct{}, 1),
	}
	w.plan = w.draw()
	w.delays()
	w.truth.locks = map[string]*record{}
	w.store.SetClock(w.serverClock)
	for range w.processes {
		w.boot()
	}
	w.at(w.storm, "quiet", w.calmDown)
	w.upset()
	return w
}

// newStore makes the server. It draws from the source that naming guards.
func newStore() *memstore.Store {
	naming.Lock()
	defer naming.Unlock()
	return memstore.New()
}

// source is what a world draws from.
func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func (w *world) now() time.Duration { return time.Since(w.born) }

// era is between the year in which virtual time begins, 2000, and one in which tokens
// have 16 digits, which they get in 2001 and the scripts count on.
const era = 25 * 365 * 24 * time.Hour

// serverClock runs at a rate of its own, and may be set.
func (w *world) serverClock() time.Time {
	return w.born.Add(era + w.stepped + time.Duration(float64(time.Since(w.born))*w.rate))
}

// in has something happen after a delay.
func (w *world) in(delay time.Duration, says string, do func()) { w.at(w.now()+delay, says, do) }

// at has something happen at an instant, or right after what has that instant already.
func (w *world) at(at time.Duration, says string, do func()) {
	at = max(at, w.now())
	for w.taken[at] {
		at++
	}
	w.taken[at] = true
	heap.Push(&w.agenda, event{at, says, do})
}

// arrive is called by any goroutine.
func (w *world) arrive(from *link, says string, take func()) {
	w.mu.Lock()
	w.inbox = append(w.inbox, arrival{from, says, take})
	w.mu.Unlock()
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// settle waits until every goroutine sleeps, and takes what has arrived.
func (w *world) settle() {
	for {
		synctest.Wait()
		w.mu.Lock()
		box := w.inbox
		w.inbox = nil
		w.mu.Unlock()
		if len(box) == 0 {
			return
		}
		for i := range box {
			box[i].says = w.plain(box[i].says)
		}
		slices.SortStableFunc(box, func(a, b arrival) int { return cmp.Compare(a.says, b.says) })
		for _, a := range box {
			// What a process still says that has crashed is no part of the history.
			if !a.from.dead {
				w.note(a.says)
			}
			a.take()
		}
	}
}

// live runs until nobody has anything left to do, or something is wrong.
func (w *world) live() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for w.settle(); w.fault == "" && (!w.quiet || !w.idle()); w.settle() {
		if w.check(); w.fault != "" {
			return
		}
		if len(w.agenda) == 0 {
			<-w.bell
			continue
		}
		if left := w.agenda[0].at - w.now(); left > 0 {
			timer.Reset(left)
			select {
			case <-timer.C:
			case <-w.bell:
			}
			continue // what has arrived by now comes first
		}
		w.next()
	}
}

// next lets the next event happen.
func (w *world) next() {
	e := heap.Pop(&w.agenda).(event)
	delete(w.taken, e.at)
	w.note(e.says)
	e.do()
}

// run goes on for some time, whatever happens in it.
func (w *world) run(d time.Duration) {
	over := false
	w.in(d, "time passes", func() { over = true })
	for !over {
		w.settle()
		if left := w.agenda[0].at - w.now(); left > 0 {
			timer := time.NewTimer(left)
			select {
			case <-timer.C:
			case <-w.bell:
			}
			timer.Stop()
			continue
		}
		w.next()
	}
	w.settle()
}

// calmDown begins the end: nobody begins a new round, nothing breaks any more, and
// every waiter must be served.
func (w *world) calmDown() {
	w.quiet = true
	w.loss, w.refusal, w.double, w.late, w.repeats, w.copies = 0, 0, 0, 0, 0, 0
	for _, l := range w.links {
		l.swallows = 0
	}
	w.in(w.patience(), "too late", func() {
		for _, u := range w.users {
			if !u.done() {
				w.violatef("I7: %s still wants %s, %v after the last fault", u, u.lock.name, w.patience())
			}
		}
	})
}

// idle says whether every user is done.
func (w *world) idle() bool {
	return !slices.ContainsFunc(w.users, func(u *user) bool { return !u.done() })
}

// end closes everything and asserts that nothing is left.
func (w *world) end() {
	w.quiet = true
	w.met()
	for _, u := range w.users {
		u.dismiss()
	}
	for _, l := range w.links {
		if !l.dead {
			go func() { _ = l.client.Close(context.Background()) }()
		}
	}
	w.run(2 * w.patience())
	for _, u := range w.users {
		close(u.work)
	}
	if w.fault != "" {
		return
	}
	w.nothingHeld()
	w.run(20 * time.Minute)
	if keys := w.store.Keys(); len(keys) > 0 {
		w.violatef("I2: left behind: %q", keys)
	}
}

// violatef notes the first violation.
func (w *world) violatef(format string, args ...any) {
	if w.fault == "" {
		w.fault = w.plain(fmt.Sprintf(format, args...))
		w.note("VIOLATED " + w.fault)
		w.wrong = len(w.log)
	}
}

func (w *world) note(says string) {
	if says == "" {
		return
	}
	w.log = fmt.Appendf(w.log, "%13d %s\n", w.now(), says)
}

// plain writes clients by their numbers: their IDs are another in each run.
func (w *world) plain(s string) string { return w.names.Replace(s) }

// chance is true once in so many times on average; never for 0.
func (w *world) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// upTo is a random duration with the nanoseconds that keep instants apart.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d) + 1)) }

func pick[T any](w *world, list ...T) T { return list[w.rng.IntN(len(list))] }
