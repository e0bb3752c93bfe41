// Deadlocks: what a waiting goroutine holds, and the cycles of calls that wait for each other.

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/waitsfor"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// DeadlockError says that calls wait for each other, so that none of them ends by itself. It
// is an [ErrDeadlock]. See [BreakDeadlock].
type DeadlockError struct {
	Name  string         // the lock that the call waited for
	Cycle []DeadlockWait // each waits for what the next one has; the call's own wait is the first
}

// DeadlockWait is one of the waits in a deadlock.
type DeadlockWait struct {
	Name     string // the lock that is waited for
	Holds    string // a lock that the same call chain holds; empty if it is only in a wait queue in front of others
	HolderID string // the attempt that waits; empty if it waits for another goroutine of its process
	ClientID string
	Client   *ClientInfo // nil if the client has not registered
	Breaks   bool        // it has the option BreakDeadlock
}

func (w DeadlockWait) String() string {
	who := "client " + w.ClientID
	if w.Client != nil {
		who = w.Client.String()
	}
	if w.Holds == "" {
		return fmt.Sprintf("%s waits for %q", who, w.Name)
	}
	return fmt.Sprintf("%s holds %q and waits for %q", who, w.Holds, w.Name)
}

func (e *DeadlockError) Error() string {
	return fmt.Sprintf("holdfast: lock %q: deadlock: %s", e.Name, cycleText(e.Cycle))
}

// Is makes the error an [ErrDeadlock].
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

func cycleText(cycle []DeadlockWait) string {
	words := make([]string, len(cycle))
	for i, w := range cycle {
		words[i] = w.String()
	}
	return strings.Join(words, "; ")
}

// LeaseWait is a wait of code that holds a lease, as its client reports it.
type LeaseWait struct {
	Name     string    // the lock that is waited for
	HolderID string    // the attempt that waits; empty if it waits for another goroutine of its process
	Since    time.Time // by the client's clock
	Breaks   bool      // it has the option BreakDeadlock

	id string // also of a wait inside a process
}

// Deadlocks finds the deadlocks among the states of locks, as [Client.List] yields them, or
// [Client.Inspect]. It sends nothing. Each deadlock is given by one cycle in it.
//
// The states are of different moments. So a deadlock counts only if it is there again in
// states that were read later: no attempt ever comes back, and so all of its waits existed at
// the same time between the two reads. For what can be seen, see [BreakDeadlock].
func Deadlocks(locks []LockInfo) (found [][]DeadlockWait) {
	g := graphOf(locks)
	for _, k := range g.nodes.Knots() {
		found = append(found, g.cycle(k))
	}
	return found
}

// waitGraph is the waits-for graph of several locks.
type waitGraph struct {
	nodes waitsfor.Graph
	waits map[waitsfor.ID]graphWait
}

type graphWait struct {
	DeadlockWait
	since time.Time
}

// graphOf makes the graph. A hold ends after the waits of code that holds it. A waiter is
// granted after the holders and the waiters in front of it.
func graphOf(locks []LockInfo) waitGraph {
	g := waitGraph{nodes: waitsfor.Graph{}, waits: map[waitsfor.ID]graphWait{}}
	byName := make(map[string]*LockInfo, len(locks))
	for i := range locks {
		if s := &locks[i]; s.Job == nil { // nobody waits in the queue of a job
			byName[s.Name] = s
			g.addWaiters(s)
		}
	}
	for _, s := range byName {
		for _, h := range s.Holders {
			g.addHolder(s.Name, h, byName)
		}
	}
	return g
}

func (g *waitGraph) addWaiters(s *LockInfo) {
	for i, w := range s.Waiters {
		id := waitsfor.ID{Lock: s.Name, Attempt: w.HolderID}
		n := waitsfor.Node{Want: w.Permits, Free: s.Limit}
		for _, ahead := range s.Waiters[:i] {
			if w.Mode != "shared" || ahead.Mode != "shared" { // readers get the lock together
				n.Needs = append(n.Needs, waitsfor.ID{Lock: s.Name, Attempt: ahead.HolderID})
			}
		}
		for _, h := range s.Holders {
			holder := waitsfor.ID{Lock: s.Name, Attempt: h.HolderID}
			switch {
			case w.Mode == "shared" && h.Mode == "shared":
			case w.Mode == "permits" && h.Mode == "permits":
				n.Pool = append(n.Pool, waitsfor.Share{ID: holder, Permits: h.Permits})
				n.Free -= h.Permits
			default:
				n.Needs = append(n.Needs, holder)
			}
		}
		if n.Pool == nil {
			n.Want, n.Free = 0, 0
		}
		g.nodes[id] = n
		g.waits[id] = graphWait{DeadlockWait{
			Name: s.Name, HolderID: w.HolderID, ClientID: w.ClientID, Client: w.Client,
		}, w.Since}
	}
}

