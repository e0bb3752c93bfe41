package workload

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/verify/history"
)

// How much there is of some things.
const (
	owners    = 3      // names in which locks are taken
	waiters   = 1_000  // on one lock, over all processes
	manyOnes  = 10_000 // locks that are drawn from
	quickOnes = 40_000 // so many that a burst rarely waits for a client that was killed
	quickFew  = 500    // of them that are drawn more often: contended
)

// owners acquires a lock under one of a few owner names, which all processes share.
// Sometimes it acquires the lock again under its own lease.
func (w *worker) owners(ctx context.Context) {
	name := fmt.Sprintf("owner %d", w.rng.IntN(owners))
	m := w.locks.Mutex(Owners, holdfast.Owner(name))
	r := ordinary(request{lock: Owners, mode: "x", name: name}, m.Lock)
	w.hold(ctx, r, func(h *holding) {
		h.stay(w.upTo(6 * time.Millisecond))
		if w.rng.IntN(4) > 0 || !h.note() {
			return
		}
		again := r
		again.local = true
		w.hold(h.lease.Context(), again, func(inner *holding) { inner.stay(w.upTo(2 * time.Millisecond)) })
	})
}

// line waits with a goroutine or two of every process, all the time.
func (w *worker) line(ctx context.Context) {
	w.exclusive(ctx, Line, func(h *holding) {
		h.stay(w.upTo(3 * time.Millisecond))
	})
}

// many takes one of very many locks.
func (w *worker) many(ctx context.Context) {
	name := fmt.Sprintf("%s/%d", Many, w.rng.IntN(manyOnes))
	w.exclusive(ctx, name, func(h *holding) {
		h.stay(w.upTo(10 * time.Millisecond))
	})
}

// quick acquires some locks at the same time, each in a goroutine of its own, and releases
// them. Most are free. The client sends such requests as a batch, so there are more
// acquisitions of this kind than of all others, under the same faults and checks.
func (w *worker) quick(ctx context.Context) {
	crew := make([]worker, w.cfg.Burst)
	var all sync.WaitGroup
	for i := range crew {
		ones := quickOnes
		if w.rng.IntN(8) == 0 {
			ones = quickFew
		}
		name := fmt.Sprintf("%s/%d", Quick, w.rng.IntN(ones))
		one := &crew[i]
		one.client, one.work, one.number = w.client, w.work, w.number
		all.Go(func() {
			r := ordinary(request{lock: name, mode: "x"}, one.locks.Mutex(name).Lock)
			// A release whose context has no end may be sent in a batch.
			r.give = func(_ context.Context, l lease) error {
				return l.(*holdfast.Lease).Release(context.Background()) //nolint:contextcheck // see above
			}
			one.hold(ctx, r, nil)
		})
	}
	all.Wait()
	for i := range crew {
		w.failures += crew[i].failures
	}
}

// thousand is one of a thousand goroutines that want one lock. Long holds keep them
// waiting, and leave the machine to the other workloads.
func (w *worker) thousand(ctx context.Context) {
	w.exclusive(ctx, Thousand, func(h *holding) {
		h.stay(5*time.Millisecond + w.upTo(5*time.Millisecond))
	})
}

// least releases a lock before its minimum time, in most cases.
func (w *worker) least(ctx context.Context) {
	least := w.cfg.TTL / 8
	if w.rng.IntN(4) == 0 {
		least = w.cfg.TTL + w.cfg.TTL/4 // longer than the lease
	}
	m := w.locks.Mutex(Least, holdfast.MinHold(least))
	w.hold(ctx, ordinary(request{lock: Least, mode: "x", least: least}, m.Lock), func(h *holding) {
		h.stay(w.upTo(w.cfg.TTL / 6))
	})
}

// delayed acquires a lock whose lock-delay is longer than most steps of a server's clock. A holder that is lost leaves
// it to the others only after that.
func (w *worker) delayed(ctx context.Context) {
	m := w.locks.Mutex(Delayed, holdfast.LockDelay(2*w.cfg.TTL))
	w.hold(ctx, ordinary(request{lock: Delayed, mode: "x"}, m.Lock), func(h *holding) { h.stay(w.upTo(w.cfg.TTL)) })
}

// drop acquires a lease and drops the handle, as code does that writes
// _, err := Lock(ctx). Only the garbage collector and the expiry end that lease.
func (w *worker) drop(ctx context.Context) {
	var opts []holdfast.MutexOption
	if w.rng.IntN(2) == 0 {
		opts = append(opts, holdfast.NoRenewal())
	}
	e := history.Event{Work: w.work, Lock: Drop, Mode: "x", ID: w.ids.Add(1), Asked: history.Now()}
	l, err := w.locks.Mutex(Drop, opts...).Lock(ctx)
	e.At = history.Now()
	if err != nil {
		e.Kind, e.How, e.Err = history.Fail, how(ctx, err), err.Error()
		w.failures++
		w.say(e)
		return
	}
	e.Kind, e.Owner, e.Token = history.Got, l.HolderID(), l.Token()
	w.say(e)
	l = nil //nolint:wastedassign // the handle is dropped here
	// The lease ends once the collector has seen that nothing refers to the handle.
	runtime.GC()
	e.Kind, e.At = history.Drop, 0
	w.say(e)
	if !history.Sleep(ctx, w.cfg.TTL) {
		e.How = history.Stopped // the client releases it when it is closed
		w.say(e)
	}
}

