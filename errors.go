// The errors, and what each says.

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/store"
)

// The errors that callers tell apart, with errors.Is.
var (
	// ErrHeld: somebody else has the lock, or had it as long as the caller would
	// wait. The error is a *HeldError.
	ErrHeld = errors.New("holdfast: lock is held")
	// ErrLost: the lease ended before it was released. The error is a *LostError.
	ErrLost = errors.New("holdfast: lease lost")
	// ErrNotHeld: a release or extension found that the lease had ended
	// before: the work under it may have overlapped with somebody else's.
	ErrNotHeld = errors.New("holdfast: lease is not held any more")
	// ErrHeldByOther: the lock is held, but by somebody else: more than
	// ErrNotHeld says, where both apply.
	ErrHeldByOther = errors.New("holdfast: lock is held by somebody else")
	// ErrReleased: the lease has been released. Also the cause of a lease's
	// context after its release.
	ErrReleased = errors.New("holdfast: lease is released")
	// ErrClosed: the client is closed.
	ErrClosed = errors.New("holdfast: client is closed")
	// ErrDeadlock: the context belongs to a lease of this very lock, so that
	// waiting would never end. Nothing was asked of the server.
	ErrDeadlock = errors.New("holdfast: lock is held by this very call chain")
	// ErrUnknownOutcome: the server did not answer, or not in time: the
	// action may or may not have taken effect.
	ErrUnknownOutcome = errors.New("holdfast: outcome unknown")
	// ErrUnreachable: no connection to the server could be had, so that nothing
	// was sent: the request has no effect, now or later.
	ErrUnreachable = store.ErrNotSent
	// ErrLimit: the semaphore has another limit. The error is a *LimitError.
	ErrLimit = errors.New("holdfast: another limit is in use")
	// ErrPeriod: the job has another period. The error is a *PeriodError.
	ErrPeriod = errors.New("holdfast: another period is in use")
	// ErrNoLeader: nobody leads the election, as far as the server knows.
	ErrNoLeader = errors.New("holdfast: nobody leads")
	// ErrInvalid: an argument cannot work. Nothing was asked of the server.
	ErrInvalid = errors.New("holdfast: invalid")
)

// HeldError says who has the lock. It is an [ErrHeld].
type HeldError struct {
	Name      string
	HeldBy    string        // the holder's attempt or name; empty if unknown or several
	Remaining time.Duration // until its lease ends unless renewed; 0 if unknown
	Waited    time.Duration // how long this call waited for it; 0 for a single try
	Tries     int           // how often it was tried, see Tries; 0 otherwise

	// Err is why the server could not be asked to the end, if that is how the
	// wait passed; then nobody may have the lock. nil: the server has answered.
	Err error
}

