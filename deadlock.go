// Deadlocks: calls that wait while they hold leases.

package holdfast

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/waitsfor"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/observe"
)

// chainWait is a call that waits while its context holds leases.
type chainWait struct {
	lock   *lock
	parent context.Context
	number uint64 // of this wait inside its process
	cancel context.CancelCauseFunc

	mu      lockorder.Mutex[chainWait] // guards the fields below; see docs/architecture.md for its order
	attempt string                     // its attempt in a wait queue; empty while it waits for its process
	since   time.Time                  // when it began to wait
	place   int                        // its position in the wait queue, when it joined
	repeats uint64                     // how often it has said that it still waits
	timer   *time.Timer
	held    []*leaseState // those under which the client's record shows it
	shownTo []string      // attempts of other clients under which their records may show it
	over    bool

	// For search alone.
	told   bool // it has reported the deadlock that it is in
	proofs waitsfor.Proofs
}

type chainKey struct{}

// beginChain prepares an acquisition under the context of leases. ctx bounds the wait, and so
// does the returned context. Nothing is sent and no timer is set until it waits.
func (lk *lock) beginChain(ctx, parent context.Context) (context.Context, *chainWait) {
	c := lk.client
	w := &chainWait{lock: lk, parent: parent}
	w.number = c.localWaits.Add(1)
	if lk.breaksDeadlock {
		ctx, w.cancel = context.WithCancelCause(ctx)
	}
	return context.WithValue(ctx, chainKey{}, w), w
}

// waitsInChain is called when an acquisition begins to wait: at a place in a queue of the server
// under an attempt, or for its own process if attempt is empty.
func waitsInChain(ctx context.Context, attempt string, place int) {
	w, ok := ctx.Value(chainKey{}).(*chainWait)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := w.attempt != attempt && attempt != ""
	if changed {
		w.attempt, w.place = attempt, place
	}
	switch {
	case w.over:
	case w.timer == nil:
		w.since = time.Now()
		w.timer = time.AfterFunc(leasetime.ShowWaitAfter(w.lock.ttl), w.show)
	case changed && w.held != nil:
		w.note()
	}
}

// show makes the client's record show the wait. A moment later it looks for a deadlock: by
// then the record also shows those that began to wait at the same time.
func (w *chainWait) show() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	w.note()
	if len(w.lock.client.cfg.Under) > 0 {
		w.lock.client.life.Go(deadlockLabel, func() {
			ctx, cancel := w.searchContext()
			defer cancel()
			holds, _ := w.outerHolds(ctx)
			w.noteOuter(ctx, holds)
		})
	}
	w.timer = time.AfterFunc(leasetime.LookLater(w.lock.ttl, w.place)-leasetime.ShowWaitAfter(w.lock.ttl), w.search)
}

// note shows the wait under each live lease. The caller holds w.mu.
func (w *chainWait) note() {
	var live []*leaseState
	for ls := leaseOf(w.parent); ls != nil; ls = ls.outerLease() {
		if ls.ended() == nil {
			live = append(live, ls)
		}
	}
	for _, ls := range w.held {
		if !slices.Contains(live, ls) {
			ls.hold.lock.client.waitNotes.Hide(ls.hold.attemptID(), w)
		}
	}
	w.held = live
	for _, ls := range live {
		ls.hold.lock.client.waitNotes.Show(ls.hold.attemptID(), w, w.asNote())
	}
}

// end ends the wait, and returns the error of the call.
func (w *chainWait) end(ctx context.Context, err error) error {
	w.mu.Lock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	for _, ls := range w.held {
		ls.hold.lock.client.waitNotes.Hide(ls.hold.attemptID(), w)
	}
	w.held = nil
	if len(w.shownTo) > 0 {
		w.lock.client.life.Go(deadlockLabel, w.endOuter)
	}
	w.mu.Unlock()
	if w.cancel == nil {
		return err
	}
	defer w.cancel(nil)
	var found *DeadlockError
	if err != nil && errors.As(context.Cause(ctx), &found) {
		return found
	}
	return err
}