// addHolder adds a hold, and the waits of code that holds it. The server proves a wait in a
// queue: the attempt is in the record. A wait inside a process is what its client says.
func (g *waitGraph) addHolder(name string, h Holder, byName map[string]*LockInfo) {
	var n waitsfor.Node
	for _, w := range h.WaitsFor {
		id := waitsfor.ID{Lock: w.Name, Attempt: w.id}
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
		g.nodes[waitsfor.ID{Lock: name, Attempt: h.HolderID}] = n
	}
}

// addLocal adds a wait for another goroutine of the client: for the one that holds the lock,
// or for the one that waits at the server.
func (g *waitGraph) addLocal(id waitsfor.ID, client string, w LeaseWait, h Holder, s *LockInfo) {
	if _, known := g.waits[id]; known || s == nil {
		return
	}
	var n waitsfor.Node
	for _, other := range s.Holders {
		if other.ClientID == client && other.Mode != "permits" {
			n.Needs = append(n.Needs, waitsfor.ID{Lock: w.Name, Attempt: other.HolderID})
		}
	}
	for _, other := range s.Waiters {
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
	number uint64 // of this wait inside its process
	cancel context.CancelCauseFunc

	mu      sync.Mutex // guards the fields below; it is locked before that of a board
	attempt string     // its attempt in a wait queue; empty while it waits for its process
	since   time.Time  // when it began to wait
	timer   *time.Timer
	held    []*leaseState // those under which the client's record shows it
	over    bool

	told, seen string // edges of the deadlock that it has reported, and that it saw last; for look alone
}

// chainWaits are the waits of code that holds leases of one client, by the attempts of these.
type chainWaits struct {
	mu     sync.Mutex
	number uint64
	all    map[string][]chainNote
}

// mostWaits is how many waits of code that holds one lock are shown.
const mostWaits = 8

type chainKey struct{}

// enterChain prepares an acquisition under the context of leases. ctx bounds the wait, and so
// does the returned context. Nothing is sent and no timer is set until it waits.
func (s *lock) enterChain(ctx, parent context.Context) (context.Context, *chainWait) {
	c := s.client
	w := &chainWait{lock: s, parent: parent}
	c.chains.mu.Lock()
	c.chains.number++
	w.number = c.chains.number
	c.chains.mu.Unlock()
	if s.breaks {
		ctx, w.cancel = context.WithCancelCause(ctx)
	}
	return context.WithValue(ctx, chainKey{}, w), w
}

// waitsInChain is called when an acquisition begins to wait: in a queue of the server under
// an attempt, or for its own process if attempt is empty.
func waitsInChain(ctx context.Context, attempt string) {
	w, ok := ctx.Value(chainKey{}).(*chainWait)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := w.attempt != attempt && attempt != ""
	if changed {
		w.attempt = attempt
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
	w.timer = time.AfterFunc(leasetime.LookAfter(w.lock.ttl)-leasetime.ShowWaitAfter(w.lock.ttl), w.look)
}

// note shows the wait under each live lease. The caller holds w.mu.
func (w *chainWait) note() {
	var live []*leaseState
	for t := leaseOf(w.parent); t != nil; t = t.outerLease() {
		if t.ended() == nil {
			live = append(live, t)
		}
	}
	for _, t := range w.held {
		if !slices.Contains(live, t) {
			t.hold.lock.client.chains.remove(t.hold, w)
		}
	}
	w.held = live
	for _, t := range live {
		t.hold.lock.client.chains.add(t.hold, w)
	}
}

// leave ends the wait, and returns the error of the call.
func (w *chainWait) leave(ctx context.Context, err error) error {
	w.mu.Lock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	for _, t := range w.held {
		t.hold.lock.client.chains.remove(t.hold, w)
	}
	w.held = nil
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

// chainNote is a wait as it is shown.
type chainNote struct {
	by   *chainWait
	note wire.WaitNote
}

// add shows a wait under a hold, or shows it anew. The caller holds the wait's mutex.
func (b *chainWaits) add(h *hold, w *chainWait) {
	b.change(h, w, &chainNote{w, wire.WaitNote{
		Name: w.lock.name, ID: w.id().Attempt, Since: w.since, Breaks: w.cancel != nil,
	}})
}

// remove ends what add did.
func (b *chainWaits) remove(h *hold, w *chainWait) { b.change(h, w, nil) }

// change replaces the note of a wait. The client writes the notes in the background.
func (b *chainWaits) change(h *hold, w *chainWait, to *chainNote) {
	number := wire.NumberOf(h.attempt)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = make(map[string][]chainNote)
	}
	b.all[number] = slices.DeleteFunc(b.all[number], func(one chainNote) bool { return one.by == w })
	if to != nil {
		b.all[number] = append(b.all[number], *to)
	}
	registration, field := h.lock.client.registration, wire.WaitsField(number)
	if len(b.all[number]) == 0 {
		delete(b.all, number)
		registration.Unnote(field, b, true)
		return
	}
	registration.Note(field, b.word(number), b, func() bool { return true })
}

// word is the note on an attempt; empty if there is none. The caller holds b.mu.
func (b *chainWaits) word(number string) string {
	var notes []wire.WaitNote
	for _, one := range b.all[number][:min(len(b.all[number]), mostWaits)] {
		notes = append(notes, one.note)
	}
	return wire.Waits(notes)
}

// now replaces, in notes of the client itself, the waits that the server knows by those that
// there are.
func (b *chainWaits) now(notes map[string]string, fields []string) map[string]string {
	own := make(map[string]string)
	maps.Copy(own, notes)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, field := range fields {
		if number, ok := strings.CutPrefix(field, wire.WaitsField("")); ok {
			own[field] = b.word(number)
		}
	}
	return own
}

var deadlockLabel = label.New("deadlock check")

// look looks for a deadlock in the background, and again after a while.
func (w *chainWait) look() {
	w.lock.client.life.Go(deadlockLabel, func() {
		w.mu.Lock()
		over, id := w.over, w.id()
		if !over {
			w.note() // a lease may have ended
		}
		w.mu.Unlock()
		if over {
			return
		}
		w.check(id)
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.over {
			w.timer = time.AfterFunc(leasetime.LookAfter(w.lock.ttl), w.look)
		}
	})
}

const (
	// mostRead bounds how many locks one look reads.
	mostRead = 64
	// lookWithin bounds one look.
	lookWithin = 5 * time.Second
)

// check reads the locks that the wait depends on. If it finds a deadlock, it reads them
// again: what is there twice existed in between, all of it at the same time. A wait inside
// another process is only what its client says, and that may be late by a moment. So such a
// deadlock counts if the next look finds it too.
func (w *chainWait) check(id waitsfor.ID) {
	c := w.lock.client
	ctx, cancel := context.WithTimeout(c.life.Context(), lookWithin)
	defer cancel()
	_, first, found := findKnot(ctx, c, id)
	if !found {
		w.seen = ""
		return
	}
	g, k, found := findKnot(ctx, c, id)
	if !found || !slices.Equal(first.Edges, k.Edges) {
		w.seen = ""
		return
	}
	edges := strings.Join(k.Edges, "\n")
	seen := w.seen
	if w.seen = edges; seen != edges && hearsay(c, k) {
		return
	}
	err := &DeadlockError{Name: id.Lock, Cycle: g.cycle(k)}
	if w.told != edges {
		w.told = edges
		c.events.tell(news{
			event: Event{
				Kind: EventDeadlock, Context: w.parent, Name: id.Lock, Mode: w.lock.mode(),
				HolderID: err.Cycle[0].HolderID, Waited: true, Wait: time.Since(w.since), Err: err,
			},
			log: func(log *slog.Logger) {
				log.Warn("holdfast: deadlock: calls wait for each other",
					"lock", id.Lock, "cycle", cycleText(err.Cycle), "hint", Hint(err))
			},
		})
	}
	if chosen, ok := g.victim(k); ok && chosen == id && w.cancel != nil {
		w.cancel(err)
	}
}

// hearsay reports whether a wait in the knot is one inside another process.
func hearsay(c *Client, k waitsfor.Knot) bool {
	return slices.ContainsFunc(k.Members, func(id waitsfor.ID) bool {
		client, local := wire.LocalClient(id.Attempt)
		return local && client != c.id
	})
}

// findKnot reads the lock that is waited for, and on from there the locks that its holders
// wait for.
func findKnot(ctx context.Context, c *Client, id waitsfor.ID) (g waitGraph, k waitsfor.Knot, found bool) {
	var locks []LockInfo
	known := new(registrations)
	names := []string{id.Lock}
	for i := 0; i < len(names) && i < mostRead; i++ {
		s, err := readLock(ctx, c, names[i], known)
		if err != nil {
			return g, k, false // what cannot be read is looked at again later
		}
		locks = append(locks, s)
		for _, h := range s.Holders {
			for _, w := range h.WaitsFor {
				if !slices.Contains(names, w.Name) {
					names = append(names, w.Name)
				}
			}
		}
	}
	g = graphOf(locks)
	k, found = g.nodes.Knot(id)
	return g, k, found
}
