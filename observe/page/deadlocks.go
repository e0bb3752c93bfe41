package page

import (
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// waitJSON is one of the waits of a deadlock, as holdfast inspect -o json names it.
type waitJSON struct {
	Client string `json:"client"`
	Holds  string `json:"holds"` // a lock that the same code holds; empty: it is only in front of another waiter
	Name   string `json:"waits_for"`
	Breaks bool   `json:"breaks"`
}

// waitGraph is what a read told of waiters that hold locks themselves.
type waitGraph struct {
	held      map[string][]string   // by the attempt of a waiter: the locks that its code holds
	deadlocks map[string][]waitJSON // by the name of a lock that is part of one
	suspected []string              // the deadlocks of this read, each as its waits
}

// newWaitGraph finds the deadlocks. One counts if the read before has found it, too: what a
// client says may be late by a moment.
func newWaitGraph(states []reading, before waitGraph) waitGraph {
	g := waitGraph{held: map[string][]string{}, deadlocks: map[string][]waitJSON{}}
	for _, s := range states {
		for _, h := range s.state.Holders {
			for _, w := range h.WaitsFor {
				g.held[w.HolderID] = append(g.held[w.HolderID], s.state.Name)
			}
		}
	}
	if len(g.held) == 0 {
		return g // code that holds a lock waits for nothing
	}
	locks := make([]holdfast.LockInfo, len(states))
	for i, s := range states {
		locks[i] = s.state
	}
	for _, cycle := range holdfast.Deadlocks(locks) {
		var ids []string
		var waits []waitJSON
		for _, w := range cycle {
			ids = append(ids, w.Name+" "+w.HolderID)
			waits = append(waits, waitJSON{lockjson.OfClient(w.Client, w.ClientID).Who(), w.Holds, w.Name, w.Breaks})
		}
		suspected := strings.Join(ids, "\n")
		g.suspected = append(g.suspected, suspected)
		if !slices.Contains(before.suspected, suspected) {
			continue
		}
		for _, w := range waits {
			g.deadlocks[w.Name] = waits
			if w.Holds != "" {
				g.deadlocks[w.Holds] = waits
			}
		}
	}
	return g
}

// mark writes what the graph says of a lock into it.
func (g waitGraph) mark(l *lockJSON) {
	if l.Deadlock = []waitJSON{}; l.Job == nil && g.deadlocks[l.Name] != nil {
		l.Deadlock = g.deadlocks[l.Name]
	}
	for i := range l.Waiters {
		w := &l.Waiters[i]
		w.Holds = append([]string{}, g.held[w.ID]...)
		slices.Sort(w.Holds)
	}
}
