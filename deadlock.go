// Deadlocks: what a waiting goroutine holds, and the cycles of calls that wait for each other.

package holdfast

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/waitsfor"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// LeaseWait is a wait of code that holds a lease, as its client reports it.
type LeaseWait struct {
	Name     string    // the lock that is waited for
	HolderID string    // the attempt that waits; empty if it waits for another goroutine of its process
	Since    time.Time // by the client's clock
	Breaks   bool      // it has the option BreakDeadlock

	id    string // also of a wait inside a process
	looks uint64 // how often the client has said so again
}

// Deadlocks finds the deadlocks among the states of locks, as [Client.List] yields them or
// [Client.Inspect] returns them. It sends nothing. For each deadlock, it returns one cycle of
// waits.
//
// The states were read at different moments, and a client reports its waits with a delay. So a
// deadlock that Deadlocks finds may be over. If states that were read some seconds later show
// it again, the deadlock is most likely real. A waiting call needs more proof than this before
// it reports an [EventDeadlock]. [BreakDeadlock] says which deadlocks can be seen.
func Deadlocks(locks []LockInfo) (found [][]DeadlockWait) {
	g := graphOf(locks, func(waitsfor.Edge) bool { return true })
	for _, k := range g.nodes.Knots() {
		found = append(found, g.cycle(k))
	}
	return found
}

// waitGraph is the waits-for graph of several locks.
type waitGraph struct {
	nodes  waitsfor.Graph
	waits  map[waitsfor.ID]graphWait
	proven func(waitsfor.Edge) bool // see [waitsfor.Edge]
}

type graphWait struct {
	DeadlockWait
	since time.Time
}

// graphOf makes the graph of what is proven. A hold ends after the waits of code that holds it.
// A waiter is granted after the holders and the waiters in front of it.
func graphOf(locks []LockInfo, proven func(waitsfor.Edge) bool) waitGraph {
	g := waitGraph{nodes: waitsfor.Graph{}, waits: map[waitsfor.ID]graphWait{}, proven: proven}
	byName := make(map[string]*LockInfo, len(locks))
	alive := make(map[waitsfor.ID]bool) // waiters of which their clients speak
	for i := range locks {
		if info := &locks[i]; info.Job == nil { // nobody waits in the queue of a job
			byName[info.Name] = info
			for e := range info.said() {
				if proven(e) {
					alive[e.To] = true
				}
			}
		}
	}
	for _, info := range byName {
		g.addWaiters(info, alive)
	}
	for _, info := range byName {
		for _, h := range info.Holders {
			g.addHolder(info.Name, h, byName)
		}
	}
	return g
}

// said yields what clients say of code that holds the lock, and how often they have said it.
func (info LockInfo) said() iter.Seq2[waitsfor.Edge, uint64] {
	return func(yield func(waitsfor.Edge, uint64) bool) {
		for _, h := range info.Holders {
			from := waitsfor.ID{Lock: info.Name, Attempt: h.HolderID}
			for _, w := range h.WaitsFor {
				if !yield(waitsfor.Edge{From: from, To: waitsfor.ID{Lock: w.Name, Attempt: w.id}}, w.looks) {
					return
				}
			}
		}
	}
}

// addWaiters adds the wait queue of a lock. A waiter that may be dead is not in the graph: the
// server removes it after some time, so nobody waits for it forever. For the waiters in front of
// another, those right in front stand for all: they wait for the rest.
func (g *waitGraph) addWaiters(info *LockInfo, alive map[waitsfor.ID]bool) {
	var pool []waitsfor.Share
	free := info.Limit
	for _, h := range info.Holders {
		if h.Mode == "permits" {
			pool = append(pool, waitsfor.Share{
				ID: waitsfor.ID{Lock: info.Name, Attempt: h.HolderID}, Permits: h.Permits,
			})
			free -= h.Permits
		}
	}
	var before, readers []waitsfor.ID // the last waiter that is no reader; the readers behind it
	for _, w := range info.Waiters {
		id := waitsfor.ID{Lock: info.Name, Attempt: w.HolderID}
		if w.Silent || !alive[id] && !g.proven(waitsfor.Edge{To: id}) {
			continue
		}
		var n waitsfor.Node
		switch {
		case w.Mode == "shared": // readers get the lock together
			n.Needs = slices.Clone(before)
			readers = append(readers, id)
		case len(readers) > 0:
			n.Needs = readers
			before, readers = []waitsfor.ID{id}, nil
		default:
			n.Needs, before = slices.Clone(before), []waitsfor.ID{id}
		}
		for _, h := range info.Holders {
			switch {
			case w.Mode == "shared" && h.Mode == "shared":
			case w.Mode == "permits" && h.Mode == "permits":
				n.Pool, n.Want, n.Free = pool, w.Permits, free
			default:
				n.Needs = append(n.Needs, waitsfor.ID{Lock: info.Name, Attempt: h.HolderID})
			}
		}
		g.nodes[id] = n
		g.waits[id] = graphWait{DeadlockWait{
			Name: info.Name, HolderID: w.HolderID, ClientID: w.ClientID, Client: w.Client,
		}, w.Since}
	}
}

