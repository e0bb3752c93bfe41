// Package waitsfor finds deadlocks in a graph of what waits for what. The package is pure: it
// is given the graph, and reads no clock.
//
// A node is something that may never go on: a hold that is not released, or a waiter that is
// not granted. A node is stuck if it can go on only after nodes that are stuck. A deadlock is
// a set of stuck nodes that all reach each other.
package waitsfor

import (
	"cmp"
	"slices"
	"strings"
)

// ID names a node. Two acquisitions never have the same one.
type ID struct {
	Lock    string
	Attempt string
}

func (id ID) String() string { return id.Lock + " " + id.Attempt }

func compare(a, b ID) int {
	return cmp.Or(strings.Compare(a.Lock, b.Lock), strings.Compare(a.Attempt, b.Attempt))
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

// edges are the nodes for which a node waits.
func (n Node) edges() []ID {
	list := slices.Clone(n.Needs)
	for _, s := range n.Pool {
		list = append(list, s.ID)
	}
	slices.SortFunc(list, compare)
	return slices.Compact(list)
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
	for id := range g {
		stuck[id] = true
	}
	for changed := true; changed; {
		changed = false
		for id := range stuck {
			if !g[id].waits(stuck) {
				delete(stuck, id)
				changed = true
			}
		}
	}
	return stuck
}

// Knot is what a stuck node and the others of its deadlock wait for.
type Knot struct {
	Members []ID // those that reach the node, and that it reaches; sorted
	Cycle   []ID // a shortest way from the node back to itself, which begins with it
	// Edges are all edges between stuck nodes that the node reaches, as "A > B", sorted. They
	// prove the deadlock: while they all exist, none of these nodes goes on.
	Edges []string
}

// Knot returns the deadlock of a node. It returns false if the node is in none. A node that
// only waits for a deadlock of others is in none.
func (g Graph) Knot(id ID) (Knot, bool) {
	stuck := g.Stuck()
	if !stuck[id] {
		return Knot{}, false
	}
	// The way from the node to each that it reaches, breadth first.
	before, order := map[ID]ID{}, []ID{id}
	var k Knot
	back := map[ID][]ID{}
	for i := 0; i < len(order); i++ {
		at := order[i]
		for _, next := range g[at].edges() {
			if !stuck[next] {
				continue
			}
			k.Edges = append(k.Edges, at.String()+" > "+next.String())
			back[next] = append(back[next], at)
			if next == id && k.Cycle == nil {
				for step := at; step != id; step = before[step] {
					k.Cycle = append(k.Cycle, step)
				}
				k.Cycle = append(k.Cycle, id)
				slices.Reverse(k.Cycle)
			}
			if _, seen := before[next]; !seen && next != id {
				before[next] = at
				order = append(order, next)
			}
		}
	}
	if k.Cycle == nil {
		return Knot{}, false
	}
	reaching := map[ID]bool{id: true}
	for list := []ID{id}; len(list) > 0; list = list[1:] {
		for _, prev := range back[list[0]] {
			if !reaching[prev] {
				reaching[prev] = true
				list = append(list, prev)
			}
		}
	}
	for member := range reaching {
		k.Members = append(k.Members, member)
	}
	slices.SortFunc(k.Members, compare)
	slices.Sort(k.Edges)
	return k, true
}

// Knots returns all deadlocks, in the order of their first members.
func (g Graph) Knots() (list []Knot) {
	stuck := g.Stuck()
	ids := make([]ID, 0, len(stuck))
	for id := range stuck {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, compare)
	done := map[ID]bool{}
	for _, id := range ids {
		if done[id] {
			continue
		}
		if k, ok := g.Knot(id); ok {
			for _, member := range k.Members {
				done[member] = true
			}
			list = append(list, k)
		}
	}
	return list
}
