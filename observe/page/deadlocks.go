package page

import (
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// waitGraph is what a read told of waiters that hold locks themselves.
type waitGraph struct {
	held      map[string][]string        // by the attempt of a waiter: the locks that its code holds
	deadlocks map[string][]lockjson.Wait // by the name of a lock that is part of one
	number    int                        // of deadlocks
	suspected []string                   // the deadlocks of this read, each as its waits
}

// newWaitGraph finds the deadlocks. One counts if the read before has found it, too: what a
// client says may be late by a moment. Every lock of a deadlock is held by code that waits for another
// lock, so the others are not looked at.
func newWaitGraph(states []reading, before waitGraph) waitGraph {
	g := waitGraph{held: map[string][]string{}, deadlocks: map[string][]lockjson.Wait{}}
	var locks []holdfast.LockInfo
	for _, s := range states {
		waits := false
		for _, h := range s.state.Holders {
			for _, w := range h.WaitsFor {
				g.held[w.HolderID], waits = append(g.held[w.HolderID], s.state.Name), true
			}
		}
		if waits {
			locks = append(locks, s.state)
		}
	}
	for _, cycle := range holdfast.Deadlocks(locks) {
		var ids []string
		for _, w := range cycle {
			ids = append(ids, w.Name+" "+w.HolderID)
		}
		suspected := strings.Join(ids, "\n")
		g.suspected = append(g.suspected, suspected)
		if !slices.Contains(before.suspected, suspected) {
			continue
		}
		g.number++
		waits := lockjson.OfDeadlock(cycle)
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
	if l.Deadlock = []lockjson.Wait{}; l.Job == nil && g.deadlocks[l.Name] != nil {
		l.Deadlock = g.deadlocks[l.Name]
	}
	for i := range l.Waiters {
		w := &l.Waiters[i]
		w.Holds = append([]string{}, g.held[w.ID]...)
		slices.Sort(w.Holds)
	}
}
