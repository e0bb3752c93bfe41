package main

import (
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// orderHint is what to do about a deadlock of runs inside runs.
const orderHint = "name the locks in the same order in all scripts, or together: holdfast run A B -- COMMAND; " +
	"holdfast list --graph shows the waiters and what they hold"

// deadlockError is the error for a wait in a deadlock, in the words of the tool.
func deadlockError(code int, dead *holdfast.DeadlockError) error {
	waits := make([]string, len(dead.Cycle))
	for i, w := range dead.Cycle {
		waits[i] = oneLine(w.String())
	}
	return &exitError{code, errors.New("deadlock: " + strings.Join(waits, "; ")), orderHint}
}

// showDeadlock prints that this wait is in a deadlock. With --break-deadlock the wait ends, or
// that of another run, which prints it.
func (r *run) showDeadlock(err error) {
	if dead, ok := errors.AsType[*holdfast.DeadlockError](err); ok && !r.breakDeadlock && r.say.level < levelVerbose {
		r.say.warnf(orderHint+"; --break-deadlock ends the youngest wait", "%v", deadlockError(codeBusy, dead))
	}
}
