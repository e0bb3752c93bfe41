package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/verify/history"
)

// The workloads.
const (
	Mutex     = "mutex"     // one lock, acquired and released
	Update    = "update"    // an unsafe read-modify-write under a lock, with and without fencing
	Semaphore = "semaphore" // permits
	ReadWrite = "readwrite" // readers and writers
	Cancel    = "cancel"    // acquisitions whose context ends at a random point
	Crowd     = "crowd"     // many goroutines of every process want one lock
	Long      = "long"      // a hold of many leases
	Election  = "election"  // leaders and observers
	Period    = "period"    // a job that runs once per period
	Owners    = "owners"    // a reentrant lock that is taken in the names of owners
	Line      = "line"      // a wait queue that is never empty
	Many      = "many"      // very many locks
	Thousand  = "thousand"  // a thousand waiters on one lock
	Least     = "least"     // a lock with a minimum time of a hold
	Evict     = "evict"     // operators, and attempts that must be refused
	Drop      = "drop"      // leases that a program loses sight of
	Quick     = "quick"     // many locks at the same time, each released at once
	Delayed   = "delayed"   // a lock with a lock-delay
)

// Permits is the limit of the semaphore.
const Permits = 3

// workload is what a goroutine does again and again.
type workload struct {
	about  string
	number int
	crew   int           // goroutines in each process
	apart  bool          // crew is over all processes, and leaves too little of the machine to others
	rest   time.Duration // longest pause between two turns
	turn   func(w *worker, ctx context.Context)
}

// works has them by name.
func works() map[string]workload {
	return map[string]workload{
		Mutex:     {"one lock, acquired and released", 1, 2, false, 40 * time.Millisecond, (*worker).mutex},
		Update:    {"read-modify-write, fenced and unfenced", 2, 1, false, 20 * time.Millisecond, (*worker).update},
		Semaphore: {"permits of a semaphore", 3, 2, false, 40 * time.Millisecond, (*worker).semaphore},
		ReadWrite: {"readers together, writers alone", 4, 3, false, 40 * time.Millisecond, (*worker).readWrite},
		Cancel:    {"contexts that end at random points", 5, 1, false, 60 * time.Millisecond, (*worker).cancel},
		Crowd:     {"many goroutines at one lock", 6, 12, false, 400 * time.Millisecond, (*worker).crowd},
		Long:      {"long holds with many renewals", 7, 1, false, 50 * time.Millisecond, (*worker).long},
		Election:  {"leaders and observers", 8, 2, false, 30 * time.Millisecond, (*worker).election},
		Period:    {"a job that runs once per period", 9, 1, false, 100 * time.Millisecond, (*worker).period},
		Owners:    {"entries of named owners", 10, 2, false, 40 * time.Millisecond, (*worker).owners},
		Line:      {"a wait queue that is never empty", 11, 2, false, 10 * time.Millisecond, (*worker).line},
		Many:      {"10,000 locks", 12, 4, false, 160 * time.Millisecond, (*worker).many},
		Thousand:  {"1,000 waiters on one lock; only if named", 13, waiters, true, time.Second, (*worker).thousand},
		Least:     {"locks with a minimum time of a hold", 14, 1, false, 40 * time.Millisecond, (*worker).least},
		Evict:     {"evictions, and requests to refuse", 15, 3, false, 300 * time.Millisecond, (*worker).evict},
		Drop:      {"leases dropped without a release", 16, 1, false, 200 * time.Millisecond, (*worker).drop},
		Quick:     {"many locks, each released at once", 17, 2, false, 400 * time.Millisecond, (*worker).quick},
		Delayed:   {"a lock with a lock-delay", 18, 2, false, 40 * time.Millisecond, (*worker).delayed},
	}
}

// Names lists the workloads.
func Names() []string {
	all := works()
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(all[a].number, all[b].number) })
	return names
}

// Together are those of some workloads that can share a machine.
func Together(names []string) []string {
	all := works()
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return all[name].apart })
}

// OverQuorum are the workloads that locks over several servers can do; the other
// kinds are refused there.
func OverQuorum() []string {
	return []string{Mutex, Update, ReadWrite, Cancel, Crowd, Long, Many, Thousand, Quick}
}

// About says in a few words what a workload is.
func About(name string) string { return works()[name].about }

func (w *worker) mutex(ctx context.Context) {
	w.exclusive(ctx, Mutex, func(h *holding) {
		h.stay(w.upTo(4 * time.Millisecond))
	})
}

// How long [Update] carries the counter's value with it before it writes: long for a
// request, short for a lease.
const (
	ThinkLeast = time.Millisecond
	ThinkMost  = 9 * time.Millisecond
)

// update reads both registers, thinks, and writes what it read plus one.
func (w *worker) update(ctx context.Context) {
	w.exclusive(ctx, Update, func(h *holding) {
		value, err := w.registers.Fenced.Read(h.event.Token)
		plain, other := w.registers.Plain.Read(h.event.Token)
		e := h.event
		e.Kind, e.Value, e.Plain = history.Write, value+1, plain+1
		if err != nil || other != nil || !h.stay(ThinkLeast+w.upTo(ThinkMost-ThinkLeast)) {
			h.complain(errors.Join(err, other))
			return
		}
		// A careful program checks before it writes that it still holds the lock. It
		// cannot check and write in one step: the suite stops it here, between the two.
		if w.orders.Stand.CompareAndSwap(true, false) {
			stands := e
			stands.Kind = history.Stand
			w.declare(stands)
			<-w.orders.Resume
		}
		if err := w.registers.Plain.Write(h.event.Token, e.Plain); err != nil {
			h.complain(err)
			return
		}
		err = w.registers.Fenced.Write(h.event.Token, e.Value)
		e.Stale = errors.Is(err, ErrStale)
		if err != nil && !e.Stale {
			h.complain(err)
			return
		}
		e.At = history.Now()
		w.say(e)
	})
}

