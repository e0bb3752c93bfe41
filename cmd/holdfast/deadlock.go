package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// orderHint is what to do about a deadlock of runs inside runs.
const orderHint = "name the locks in the same order in all scripts, or together: holdfast run A B -- COMMAND; " +
	"holdfast list --graph shows the waiters and what they hold"

// deadlockError is the error for a wait in a deadlock, in the words of the tool.
func deadlockError(code int, dead *holdfast.DeadlockError) error {
	return &exitError{code, errors.New("deadlock: " + cycleText(dead.Cycle)), orderHint}
}

// cycleText is a cycle on one line.
func cycleText(cycle []holdfast.WaitInfo) string {
	waits := make([]string, len(cycle))
	for i, w := range cycle {
		waits[i] = oneLine(w.String())
	}
	return strings.Join(waits, "; ")
}

// cycleJSON is a cycle as list --graph and inspect write it.
func cycleJSON(cycle []holdfast.WaitInfo) []graphDeadlockJSON {
	list := []graphDeadlockJSON{}
	for _, w := range cycle {
		list = append(list, graphDeadlockJSON{whoIs(w.Client, w.ClientID), w.Holds, w.Name, w.Breaks})
	}
	return list
}

// confirmed reads the locks of each deadlock again, and returns those that are there twice. What
// a client says may be late by a moment, so this is for people, and no proof.
func confirmed(
	ctx context.Context, c *holdfast.Client, found [][]holdfast.WaitInfo,
) (twice [][]holdfast.WaitInfo, err error) {
	for _, cycle := range found {
		var again []holdfast.LockInfo
		for _, name := range cycleNames(cycle) {
			s, err := c.Inspect(ctx, name)
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

// mostAround bounds how many locks inspect reads to find a deadlock, as the library does.
const mostAround = 64

// deadlockOf returns the deadlock that a lock is part of, or nil. It reads the locks that code
// under this one waits for, and so on: without such code, none.
func deadlockOf(ctx context.Context, c *holdfast.Client, state holdfast.LockInfo) ([]holdfast.WaitInfo, error) {
	locks, names := []holdfast.LockInfo{state}, []string{state.Name}
	for i := 0; i < len(names) && i < mostAround; i++ {
		if i > 0 {
			s, err := c.Inspect(ctx, names[i])
			if err != nil {
				return nil, err
			}
			locks = append(locks, s)
		}
		for _, h := range locks[i].Holders {
			for _, w := range h.WaitsFor {
				if !slices.Contains(names, w.Name) {
					names = append(names, w.Name)
				}
			}
		}
	}
	found := slices.DeleteFunc(holdfast.Deadlocks(locks), func(cycle []holdfast.WaitInfo) bool {
		return !slices.Contains(cycleNames(cycle), state.Name)
	})
	twice, err := confirmed(ctx, c, found)
	if len(twice) == 0 || err != nil {
		return nil, err
	}
	return twice[0], nil
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

// showDeadlock prints that this wait is in a deadlock. With --break-deadlock the wait ends, or
// that of another run, which prints it.
func (r *run) showDeadlock(err error) {
	if dead, ok := errors.AsType[*holdfast.DeadlockError](err); ok && !r.breakDeadlock && r.say.level < levelVerbose {
		r.say.warnf(orderHint+"; --break-deadlock ends the youngest wait", "%v", deadlockError(codeBusy, dead))
	}
}
