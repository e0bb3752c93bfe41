// Package waitsfor finds deadlocks in a waits-for graph. The package is pure: it is given the
// graph, and reads no clock.
//
// A node is something that may never go on: a hold that is not released, or a waiter that is
// not granted. A node is stuck if it can go on only after nodes that are stuck. A deadlock is
// a set of nodes that all reach each other, and that are stuck even if all others go on.
package waitsfor

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
)

// ID names a node. Two acquisitions never have the same one.
type ID struct {
	Lock    string
	Attempt string
}

// sorted returns the IDs in the order of their locks.
func sorted(ids iter.Seq[ID]) []ID {
	return slices.SortedFunc(ids, func(a, b ID) int {
		return cmp.Or(strings.Compare(a.Lock, b.Lock), strings.Compare(a.Attempt, b.Attempt))
	})
}

// Node says what a node waits for. Without Needs and Pool it waits for nothing.
type Node struct {
	Needs []ID // it waits for all of these

	// Pool are holders of permits. The node goes on when Want permits are free: those that
	// are Free now, and those of the holders that go on.
	Pool       []Share
	Want, Free int
}

// Share is a part of the permits of a semaphore.
type Share struct {
	ID      ID
	Permits int
}

// Graph has the nodes that are known. A node that is not in it waits for nothing.
type Graph map[ID]Node

// edges yields the nodes for which a node waits, in any order. One may come twice.
func (n Node) edges() iter.Seq[ID] {
	return func(yield func(ID) bool) {
		for _, id := range n.Needs {
			if !yield(id) {
				return
			}
		}
		for _, s := range n.Pool {
			if !yield(s.ID) {
				return
			}
		}
	}
}

// waits reports whether the node waits, if the nodes in stuck never go on.
func (n Node) waits(stuck map[ID]bool) bool {
	for _, id := range n.Needs {
		if stuck[id] {
			return true
		}
	}
	free := n.Free
	for _, s := range n.Pool {
		if !stuck[s.ID] {
			free += s.Permits
		}
	}
	return free < n.Want
}

// Stuck returns the nodes that can never go on by themselves. It begins with all nodes, and
// takes away those that do not wait for the rest, until nothing changes.
func (g Graph) Stuck() map[ID]bool {
	stuck := make(map[ID]bool, len(g))
	waiting := make(map[ID][]ID, len(g)) // for each node, those that wait for it
	list := make([]ID, 0, len(g))        // those to look at
	for id, n := range g {
		stuck[id] = true
		list = append(list, id)
		for next := range n.edges() {
			waiting[next] = append(waiting[next], id)
		}
	}
	for len(list) > 0 {
		id := list[len(list)-1]
		list = list[:len(list)-1]
		if stuck[id] && !g[id].waits(stuck) {
			delete(stuck, id)
			list = append(list, waiting[id]...)
		}
	}
	return stuck
}

// Knot is the deadlock of a node.
type Knot struct {
	Members []ID // those that reach the node, and that it reaches; sorted
	Cycle   []ID // a shortest way from the node back to itself, which begins with it
}

// Knot returns the deadlock of a node. It returns false if the node is in none. A node that
// only waits for a deadlock of others is in none.
func (g Graph) Knot(id ID) (Knot, bool) { return g.knot(id, g.Stuck()) }

func (g Graph) knot(id ID, stuck map[ID]bool) (k Knot, found bool) {
	for stuck[id] {
		members, cycle := g.component(id, stuck)
		if cycle == nil {
			break
		}
		// A wait for permits may end by others, although they are stuck now too: they may be
		// in another deadlock, and somebody breaks that.
		alone := make(Graph, len(members))
		for member := range members {
			alone[member] = g[member]
		}
		if stuck = alone.Stuck(); len(stuck) == len(members) {
			return Knot{sorted(maps.Keys(members)), cycle}, true
		}
	}
	return Knot{}, false
}

// component returns the nodes among the stuck ones that reach a node and that it reaches. cycle
// is a shortest way from the node back to itself, or nil.
func (g Graph) component(id ID, stuck map[ID]bool) (members map[ID]bool, cycle []ID) {
	// The way from the node to each that it reaches, breadth first.
	before, reached := map[ID]ID{}, []ID{id}
	back := map[ID][]ID{}
	for i := 0; i < len(reached); i++ {
		at := reached[i]
		for _, next := range sorted(g[at].edges()) {
			if !stuck[next] {
				continue
			}
			back[next] = append(back[next], at)
			if next == id && cycle == nil {
				for step := at; step != id; step = before[step] {
					cycle = append(cycle, step)
				}
				cycle = append(cycle, id)
				slices.Reverse(cycle)
			}
			if _, seen := before[next]; !seen && next != id {
				before[next] = at
				reached = append(reached, next)
			}
		}
	}
	members = map[ID]bool{id: true}
	for list := []ID{id}; len(list) > 0; list = list[1:] {
		for _, prev := range back[list[0]] {
			if !members[prev] {
				members[prev] = true
				list = append(list, prev)
			}
		}
	}
	return members, cycle
}

// Knots returns all deadlocks, in the order of their first members.
func (g Graph) Knots() (list []Knot) {
	stuck, done := g.Stuck(), map[ID]bool{}
	for _, id := range sorted(maps.Keys(stuck)) {
		if done[id] {
			continue
		}
		if k, ok := g.knot(id, stuck); ok {
			for _, member := range k.Members {
				done[member] = true
			}
			list = append(list, k)
		}
	}
	return list
}
