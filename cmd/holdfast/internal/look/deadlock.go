package look

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
)

// mostAround bounds how many locks a command reads, beyond those that it shows, to find deadlocks.
const mostAround = 64

// mayBeStuck reports whether a lock can be part of a deadlock: code that holds the lock waits for another
// one. Every lock of a deadlock has such a holder, so most locks cost nothing.
func mayBeStuck(s holdfast.LockInfo) bool {
	return slices.ContainsFunc(s.Holders, func(h holdfast.Holder) bool { return len(h.WaitsFor) > 0 })
}

// deadlocksOf returns the deadlocks that the shown locks are part of. It reads the locks that code under
// these waits for, and so on, and reads the locks of each deadlock once more. What a client says may be
// late by a moment, so the answer is for people, and no proof.
func deadlocksOf(ctx context.Context, c *holdfast.Client, shown []holdfast.LockInfo) ([][]holdfast.WaitInfo, error) {
	known := map[string]bool{}
	var locks []holdfast.LockInfo
	for _, s := range shown {
		if known[s.Name] = known[s.Name] || s.Job == nil; s.Job == nil && mayBeStuck(s) {
			locks = append(locks, s)
		}
	}
	listed, around := len(locks), 0
	for i := 0; i < len(locks); i++ {
		for _, name := range waitedFor(locks[i]) {
			if known[name] || around == mostAround {
				continue
			}
			known[name] = true
			around++
			s, err := inspectAround(ctx, c, name)
			if err != nil {
				return nil, err
			}
			if mayBeStuck(s) {
				locks = append(locks, s)
			}
		}
	}
	isShown := map[string]bool{}
	for _, s := range locks[:listed] {
		isShown[s.Name] = true
	}
	var found [][]holdfast.WaitInfo
	for _, cycle := range holdfast.Deadlocks(locks) {
		if slices.ContainsFunc(cycleNames(cycle), func(name string) bool { return isShown[name] }) {
			found = append(found, cycle)
		}
	}
	return confirmed(ctx, c, found)
}

// deadlockOf returns the deadlock that a lock is part of, or nil.
func deadlockOf(ctx context.Context, c *holdfast.Client, state holdfast.LockInfo) ([]holdfast.WaitInfo, error) {
	if !mayBeStuck(state) {
		return nil, nil
	}
	if state.Waiting > 0 && state.Waiters == nil { // the answer of Client.Holders
		var err error
		if state, err = c.Inspect(ctx, state.Name); err != nil {
			return nil, err
		}
	}
	found, err := deadlocksOf(ctx, c, []holdfast.LockInfo{state})
	if len(found) == 0 || err != nil {
		return nil, err
	}
	return found[0], nil
}

// confirmed reads the locks of each deadlock again, and returns the deadlocks that are still there.
func confirmed(
	ctx context.Context, c *holdfast.Client, found [][]holdfast.WaitInfo,
) (twice [][]holdfast.WaitInfo, err error) {
	for _, cycle := range found {
		var again []holdfast.LockInfo
		for _, name := range cycleNames(cycle) {
			s, err := inspectAround(ctx, c, name)
			if err != nil {
				return nil, err
			}
			again = append(again, s)
		}
		for _, same := range holdfast.Deadlocks(again) {
			equal := func(a, b holdfast.WaitInfo) bool { return a.HolderID == b.HolderID }
			if slices.EqualFunc(same, cycle, equal) {
				twice = append(twice, same)
			}
		}
	}
	return twice, nil
}

// inspectAround reads a lock that is not the one the user asked for. A record that cannot be read hides
// no other: it is not part of the graph.
func inspectAround(ctx context.Context, c *holdfast.Client, name string) (holdfast.LockInfo, error) {
	s, err := c.Inspect(ctx, name)
	if _, refused := errors.AsType[*holdfast.ServerError](err); refused {
		return holdfast.LockInfo{Name: name}, nil
	}
	return s, err
}

// waitedFor are the locks that code under this one waits for.
func waitedFor(s holdfast.LockInfo) (names []string) {
	for _, h := range s.Holders {
		for _, w := range h.WaitsFor {
			names = append(names, w.Name)
		}
	}
	return names
}

// cycleNames are the locks of a deadlock.
func cycleNames(cycle []holdfast.WaitInfo) (names []string) {
	for _, w := range cycle {
		names = append(names, w.Name)
		if w.Holds != "" {
			names = append(names, w.Holds)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// byLock is the deadlock of each lock that is part of one.
func byLock(found [][]holdfast.WaitInfo) map[string][]holdfast.WaitInfo {
	of := map[string][]holdfast.WaitInfo{}
	for _, cycle := range found {
		for _, name := range cycleNames(cycle) {
			of[name] = cycle
		}
	}
	return of
}

// deadlockLines are the lines of status and inspect.
func deadlockLines(cycle []holdfast.WaitInfo) string {
	var b strings.Builder
	for _, wait := range cycle {
		b.WriteString("  deadlock " + say.OneLine(wait.String()) + "\n")
	}
	return b.String()
}

// warnOf tells of the deadlocks in a listing, whose rows have no room for them.
func warnOf(p *say.Printer, found [][]holdfast.WaitInfo) {
	for _, cycle := range found {
		p.Warnf("if the work under one of these locks can be repeated, end it: holdfast evict "+
			say.OneLine(cycle[0].Name), "deadlock: %s", describe.Cycle(cycle))
	}
}
