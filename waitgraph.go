// waitGraph: which calls wait for which, found in the states of several locks.

package holdfast

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/waitsfor"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// WaitInfo is a wait of code that holds a lock: one that its client reports ([Holder.WaitsFor]), or one of
// a deadlock ([DeadlockError], [Deadlocks]).
type WaitInfo struct {
	Name     string      // the lock that is waited for
	Holds    string      // a lock that the same call chain holds; empty if it is only in a queue in front of others
	HolderID string      // the attempt that waits; empty if it waits for another goroutine of its process
	ClientID string      // the client's ID
	Client   *ClientInfo // nil if the client has not registered
	Since    time.Time   // of a report, by the client's clock; of a wait in a queue, by the server's
	Breaks   bool        // it has the option BreakDeadlock

	id      string // also of a wait inside a process
	repeats uint64 // how often the client has said so again
}

func (w WaitInfo) String() string {
	who := "client " + w.ClientID
	if w.Client != nil {
		who = w.Client.String()
	}
	if w.Holds == "" {
		return fmt.Sprintf("%s waits for %q", who, w.Name)
	}
	return fmt.Sprintf("%s holds %q and waits for %q", who, w.Holds, w.Name)
}

// Deadlocks finds the deadlocks among the states of locks, as [Client.List] yields them or
// [Client.Inspect] returns them. It sends nothing. For each deadlock, it returns one cycle of
// waits.
//
// The states were read at different moments, and a client reports its waits with a delay. So a
// deadlock that Deadlocks finds may be over. If states that were read some seconds later show
// it again, the deadlock is most likely real. A waiting call needs more proof than this before
// it reports an observe.EventDeadlock. [BreakDeadlock] says which deadlocks can be seen.
func Deadlocks(locks []LockInfo) (found [][]WaitInfo) {
	g := graphOf(locks, func(waitsfor.Edge) bool { return true })
	for _, k := range g.nodes.Knots() {
		found = append(found, g.cycle(k))
	}
	return found
}

// waitGraph is the waits-for graph of several locks.
type waitGraph struct {
	nodes  waitsfor.Graph
	waits  map[waitsfor.ID]WaitInfo
	proven func(waitsfor.Edge) bool // see [waitsfor.Edge]
}

// graphOf makes the graph of what is proven. A hold ends after the waits of code that holds it.
// A waiter is granted after the holders and the waiters in front of it.
func graphOf(locks []LockInfo, proven func(waitsfor.Edge) bool) waitGraph {
	g := waitGraph{nodes: waitsfor.Graph{}, waits: map[waitsfor.ID]WaitInfo{}, proven: proven}
	byName := make(map[string]*LockInfo, len(locks))
	alive := make(map[waitsfor.ID]bool) // waiters of which their clients speak
	for i := range locks {
		if info := &locks[i]; info.Job == nil { // nobody waits in the queue of a job
			byName[info.Name] = info
			for e := range info.reportedWaits() {
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

// reportedWaits yields what clients say of code that holds the lock, and how often they have said it.
func (info LockInfo) reportedWaits() iter.Seq2[waitsfor.Edge, uint64] {
	return func(yield func(waitsfor.Edge, uint64) bool) {
		for _, h := range info.Holders {
			from := waitsfor.ID{Lock: info.Name, Attempt: h.HolderID}
			for _, w := range h.WaitsFor {
				if !yield(waitsfor.Edge{From: from, To: waitsfor.ID{Lock: w.Name, Attempt: w.id}}, w.repeats) {
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
		g.waits[id] = WaitInfo{
			Name: info.Name, HolderID: w.HolderID, ClientID: w.ClientID, Client: w.Client, Since: w.Since,
		}
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
			known.Since = w.Since
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
func (g *waitGraph) addLocal(id waitsfor.ID, client string, w WaitInfo, h Holder, info *LockInfo) {
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
	g.waits[id] = WaitInfo{Name: w.Name, ClientID: client}
	if client == h.ClientID {
		known := g.waits[id]
		known.Client = h.Client
		g.waits[id] = known
	}
}

// cycle describes the cycle of a knot. It begins with the first wait in it.
func (g *waitGraph) cycle(k waitsfor.Knot) (list []WaitInfo) {
	for i, id := range k.Cycle {
		w, waits := g.waits[id]
		if !waits {
			continue
		}
		before := k.Cycle[(i+len(k.Cycle)-1)%len(k.Cycle)]
		if _, queued := g.waits[before]; !queued {
			w.Holds = before.Lock
		}
		list = append(list, w)
	}
	return list
}

// victim returns the wait that ends: the youngest of those that asked for it. Everybody who
// sees the knot finds the same one. It returns false if none asked for it.
func (g *waitGraph) victim(k waitsfor.Knot) (chosen waitsfor.ID, found bool) {
	for _, id := range k.Members { // in order, so that a tie has one winner
		w, waits := g.waits[id]
		if waits && w.Breaks && (!found || w.Since.After(g.waits[chosen].Since)) {
			chosen, found = id, true
		}
	}
	return chosen, found
}

// marksOf are the marks of all edges that need a proof: how often a client has said that its
// code waits, and until when a waiter keeps its position.
func marksOf(locks []LockInfo) map[waitsfor.Edge]int64 {
	marks := make(map[waitsfor.Edge]int64)
	for i := range locks {
		info := &locks[i]
		for e, repeats := range info.reportedWaits() {
			marks[e] = int64(repeats)
		}
		for _, q := range info.Waiters {
			marks[waitsfor.Edge{To: waitsfor.ID{Lock: info.Name, Attempt: q.HolderID}}] = q.until
		}
	}
	return marks
}