// addHolder adds a hold, and the waits of code that holds it. The server proves a wait in a
// queue: the attempt is in the record. A wait inside a process is what its client says.
func (g *waitGraph) addHolder(name string, h Holder, byName map[string]*LockInfo) {
	var n waitsfor.Node
	hold := waitsfor.ID{Lock: name, Attempt: h.HolderID}
	for _, w := range h.WaitsFor {
		id := waitsfor.ID{Lock: w.Name, Attempt: w.id}
		if !g.proven(waitsfor.Edge{From: hold, To: id}) {
			continue
		}
		if client, local := wire.LocalClient(w.id); local {
			g.addLocal(id, client, w, h, byName[w.Name])
		}
		known, ok := g.waits[id]
		if !ok {
			continue // it is over, or the state of that lock is not among these
		}
		if known.Breaks = w.Breaks; known.HolderID == "" {
			known.since = w.Since
		}
		g.waits[id] = known
		n.Needs = append(n.Needs, id)
	}
	if !h.Released { // else it ends by itself
		g.nodes[hold] = n
	}
}

// addLocal adds a wait for another goroutine of the client: for the one that holds the lock,
// or for the one that waits at the server.
func (g *waitGraph) addLocal(id waitsfor.ID, client string, w LeaseWait, h Holder, info *LockInfo) {
	if _, known := g.waits[id]; known || info == nil {
		return
	}
	var n waitsfor.Node
	for _, other := range info.Holders {
		if other.ClientID == client && other.Mode != "permits" {
			n.Needs = append(n.Needs, waitsfor.ID{Lock: w.Name, Attempt: other.HolderID})
		}
	}
	for _, other := range info.Waiters {
		if other.ClientID == client {
			n.Needs = append(n.Needs, waitsfor.ID{Lock: w.Name, Attempt: other.HolderID})
		}
	}
	g.nodes[id] = n
	g.waits[id] = graphWait{DeadlockWait: DeadlockWait{Name: w.Name, ClientID: client}}
	if client == h.ClientID {
		known := g.waits[id]
		known.Client = h.Client
		g.waits[id] = known
	}
}

// cycle describes the cycle of a knot. It begins with the first wait in it.
func (g *waitGraph) cycle(k waitsfor.Knot) (list []DeadlockWait) {
	for i, id := range k.Cycle {
		w, waits := g.waits[id]
		if !waits {
			continue
		}
		before := k.Cycle[(i+len(k.Cycle)-1)%len(k.Cycle)]
		if _, queued := g.waits[before]; !queued {
			w.Holds = before.Lock
		}
		list = append(list, w.DeadlockWait)
	}
	return list
}

// victim returns the wait that ends: the youngest of those that asked for it. Everybody who
// sees the knot finds the same one. It returns false if none asked for it.
func (g *waitGraph) victim(k waitsfor.Knot) (chosen waitsfor.ID, found bool) {
	for _, id := range k.Members { // in order, so that a tie has one winner
		w, waits := g.waits[id]
		if waits && w.Breaks && (!found || w.since.After(g.waits[chosen].since)) {
			chosen, found = id, true
		}
	}
	return chosen, found
}

// chainWait is a call that waits while its context holds leases.
type chainWait struct {
	lock   *lock
	parent context.Context
	outer  []waitsfor.Outer // holds of processes around this one
	number uint64           // of this wait inside its process
	cancel context.CancelCauseFunc

	mu      sync.Mutex // guards the fields below; it is locked before that of a board
	attempt string     // its attempt in a wait queue; empty while it waits for its process
	since   time.Time  // when it began to wait
	place   int        // its position in the wait queue, when it joined
	looks   uint64     // how often it has said that it still waits
	timer   *time.Timer
	held    []*leaseState // those under which the client's record shows it
	shownTo []string      // attempts of other clients under which their records may show it
	over    bool

	// For look alone.
	told   bool // it has reported the deadlock that it is in
	proofs waitsfor.Proofs
}