func (e *HeldError) Error() string {
	s := fmt.Sprintf("holdfast: lock %q is held", e.Name)
	if e.Err != nil {
		s = fmt.Sprintf("holdfast: lock %q was not had in time", e.Name)
	}
	if e.HeldBy != "" {
		s += " by " + e.HeldBy
	}
	if e.Remaining > 0 {
		s += fmt.Sprintf(", its lease ends in %v unless renewed", e.Remaining)
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
	return s
}

// Is makes a HeldError an ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Unwrap is why the server could not be asked.
func (e *HeldError) Unwrap() error { return e.Err }

// LimitError says that the semaphore is in use with another limit than this
// process asked for: somebody's configuration is wrong, or the limit was changed.
// Nothing is held, and nothing was changed. It is an [ErrLimit].
type LimitError struct {
	Name  string
	InUse int // permits that there are
	Asked int // permits that there would be
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("holdfast: semaphore %q is in use with a limit of %d, and %d was asked for",
		e.Name, e.InUse, e.Asked)
}

// Is makes a LimitError an ErrLimit.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// PeriodError says that the job has another period than this process asked for:
// somebody's configuration is wrong, or the period was changed. Nothing has run,
// and nothing was changed. It is an [ErrPeriod].
type PeriodError struct {
	Name  string
	InUse Schedule
	Asked Schedule
}

// Schedule says when the periods of a job begin.
type Schedule struct {
	Period  time.Duration
	Aligned bool          // at fixed times, see [StartAt]; else each begins with its run
	Offset  time.Duration // from 1970 to the first of the fixed times
}

func (s Schedule) String() string {
	if !s.Aligned {
		return s.Period.String()
	}
	return fmt.Sprintf("%v at %v", s.Period, s.Offset)
}

func (e *PeriodError) Error() string {
	return fmt.Sprintf("holdfast: job %q has a period of %v, and %v was asked for", e.Name, e.InUse, e.Asked)
}

// Is makes a PeriodError an ErrPeriod.
func (e *PeriodError) Is(target error) bool { return target == ErrPeriod }

// LostError says why a lease ended without a release. It is an [ErrLost].
type LostError struct {
	Name    string
	Reason  LossReason
	Evicted *EvictionInfo // who took the lock away, when and why; nil unless the server has told that
}

// LossReason says why a lease was lost.
type LossReason string

// The reasons of a loss.
const (
	LossExpired LossReason = "expired"  // no renewal was confirmed before the trust deadline
	LossNotHeld LossReason = "not held" // the server has given the lock to somebody else, or forgot it
	LossEvicted LossReason = "evicted"  // an operator took the lock away
	LossLimit   LossReason = "limit"    // it lasted as long as MaxHold or MaxRenewals let it
)

func (e *LostError) Error() string {
	s := fmt.Sprintf("holdfast: lease of %q lost: ", e.Name)
	switch e.Reason {
	case LossExpired:
		return s + "no renewal was confirmed in time"
	case LossEvicted:
		if by := e.Evicted; by != nil {
			return fmt.Sprintf("%sevicted by %s: %s", s, by.By, by.Reason)
		}
		return s + "an operator took the lock away"
	case LossLimit:
		return s + "it lasted as long as MaxHold or MaxRenewals let it"
	default:
		return s + "the server does not know it any more"
	}
}

// Is makes a LostError an ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// ServerError is the refusal of a server: it answered with an error, and nothing
// was changed.
type ServerError = store.ServerError

// errNoContext and errNoFunction refuse what must not be nil.
var (
	errNoContext  = invalid("the context is nil: use context.Background()")
	errNoFunction = invalid("the function is nil: give what is to run under the lock")
)

// runnable refuses a call that is to run a function, and has none or no context.
func runnable(ctx context.Context, none bool) error {
	switch {
	case ctx == nil:
		return errNoContext
	case none:
		return errNoFunction
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// unknownError is an ErrUnknownOutcome with what happened.
type unknownError struct {
	what, name string
	cause      error
}

func (e *unknownError) Error() string {
	return fmt.Sprintf("holdfast: %s %q: outcome unknown: %v", e.what, e.name, e.cause)
}

func (e *unknownError) Is(target error) bool { return target == ErrUnknownOutcome }

func (e *unknownError) Unwrap() error { return e.cause }

// wrap puts an error of the store into words for the caller: what is definite
// stays so, anything else is an unknown outcome.
func wrap(what, name string, err error) error {
	if request.Definite(err) || errors.Is(err, ErrClosed) {
		return fmt.Errorf("holdfast: %s %q: %w", what, name, err)
	}
	return &unknownError{what: what, name: name, cause: err}
}

// endedError is the end of the context of a call.
type endedError struct {
	name    string
	end     error // the context's
	last    error // why the last request failed; nil if it was answered, or cut off by the end
	unknown bool  // a request may have taken effect
}

func (e *endedError) Error() string {
	s := fmt.Sprintf("holdfast: lock %q: ", e.name)
	if e.unknown {
		s += "outcome unknown: "
	}
	s += e.end.Error()
	if e.last != nil {
		s += "; the last request failed: " + e.last.Error()
	}
	return s
}

func (e *endedError) Is(target error) bool { return e.unknown && target == ErrUnknownOutcome }

func (e *endedError) Unwrap() error { return e.end }

// ErrNotAcked says that a grant was not acknowledged by as many replicas or
// disks as were asked for, and was given back. The error is an *AckError.
var ErrNotAcked = errors.New("holdfast: grant not acknowledged")

// AckError says what was missing. It is an [ErrNotAcked].
type AckError struct {
	Name      string
	Want, Got store.Acks
}

func (e *AckError) Error() string {
	return fmt.Sprintf("holdfast: lock %q: acknowledged by %v, want %v", e.Name, e.Got, e.Want)
}

// Is makes an AckError an ErrNotAcked.
func (e *AckError) Is(target error) bool { return target == ErrNotAcked }
