package look

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// graphJSON is a line of list --graph -o json: a contract. A line has a lock and its waiters, or
// a deadlock.
type graphJSON struct {
	Name     string            `json:"name,omitempty"`
	Holders  []string          `json:"holders,omitempty"`
	Waiters  []graphWaiterJSON `json:"waiters,omitempty"`
	Deadlock []lockjson.Wait   `json:"deadlock,omitempty"`
}

type graphWaiterJSON struct {
	Client   string   `json:"client"`
	HolderID string   `json:"holder_id"`
	WaitMS   int64    `json:"wait_ms"`
	Holds    []string `json:"holds"`
}

// printGraph prints the waits-for graph of the locks that match.
func (l *lister) printGraph(ctx context.Context) error {
	var locks []holdfast.LockInfo
	bad, listErr := eachLock(ctx, l.server, l.pattern, func(state holdfast.LockInfo, bad *exit.Error) {
		if bad == nil {
			locks = append(locks, state)
		}
	})
	if listErr != nil && len(locks) == 0 {
		return listErr
	}
	slices.SortFunc(locks, func(a, b holdfast.LockInfo) int { return strings.Compare(a.Name, b.Name) })
	deadlocks, err := deadlocksOf(ctx, l.server.Client, locks)
	if err != nil {
		return cmp.Or(listErr, err)
	}
	write := writeGraph
	if l.output == "json" {
		write = writeGraphJSON
	}
	return cmp.Or(write(l.w, locks, deadlocks), listErr, bad.err())
}

// heldByWaiters returns, for each attempt that waits, the locks that its code holds.
func heldByWaiters(locks []holdfast.LockInfo) map[string][]string {
	held := make(map[string][]string)
	for _, s := range locks {
		for _, h := range s.Holders {
			for _, w := range h.WaitsFor {
				held[w.HolderID] = append(held[w.HolderID], s.Name)
			}
		}
	}
	return held
}

func writeGraph(w io.Writer, locks []holdfast.LockInfo, deadlocks [][]holdfast.WaitInfo) error {
	var b strings.Builder
	held := heldByWaiters(locks)
	for _, s := range locks {
		if describe.Waiting(s) == 0 || s.Job != nil {
			continue
		}
		var holders []string
		for _, h := range s.Holders {
			holders = append(holders, describe.Who(h.Client, h.ClientID))
		}
		fmt.Fprintf(&b, "%s  held by %s\n", say.OneLine(s.Name), cmp.Or(strings.Join(holders, ", "), "nobody"))
		for i, q := range s.Waiters {
			branch := "├"
			if i == len(s.Waiters)-1 {
				branch = "└"
			}
			fmt.Fprintf(&b, "  %s %s waits %s", branch, describe.Who(q.Client, q.ClientID), describe.Length(q.Waited))
			if names := held[q.HolderID]; len(names) > 0 {
				fmt.Fprintf(&b, ", holds %s", say.OneLine(strings.Join(names, ", ")))
			}
			b.WriteString("\n")
		}
	}
	if b.Len() == 0 {
		b.WriteString("nobody waits\n")
	}
	for _, cycle := range deadlocks {
		fmt.Fprintf(&b, "\ndeadlock: %s\nto end it: holdfast evict %s\n",
			describe.Cycle(cycle), say.OneLine(cycle[0].Name))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeGraphJSON(w io.Writer, locks []holdfast.LockInfo, deadlocks [][]holdfast.WaitInfo) error {
	held := heldByWaiters(locks)
	for _, s := range locks {
		if describe.Waiting(s) == 0 || s.Job != nil {
			continue
		}
		line := graphJSON{Name: s.Name}
		for _, h := range s.Holders {
			line.Holders = append(line.Holders, describe.Who(h.Client, h.ClientID))
		}
		for _, q := range s.Waiters {
			line.Waiters = append(line.Waiters, graphWaiterJSON{
				describe.Who(q.Client, q.ClientID), q.HolderID, int64(q.Waited / time.Millisecond),
				append([]string{}, held[q.HolderID]...),
			})
		}
		if err := screen.WriteJSON(w, line); err != nil {
			return err
		}
	}
	for _, cycle := range deadlocks {
		if err := screen.WriteJSON(w, graphJSON{Deadlock: lockjson.OfDeadlock(cycle)}); err != nil {
			return err
		}
	}
	return nil
}
