// The errors: what callers can tell apart, with their texts.

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/store"
)

// The errors that callers distinguish with errors.Is. If an error can say more than that, the comment names
// its type: errors.As finds it, for its fields.
var (
	// ErrHeld: another holder has the lock, or had it until the caller's wait limit or the deadline of
	// its context passed. In the last case the error is a context.DeadlineExceeded, too. The error is a
	// *HeldError.
	ErrHeld = errors.New("holdfast: lock is held")
	// ErrLost: the lease ended before it was released. The error is a *LostError.
	ErrLost = errors.New("holdfast: lease lost")
	// ErrNotHeld: a release or an extension found that the lease had already ended. The
	// work under the lease may have overlapped with another holder's work. Of [Client.Check], the
	// error is a *NotHeldError.
	ErrNotHeld = errors.New("holdfast: lease is no longer held")
	// ErrHeldByOther: a release or a check found that another holder has the lock. It comes with ErrNotHeld, and
	// says more.
	ErrHeldByOther = errors.New("holdfast: lock is held by another holder")
	// ErrReleased: the lease is released. It is also the cause of the lease's context after
	// the release.
	ErrReleased = errors.New("holdfast: lease is released")
	// ErrClosed: the client is closed.
	ErrClosed = errors.New("holdfast: client is closed")
	// ErrDeadlock: the wait would never end. The context belongs to a lease of the same lock, and the
	// client sent nothing to the server. With [BreakDeadlock], several calls wait for each other, and the
	// error is a *DeadlockError.
	ErrDeadlock = errors.New("holdfast: lock is already held by this call chain")
	// ErrUnknownOutcome: no usable answer came in time. The action may or may not have taken
	// effect. If a server or a record answered what no version of Holdfast does, errors.As finds an
	// interface{ UnknownAnswer() bool }; so it does where the call changes nothing.
	ErrUnknownOutcome = errors.New("holdfast: outcome unknown")
	// ErrUnreachable: the client had no connection to the server and sent nothing. The
	// request has no effect, now or later.
	ErrUnreachable = store.ErrNotSent
	// ErrLimit: the semaphore has another limit. The error is a *MismatchError.
	ErrLimit = errors.New("holdfast: the semaphore has a different limit")
	// ErrPeriod: the job has another period. The error is a *MismatchError.
	ErrPeriod = errors.New("holdfast: the job has a different period")
	// ErrNotAcked: too few replicas or disks acknowledged a grant. The error is a *MismatchError.
	ErrNotAcked = errors.New("holdfast: grant not acknowledged")
	// ErrNoLeader: the server knows of no leader of the election.
	ErrNoLeader = errors.New("holdfast: there is no leader")
	// ErrInvalid: an argument is invalid. The client sent nothing to the server, but for [Client.Check].
	ErrInvalid = errors.New("holdfast: invalid")
)

// HeldError says which holder has the lock. It is an [ErrHeld].
type HeldError struct {
	Name      string
	HeldBy    string        // a holder ID or an owner's name; empty if unknown or if there are several
	Client    *ClientInfo   // the program of the holder; nil if the server does not say it, or has not been asked
	Remaining time.Duration // until the first of the leases ends if it is not renewed; 0 if unknown
	Waited    time.Duration // how long this call waited for the lock; 0 for a single try
	Tries     int           // the number of tries, see Tries; 0 without that option

	// Err says why the client could not ask the server at the end of the wait. In that case
	// the lock may be free. If Err is nil, the server answered.
	Err error
}

