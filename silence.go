package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ended is ctx's error. A deadline that has passed counts, though the timer
// behind Done may not have fired yet.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return nil
}

// silenceError says that the server did not answer within a time limit of the
// library's own. It hides the context that carried the limit, and nothing else of
// what it wraps: an error of a context only ever means the caller's.
type silenceError struct {
	text string
	err  error
}

func (e *silenceError) Error() string   { return e.text }
func (e *silenceError) Timeout() bool   { return true }
func (e *silenceError) Temporary() bool { return true }

func (e *silenceError) As(target any) bool { return errors.As(e.err, target) }
func (e *silenceError) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target)
}

// inTime has an error of a context's end say "no answer in time" instead, unless
// it is ctx that has ended: the caller's, or what is derived from it.
func inTime(ctx context.Context, err error) error {
	if !ofContext(err) || ended(ctx) != nil {
		return err
	}
	text := strings.NewReplacer(
		context.DeadlineExceeded.Error(), "no answer in time", context.Canceled.Error(), "no answer in time",
	).Replace(err.Error())
	return &silenceError{text: text, err: err}
}

// ofContext reports whether err is, or wraps, the end of some context.
func ofContext(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// unsent is err of a request that asked for nothing yet: nothing is held, and
// nothing can come of it.
func unsent(err error) error {
	if err == nil || definite(err) || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
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
func (e *endedError) Unwrap() error        { return e.end }