// id names the wait in the graph.
func (w *chainWait) id() waitsfor.ID {
	if w.attempt == "" {
		return waitsfor.ID{Lock: w.lock.name, Attempt: wire.LocalWait(w.lock.client.id, w.number)}
	}
	return waitsfor.ID{Lock: w.lock.name, Attempt: w.attempt}
}

// asNote is the wait as it is shown. The caller holds w.mu.
func (w *chainWait) asNote() wire.WaitNote {
	return wire.WaitNote{
		Name: w.lock.name, ID: w.id().Attempt, Since: w.since, Breaks: w.cancel != nil, Repeats: w.repeats,
	}
}

// outerHold is a hold of another process, and under which attempt it is held.
type outerHold struct{ name, attempt string }

// outerHolds reads the locks that processes around this one hold. waitedFor is false if nobody
// waits for them.
func (w *chainWait) outerHolds(ctx context.Context) (holds []outerHold, waitedFor bool) {
	c := w.lock.client
	for _, o := range c.cfg.Under {
		r, err := c.sender.Record(ctx, []string{wire.Key(c.cfg.Prefix, o.Name)})
		if err != nil {
			continue // it is read again later
		}
		waitedFor = waitedFor || r.Waiting > 0
		for _, h := range r.Holders {
			if wire.Client(h.Attempt) == wire.Client(o.HolderID) && !h.Kept {
				holds = append(holds, outerHold{o.Name, h.Attempt})
			}
		}
	}
	return holds, waitedFor
}

// noteOuter shows the wait under holds of processes around this one, in the records of their
// clients.
func (w *chainWait) noteOuter(ctx context.Context, holds []outerHold) {
	for _, h := range holds {
		w.mu.Lock()
		over, note := w.over, w.asNote()
		if !over && !slices.Contains(w.shownTo, h.attempt) {
			w.shownTo = append(w.shownTo, h.attempt)
		}
		w.mu.Unlock()
		if over {
			return
		}
		w.amendOuter(ctx, h.attempt, &note)
	}
}

// endOuter ends what noteOuter did.
func (w *chainWait) endOuter() {
	ctx, cancel := w.searchContext()
	defer cancel()
	w.mu.Lock()
	attempts := w.shownTo
	w.mu.Unlock()
	for _, attempt := range attempts {
		w.amendOuter(ctx, attempt, nil)
	}
}

// amendOuter replaces the note of this client under a hold of another one. If the request
// fails, the next look repeats it. A note that remains names an attempt that waits no more.
func (w *chainWait) amendOuter(ctx context.Context, attempt string, note *wire.WaitNote) {
	c := w.lock.client
	_ = c.registration.AmendWaitNote(ctx, attempt, note)
}

var deadlockLabel = label.New("deadlock check")

// search looks for a deadlock in the background, and again after a while: sooner if there seems
// to be one, because all that are in it then look as often, and prove to each other that they
// still wait.
func (w *chainWait) search() {
	w.lock.client.life.Go(deadlockLabel, func() {
		ctx, cancel := w.searchContext()
		defer cancel()
		next := leasetime.LookAfter(w.lock.ttl)
		if w.waitedFor(ctx) {
			if suspected, waiters := w.check(ctx); suspected {
				next = leasetime.LookAgainAfter(w.lock.ttl)
			} else {
				next = leasetime.LookLater(w.lock.ttl, waiters)
			}
		} else {
			w.proofs, w.told = waitsfor.Proofs{}, false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.over {
			w.timer = time.AfterFunc(next, w.search)
		}
	})
}

// searchLimit bounds one search.
const searchLimit = 5 * time.Second

func (w *chainWait) searchContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.lock.client.life.Context(), searchLimit)
}