type chainKey struct{}

// beginChain prepares an acquisition under the context of leases. ctx bounds the wait, and so
// does the returned context. Nothing is sent and no timer is set until it waits.
func (lk *lock) beginChain(
	ctx, parent context.Context, outer []waitsfor.Outer,
) (context.Context, *chainWait) {
	c := lk.client
	w := &chainWait{lock: lk, parent: parent, outer: outer}
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
	if w.outer != nil {
		w.lock.client.life.Go(deadlockLabel, func() {
			ctx, cancel := w.lookTime()
			defer cancel()
			holds, _ := w.outerHolds(ctx)
			w.noteOuter(ctx, holds)
		})
	}
	w.timer = time.AfterFunc(leasetime.LookLater(w.lock.ttl, w.place)-leasetime.ShowWaitAfter(w.lock.ttl), w.look)
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
			ls.hold.lock.client.waitNotes.Hide(attemptOf(ls.hold), w)
		}
	}
	w.held = live
	for _, ls := range live {
		ls.hold.lock.client.waitNotes.Show(attemptOf(ls.hold), w, w.asNote())
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
		ls.hold.lock.client.waitNotes.Hide(attemptOf(ls.hold), w)
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
		Name: w.lock.name, ID: w.id().Attempt, Since: w.since, Breaks: w.cancel != nil, Looks: w.looks,
	}
}

// outerHold is a hold of another process, and under which attempt it is held.
type outerHold struct{ name, attempt string }

// outerHolds reads the locks that processes around this one hold. waitedFor is false if nobody
// waits for them.
func (w *chainWait) outerHolds(ctx context.Context) (holds []outerHold, waitedFor bool) {
	c := w.lock.client
	for _, o := range w.outer {
		r, err := c.sender.Record(ctx, []string{wire.Key(c.cfg.Prefix, o.Lock)})
		if err != nil {
			continue // it is read again later
		}
		waitedFor = waitedFor || r.Waiting > 0
		for _, h := range r.Holders {
			if wire.Client(h.Attempt) == o.Client && !h.Kept {
				holds = append(holds, outerHold{o.Lock, h.Attempt})
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
	ctx, cancel := w.lookTime()
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

// look looks for a deadlock in the background, and again after a while: sooner if there seems
// to be one, because all that are in it then look as often, and prove to each other that they
// still wait.
func (w *chainWait) look() {
	w.lock.client.life.Go(deadlockLabel, func() {
		ctx, cancel := w.lookTime()
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
			w.timer = time.AfterFunc(next, w.look)
		}
	})
}

// lookWithin bounds one look.
const lookWithin = 5 * time.Second

func (w *chainWait) lookTime() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.lock.client.life.Context(), lookWithin)
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
		w.looks++
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
func (w *chainWait) check(ctx context.Context) (suspected bool, waiters int) {
	w.mu.Lock()
	id := w.id()
	w.mu.Unlock()
	locks, err := readAround(ctx, w.lock.client, id.Lock)
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

// marksOf are the marks of all edges that need a proof: how often a client has said that its
// code waits, and until when a waiter keeps its position.
func marksOf(locks []LockInfo) map[waitsfor.Edge]int64 {
	marks := make(map[waitsfor.Edge]int64)
	for i := range locks {
		info := &locks[i]
		for e, looks := range info.said() {
			marks[e] = int64(looks)
		}
		for _, q := range info.Waiters {
			marks[waitsfor.Edge{To: waitsfor.ID{Lock: info.Name, Attempt: q.HolderID}}] = q.until
		}
	}
	return marks
}

// report tells of a deadlock, once, and returns the error.
func (w *chainWait) report(ctx context.Context, cycle []DeadlockWait, id waitsfor.ID) error {
	for i := range cycle {
		if one := &cycle[i]; one.Client == nil {
			one.Client = clientInfo(ctx, w.lock.client, one.ClientID)
		}
	}
	err := &DeadlockError{Name: id.Lock, Cycle: cycle}
	if w.told {
		return err
	}
	w.told = true
	w.lock.client.events.tell(news{
		event: Event{
			Kind: EventDeadlock, Context: w.parent, Name: id.Lock, Mode: w.lock.mode(),
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
func readAround(ctx context.Context, c *Client, name string) (locks []LockInfo, err error) {
	known := newRegistrations(0) // there may be many waiters
	names := []string{name}
	for i := 0; i < len(names) && i < mostRead; i++ {
		info, err := readLock(ctx, c, names[i], known, nil)
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