func (e *HeldError) Error() string {
	s := fmt.Sprintf("holdfast: lock %q is held", e.Name)
	switch {
	case e.Err != nil:
		s = fmt.Sprintf("holdfast: lock %q was not acquired in time", e.Name)
	case e.HeldBy != "":
		s += " by " + e.HeldBy
		if e.Client != nil {
			s += " (" + e.Client.String() + ")"
		}
	}
	if e.Remaining > 0 {
		s += fmt.Sprintf("; the current lease ends in %v unless it is renewed", e.Remaining)
	}
	switch {
	case e.Tries > 0:
		s += fmt.Sprintf(" (%d tries in %v)", e.Tries, e.Waited.Round(time.Millisecond))
	case e.Waited > 0:
		s += fmt.Sprintf(" (waited %v)", e.Waited.Round(time.Millisecond))
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return once(s)
}

// Is makes a HeldError an ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Unwrap returns the reason why the client could not ask the server.
func (e *HeldError) Unwrap() error { return e.Err }

// Schedule says when the periods of a job begin.
type Schedule struct {
	Period  time.Duration
	Aligned bool          // at fixed times, see [StartAt]; otherwise each period begins with its run
	Offset  time.Duration // from the start of 1970 to the first of the fixed times
}

func (s Schedule) String() string {
	if !s.Aligned {
		return s.Period.String()
	}
	return fmt.Sprintf("%v at %v", s.Period, s.Offset)
}

// MismatchError says that the server has something else than the call needs. Nothing has run, and the
// caller holds nothing. It is one of these:
//
//   - an [ErrLimit]: the semaphore is in use with another limit. Either a process has a wrong
//     configuration, or the limit was changed.
//   - an [ErrPeriod]: the job has another period. The reasons are the same.
//   - an [ErrNotAcked]: too few replicas or disks acknowledged a grant. The client has released it.
type MismatchError struct {
	Name string
	Want any // of this call: the limit (an int), a [Schedule], or the acknowledgements ([store.Acks])
	Got  any // of the server, with the same type
}

func (e *MismatchError) Error() string {
	switch e.Want.(type) {
	case int:
		return fmt.Sprintf("holdfast: semaphore %q is in use with a limit of %d, not %d", e.Name, e.Got, e.Want)
	case Schedule:
		return fmt.Sprintf("holdfast: job %q has a period of %v, not %v", e.Name, e.Got, e.Want)
	}
	return fmt.Sprintf("holdfast: lock %q: too few acknowledgements: got %v, want %v", e.Name, e.Got, e.Want)
}

// Is makes a MismatchError an ErrLimit, an ErrPeriod or an ErrNotAcked.
func (e *MismatchError) Is(target error) bool {
	switch e.Want.(type) {
	case int:
		return target == ErrLimit
	case Schedule:
		return target == ErrPeriod
	}
	return target == ErrNotAcked
}

// NotHeldError says that no live lease has a token. It is an [ErrNotHeld], and an [ErrHeldByOther] if
// another lease holds the lock. See [Client.Check].
type NotHeldError struct {
	Name   string
	Token  uint64
	Now    uint64 // of the lock's present holder, or the highest of several; 0 if nobody holds it
	HeldBy string // a holder ID or an owner's name; empty if nobody holds it, or if several share it
	Kept   bool   // nobody holds it, and nobody gets it yet: it was released, see [MinHold] and [Lease.ReleaseAfter]
}

func (e *NotHeldError) Error() string {
	s := fmt.Sprintf("holdfast: checking %q: no live lease has the token %d: ", e.Name, e.Token)
	switch {
	case e.Kept:
		return s + "nobody holds the lock, which is kept for a while after its release"
	case e.Now == 0:
		return s + "nobody holds the lock"
	case e.HeldBy == "":
		return s + fmt.Sprintf("others share the lock, the last with the token %d", e.Now)
	}
	return s + fmt.Sprintf("%s holds the lock with the token %d", e.HeldBy, e.Now)
}

// Is makes a NotHeldError an ErrNotHeld, and an ErrHeldByOther.
func (e *NotHeldError) Is(target error) bool {
	return target == ErrNotHeld || target == ErrHeldByOther && e.Now != 0
}

// LostError says why a lease ended without a release. It is an [ErrLost].
type LostError struct {
	Name    string
	Reason  LossReason
	Evicted *EvictionInfo // the eviction that ended the lease; nil if none is known

	// Err says why the last renewal failed, if the reason is LossExpired; nil if nothing is known. It
	// is not in the chain of the error: what errors.Is finds is about the lease, and not about a request.
	Err error
}

// LossReason is the reason of a loss.
type LossReason string

// The reasons of a loss.
const (
	LossExpired LossReason = "expired"  // the server confirmed no renewal before the trust deadline
	LossNotHeld LossReason = "not held" // the server no longer has the hold: it expired there, or the record was lost
	LossEvicted LossReason = "evicted"  // an operator evicted the holder
	LossLimit   LossReason = "limit"    // MaxHold or MaxRenewals ended the lease
)

func (e *LostError) Error() string {
	s := fmt.Sprintf("holdfast: lease of %q lost: ", e.Name)
	switch e.Reason {
	case LossExpired:
		if e.Err != nil {
			return once(s + "no renewal was confirmed in time; the last one failed: " + e.Err.Error())
		}
		return s + "no renewal was confirmed in time"
	case LossEvicted:
		if by := e.Evicted; by != nil {
			return fmt.Sprintf("%sevicted by %s: %s", s, by.By, by.Reason)
		}
		return s + "an operator evicted the holder"
	case LossLimit:
		return s + "it reached the limit of MaxHold or MaxRenewals"
	default:
		return s + "the server no longer has this hold"
	}
}

// Is makes a LostError an ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// DeadlockError says that calls wait for each other, so that none of them ends by itself. It
// is an [ErrDeadlock]. See [BreakDeadlock].
type DeadlockError struct {
	Name  string     // the lock that the call waited for
	Cycle []WaitInfo // each waits for a lock that the next one holds; the call's own wait is the first
}

func (e *DeadlockError) Error() string {
	return fmt.Sprintf("holdfast: lock %q: deadlock: %s", e.Name, cycleText(e.Cycle))
}

// Is makes the error an [ErrDeadlock].
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

func cycleText(cycle []WaitInfo) string {
	words := make([]string, len(cycle))
	for i, w := range cycle {
		words[i] = w.String()
	}
	return strings.Join(words, "; ")
}

// ServerError is a refusal: the server answered with an error, and nothing was changed.
type ServerError = store.ServerError

// errNoContext and errNoFunction refuse nil arguments.
var (
	errNoContext  = invalid("the context is nil: use context.Background()")
	errNoFunction = invalid("the function is nil: pass the function to run under the lock")
)

// errorf is fmt.Errorf for a text that says "holdfast: " once, see once.
func errorf(format string, args ...any) error { return onceError{fmt.Errorf(format, args...)} }

// onceError is an error of the library around others of it.
type onceError struct{ error }

func (e onceError) Error() string { return once(e.error.Error()) }

func (e onceError) Unwrap() error { return e.error }

// once removes the name of the library from the texts of the errors inside. Each of them begins with it,
// because a program may also get it alone.
func once(text string) string {
	return strings.NewReplacer(": holdfast: ", ": ", "; holdfast: ", "; ").Replace(text)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// requestError is the failure of a request, with the operation and the lock.
type requestError struct {
	what, name string
	cause      error
	unknown    bool // it may have taken effect
}

func (e *requestError) Error() string {
	if e.unknown {
		return once(fmt.Sprintf("holdfast: %s %q: outcome unknown: %v", e.what, e.name, e.cause))
	}
	return once(fmt.Sprintf("holdfast: %s %q: %v", e.what, e.name, e.cause))
}

func (e *requestError) Is(target error) bool { return e.unknown && target == ErrUnknownOutcome }

func (e *requestError) Unwrap() error { return e.cause }

// releaseText is what the error of a release says that the call did.
const releaseText = "releasing"

// wrap adds the operation and the lock to an error of the store. If the error says for
// certain that nothing happened, it stays as it is. Any other error is an unknown outcome.
func wrap(what, name string, err error) error {
	return &requestError{what: what, name: name, cause: err, unknown: !isKnown(err)}
}

// wrapChange is wrap for a request whose late copy would change what the caller goes on with.
func wrapChange(what, name string, err error) error {
	return &requestError{what: what, name: name, cause: err, unknown: !isKnown(err) || request.MayRunLate(err)}
}

func isKnown(err error) bool { return request.Definite(err) || errors.Is(err, ErrClosed) }

// alreadyOver returns the error of a call whose context has ended before anything is sent: nothing
// has changed, for certain.
func alreadyOver(ctx context.Context, what, name string) error {
	if end := request.Ended(ctx); end != nil {
		return errorf("holdfast: %s %q: %w", what, name, end)
	}
	return nil
}

// errLate: a grant arrived when its lease was over.
var errLate = errors.New("the grant arrived too late")

// endedError is the error of a call whose context ended.
type endedError struct {
	name    string
	end     error  // the context's error
	last    error  // why the last request failed; nil if it was answered, or stopped by the end of the context
	unknown bool   // a request may have taken effect
	silent  string // what the store says of the request that was under way: which server has not answered

	held *HeldError // what the server or this process said of the lock at last; nil if that is not known
}

// isHeld reports whether the lock was held until the deadline of the call.
func (e *endedError) isHeld() bool {
	return e.held != nil && errors.Is(e.end, context.DeadlineExceeded)
}

// whyLast returns why the last request failed. If only the end of the context stopped it, that is
// before, the failure of the request before it.
func whyLast(err, before error) error {
	if request.IsContextEnd(err) {
		return before
	}
	return reason(err)
}

func (e *endedError) Error() string {
	s := fmt.Sprintf("holdfast: lock %q: ", e.name)
	if e.unknown {
		s += "outcome unknown: "
	}
	s += e.end.Error()
	if e.isHeld() {
		s += ": " + strings.TrimPrefix(e.held.Error(), "holdfast: ")
	}
	switch {
	case e.last != nil:
		s += "; the last request failed: " + e.last.Error()
	case e.silent != "":
		s += "; " + e.silent
	}
	return once(s)
}

func (e *endedError) Is(target error) bool {
	return e.unknown && target == ErrUnknownOutcome || e.isHeld() && target == ErrHeld
}

// As finds the [HeldError] of a call that waited until its deadline.
func (e *endedError) As(target any) bool {
	held, ok := target.(**HeldError)
	if ok = ok && e.isHeld(); ok {
		*held = e.held
	}
	return ok
}

func (e *endedError) Unwrap() error { return e.end }