// evict: two goroutines of each process hold a lock, one of them long enough to notice an
// eviction. The third evicts them, and sends requests that must be refused.
func (w *worker) evict(ctx context.Context) {
	if w.number == 2 {
		if w.rng.IntN(4) == 0 {
			w.operate(ctx)
		}
		w.trespass(ctx, Evict, "")
		w.trespass(ctx, Owners, wire.Owner(fmt.Sprintf("owner %d", w.rng.IntN(owners))))
		return
	}
	m := w.locks.Mutex(Evict)
	var over *holding
	w.hold(ctx, ordinary(request{lock: Evict, mode: "x"}, m.Lock), func(h *holding) {
		over = h
		h.stay(w.upTo(w.cfg.TTL / 2))
	})
	if over == nil {
		return
	}
	// The lease has ended, by its release or by an eviction: both calls must be refused.
	l := over.lease.(*holdfast.Lease)
	limited, cancel := context.WithTimeout(context.Background(), w.cfg.TTL)
	defer cancel()
	over.tried("a second release", l.Release(limited))
	over.tried("an extension after the release", l.Extend(limited, w.cfg.TTL))
}

// tried reports what became of something that must be refused to a holder.
func (h *holding) tried(what string, err error) {
	e := h.event
	e.Kind, e.Text, e.How = history.Try, what, history.Released
	if err != nil {
		e.How, e.Err = history.NotHeld, err.Error()
	}
	h.say(e)
}

// operate evicts the holder of the lock, as an operator does after an inspection.
func (w *worker) operate(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, w.cfg.TTL)
	defer cancel()
	state, err := w.locks.Inspect(limited, Evict)
	if err != nil || len(state.Holders) == 0 {
		return // workers that acquire locks report what goes wrong
	}
	// It is reported first: a process that is killed would not report it afterwards.
	token := state.Holders[0].Token
	w.declare(history.Event{Kind: history.Evict, Work: w.work, Lock: Evict, Token: token})
	_, _ = w.locks.Evict(limited, Evict, holdfast.Eviction{
		By: "suite", Reason: "to see what follows", Token: token, AtOnce: w.rng.IntN(2) == 0,
	})
}

// trespass asks the store itself to end and to extend the hold on a lock, for an attempt
// that never existed, as a program with a mistake would. The token is the holder's.
func (w *worker) trespass(ctx context.Context, lock, owner string) {
	limited, cancel := context.WithTimeout(ctx, w.cfg.TTL)
	defer cancel()
	state, err := w.locks.Inspect(limited, lock)
	if err != nil || len(state.Holders) == 0 {
		return
	}
	e := history.Event{Kind: history.Try, Work: w.work, Lock: lock}
	e.Owner = fmt.Sprintf("%s/9%08d", w.locks.ID(), w.ids.Add(1))
	token, ttl := strconv.FormatUint(state.Holders[0].Token>>10, 10), wire.Millis(w.cfg.TTL)
	retention, channelPrefix := wire.Millis(Retention), wire.ChannelPrefix(w.cfg.Prefix, lock, w.store.Sharded())
	named := func(args ...string) []string {
		if owner != "" {
			args = append(args, owner)
		}
		return args
	}
	for _, try := range []struct {
		action *script.Script
		args   []string
	}{
		{script.Release, named(e.Owner, token, retention, channelPrefix)},
		{script.ReleaseAfter, named(e.Owner, token, "1", "0", retention, channelPrefix)},
		{script.Cancel, named(e.Owner, retention, channelPrefix)},
		{script.Convert, named(e.Owner, token, "s", ttl, retention, channelPrefix)},
		{script.ReleaseIdle, []string{e.Owner}},
		{script.Renew, []string{retention, ttl, wire.LeaseWord(e.Owner, ttl, owner, ttl)}},
	} {
		answer, err := w.store.Run(limited, try.action, []string{wire.Key(w.cfg.Prefix, lock)}, try.args)
		e.At, e.Text, e.How = 0, try.action.Name, history.NotHeld
		if err != nil {
			return
		}
		// A release of what is over is answered like the first one: what it
		// changed is told by the server. The others have a word for refusing.
		switch word, rest, _ := strings.Cut(answer, " "); {
		case try.action == script.Renew && rest != "-",
			try.action == script.ReleaseIdle && rest != "-",
			try.action == script.Convert && word != "gone",
			try.action == script.Cancel && word != "none":
			e.How = history.Released
		}
		w.say(e)
	}
}