// waitedFor returns false if nobody waits for what the call holds: then it is in no deadlock,
// and asks nothing. Otherwise it says anew that the call waits. It knows how many wait for a
// hold by the last renewal. If that is too long ago, it assumes that somebody waits.
func (w *chainWait) waitedFor(ctx context.Context) bool {
	holds, waited := w.outerHolds(ctx)
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return false
	}
	for _, ls := range w.held {
		h, c := ls.hold, ls.hold.lock.client
		known := time.Duration(h.waitingAt.Load()) > c.now()-leasetime.LookAfter(w.lock.ttl)*3/2
		waited = waited || !known || h.waiting.Load() > 0 || c.waitNotes.AnyFor(h.lock.name)
	}
	if waited {
		w.repeats++
	}
	w.note() // a lease may have ended
	w.mu.Unlock()
	if waited {
		w.noteOuter(ctx, holds)
	}
	return waited
}

// mostRead bounds how many locks one look reads.
const mostRead = 64

// check reads the locks that the wait depends on, and reports a deadlock if it is proven. It
// returns whether there seems to be one, and how many waiters it has read.
//
// What a client says may be late: its process may be dead, or its code may have gone on in the
// meantime. So it counts only if the client has said it again since a round in which the whole
// deadlock was there. No attempt comes back, and no lease does. So at the time of that round
// all of the deadlock existed, and then it lasts until somebody breaks it.
//
// For example, call 1 holds A and waits for B, and call 2 holds B and waits for A. Round 1 of call 1 reads
// both records: call 2 has said once that it waits for A. That may be old, so it is only a suspicion. Now
// call 1 looks sooner again, and so does call 2, which suspects the same. Round 2 finds that call 2 has
// said it twice. Call 2 still waited after round 1, for the same lock and under the same lease. So at the
// time of round 1 each waited for the other, and neither can have gone on since.
func (w *chainWait) check(ctx context.Context) (suspected bool, waiters int) {
	w.mu.Lock()
	id := w.id()
	w.mu.Unlock()
	locks, err := w.lock.client.readAround(ctx, id.Lock)
	if err != nil {
		return w.proofs.Begun(), 0 // what cannot be read is looked at again
	}
	for i := range locks {
		waiters += len(locks[i].Waiters)
	}
	if _, suspected = graphOf(locks, func(waitsfor.Edge) bool { return true }).nodes.Knot(id); !suspected {
		w.proofs, w.told = waitsfor.Proofs{}, false
		return false, waiters
	}
	for proven := range w.proofs.Add(marksOf(locks)) {
		g := graphOf(locks, proven)
		if k, found := g.nodes.Knot(id); found {
			err := w.report(ctx, g.cycle(k), id)
			if chosen, ok := g.victim(k); ok && chosen == id && w.cancel != nil {
				w.cancel(err)
			}
			break
		}
	}
	return true, waiters
}

// report tells of a deadlock, once, and returns the error.
func (w *chainWait) report(ctx context.Context, cycle []WaitInfo, id waitsfor.ID) error {
	for i := range cycle {
		if one := &cycle[i]; one.Client == nil {
			one.Client = w.lock.client.clientInfo(ctx, one.ClientID)
		}
	}
	err := &DeadlockError{Name: id.Lock, Cycle: cycle}
	if w.told {
		return err
	}
	w.told = true
	w.lock.client.events.tell(news{
		event: observe.Event{
			Kind: observe.EventDeadlock, Context: w.parent, Name: id.Lock, Mode: w.lock.mode(),
			HolderID: cycle[0].HolderID, Waited: true, Wait: time.Since(w.since), Err: err,
		},
		log: func(log *slog.Logger) {
			log.Warn("holdfast: deadlock: calls are waiting for each other",
				"lock", id.Lock, "cycle", cycleText(cycle), "hint", Hint(err))
		},
	})
	return err
}

// readAround reads a lock, and on from there the locks that its holders wait for.
func (c *Client) readAround(ctx context.Context, name string) (locks []LockInfo, err error) {
	known := newRegistrations(0) // there may be many waiters
	names := []string{name}
	for i := 0; i < len(names) && i < mostRead; i++ {
		info, err := c.readLock(ctx, names[i], known)
		if err != nil {
			return nil, err
		}
		locks = append(locks, info)
		for _, h := range info.Holders {
			for _, w := range h.WaitsFor {
				if !slices.Contains(names, w.Name) {
					names = append(names, w.Name)
				}
			}
		}
	}
	return locks, nil
}
