package hold

import (
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
)

// orderHint is what to do about a deadlock of runs inside runs.
const orderHint = "name the locks in the same order in all scripts, or together: holdfast run A B -- COMMAND; " +
	"holdfast list --graph shows the waiters and what they hold"

// deadlockError is the error for a wait in a deadlock, in the words of the tool.
func deadlockError(code int, dead *holdfast.DeadlockError) error {
	return exit.With(code, errors.New("deadlock: "+describe.Cycle(dead.Cycle)), orderHint)
}

// showDeadlock prints that this wait is in a deadlock. With --break-deadlock the wait ends, or
// that of another run, which prints it.
func (r *session) showDeadlock(err error) {
	if dead, ok := errors.AsType[*holdfast.DeadlockError](err); ok && !r.breakDeadlock && r.say.Level < say.Verbose {
		r.say.Warnf(orderHint+"; --break-deadlock ends the youngest wait", "%v", deadlockError(exit.CodeBusy, dead))
	}
}