// complain reports an error that has nothing to do with locks. A register that
// refuses an old token does what it is there for.
func (h *holding) complain(err error) {
	if err == nil || errors.Is(err, ErrStale) {
		return
	}
	e := h.event
	e.Kind, e.How, e.Err = history.Fail, history.Broken, err.Error()
	h.say(e)
}

func (w *worker) semaphore(ctx context.Context) {
	s := w.locks.Semaphore(Semaphore, Permits)
	n := 1 + w.rng.IntN(2)
	r := ordinary(request{lock: Semaphore, mode: "p", weight: n}, func(ctx context.Context) (*holdfast.Lease, error) {
		return s.Acquire(ctx, n)
	})
	w.hold(ctx, r, func(h *holding) { h.stay(w.upTo(6 * time.Millisecond)) })
}

func (w *worker) readWrite(ctx context.Context) {
	m := w.locks.RWMutex(ReadWrite)
	r := ordinary(request{lock: ReadWrite, mode: "s"}, m.RLock)
	if w.rng.IntN(4) == 0 {
		r = ordinary(request{lock: ReadWrite, mode: "x"}, m.Lock)
	}
	w.hold(ctx, r, func(h *holding) { h.stay(w.upTo(5 * time.Millisecond)) })
}

func (w *worker) cancel(ctx context.Context) {
	patience := 20 * time.Millisecond
	if w.rng.IntN(4) == 0 {
		patience = w.cfg.TTL // else a machine that is busy gets it never
	}
	limited, cancel := context.WithTimeout(ctx, w.upTo(patience))
	defer cancel()
	w.exclusive(limited, Cancel, func(h *holding) {
		h.stay(w.upTo(time.Millisecond))
	})
}

func (w *worker) crowd(ctx context.Context) {
	w.exclusive(ctx, Crowd, func(h *holding) { h.note() })
}

// long holds a lock of its own for several leases: what it reports is whether
// the renewals carried it.
func (w *worker) long(ctx context.Context) {
	name := fmt.Sprintf("%s/%d", Long, w.cfg.Proc)
	w.exclusive(ctx, name, func(h *holding) {
		till := time.Now().Add(3*w.cfg.TTL + w.upTo(5*w.cfg.TTL))
		for ctx.Err() == nil && time.Now().Before(till) && h.stay(20*time.Millisecond) {
		}
	})
}

// election: of the two goroutines one campaigns, the other watches.
func (w *worker) election(ctx context.Context) {
	e := w.locks.Election(Election)
	if w.number > 0 {
		w.watch(ctx, e)
		return
	}
	r := request{lock: Election, mode: "x"}
	r.take = func(ctx context.Context) (lease, error) {
		l, err := e.Campaign(ctx, w.locks.ID()+" first")
		if err != nil {
			return nil, err
		}
		return l, nil
	}
	r.token = func(l lease) uint64 { return l.(*holdfast.Leadership).Token() }
	r.give = func(ctx context.Context, l lease) error { return l.(*holdfast.Leadership).Release(ctx) }
	w.hold(ctx, r, func(h *holding) {
		h.stay(w.upTo(60 * time.Millisecond))
		limited, cancel := context.WithTimeout(ctx, w.cfg.TTL)
		defer cancel()
		_ = h.lease.(*holdfast.Leadership).Proclaim(limited, w.locks.ID()+" second") // its loss is told by the lease
		h.stay(w.upTo(60 * time.Millisecond))
	})
}

// watch reports the leaders, until ctx ends. A value that is not the leader's own is
// wrong.
func (w *worker) watch(ctx context.Context, e *holdfast.Election) {
	for leader, err := range e.Observe(ctx) {
		at := history.Now()
		if err != nil || leader.Token == 0 {
			continue
		}
		event := history.Event{
			At: at, Kind: history.Term, Work: Election, Lock: Election, Token: leader.Token, Owner: leader.HolderID,
		}
		if client, _, _ := strings.Cut(leader.Value, " "); client != leader.ClientID {
			event.How = history.Broken
			event.Err = fmt.Sprintf("value %q of the leader %s", leader.Value, leader.HolderID)
		}
		w.say(event)
	}
}

// period: every process wants to run the job of each period.
func (w *worker) period(ctx context.Context) {
	job := w.locks.Periodic(Period, w.cfg.TTL, holdfast.StartAt(0))
	asked := history.Now()
	e := history.Event{Kind: history.Run, Work: Period, Lock: Period, ID: w.ids.Add(1), Asked: asked}
	turn, err := job.Do(ctx, func(ctx context.Context) error {
		e.At = history.Now()
		history.Sleep(ctx, w.upTo(10*time.Millisecond))
		return nil
	})
	if e.At != 0 {
		e.Token, e.Owner = turn.Token, turn.HolderID
		w.say(e)
		return
	}
	if err != nil {
		e.Kind, e.How, e.Err = history.Fail, how(ctx, err), err.Error()
		w.say(e)
	}
}
