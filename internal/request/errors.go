package request

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Refusal returns the refusal of the server in err, or nil if there is none.
func Refusal(err error) *store.ServerError {
	var refused *store.ServerError
	if errors.As(err, &refused) {
		return refused
	}
	return nil
}

// Definite reports whether err means that nothing changed at the server: the server refused,
// or nothing was sent.
func Definite(err error) bool {
	refused := Refusal(err)
	return refused != nil && !refused.MayHaveRun || errors.Is(err, store.ErrNotSent)
}

// MayRunLate reports whether err is a refusal that says only in which state the server or the connection
// is. The refused request has not run. But if something on the way has copied it, the copy may run when
// that state is over. What the script itself has refused, it refuses again.
//
// A permission is such a state: an operator grants it because of the refusal, and the copy arrives after
// that. If the refusal answered the only copy, nothing runs late, but a refusal does not tell how many
// copies there are. A wrong password is another matter: it refuses the login, and no request was sent.
//
// After such a refusal a call says that nothing is known, or it cancels, if a late copy would change what
// the caller goes on to do.
func MayRunLate(err error) bool {
	refused := Refusal(err)
	if refused == nil {
		return false
	}
	switch refused.Code {
	case "OOM", "NOAUTH", "NOPERM":
		return true
	}
	return refused.Transient()
}

// Transient reports whether the next try may succeed.
func Transient(err error) bool {
	refused := Refusal(err)
	return refused == nil || refused.Transient()
}

// Unsent marks err as the error of a request that changes nothing, so its outcome is never
// unknown.
func Unsent(err error) error {
	if err == nil || Definite(err) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrNotSent, err)
}

// Ended returns ctx's error. A deadline that has passed counts, even if the timer of Done has
// not fired yet.
func Ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return nil
}

// SilenceError says that the server did not answer within a time limit of the library. It
// hides the error of the context that carried the limit, and nothing else that it wraps. So
// a context's error always means the caller's context.
type SilenceError struct {
	text string
	err  error
}

func (e *SilenceError) Error() string { return e.text }

// Timeout implements [net.Error].
func (e *SilenceError) Timeout() bool { return true }

// Temporary implements [net.Error].
func (e *SilenceError) Temporary() bool { return true }

// As finds the errors that it wraps.
func (e *SilenceError) As(target any) bool { return errors.As(e.err, target) }

// Is finds the errors that it wraps, but no context's error.
func (e *SilenceError) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target)
}

// ErrLate is the error of a request that has no answer yet, and whose answer is still taken.
var ErrLate error = &SilenceError{text: "no answer in time", err: context.DeadlineExceeded}

// InTime turns the error of a context into a [SilenceError], unless ctx itself has ended. ctx
// is the caller's context or one that is derived from it.
func InTime(ctx context.Context, err error) error {
	if !IsContextEnd(err) || Ended(ctx) != nil {
		return err
	}
	return &SilenceError{text: withoutEnd(err, "no answer in time"), err: err}
}

// Interrupted returns what err, the end of the caller's context, says of the servers: which one has not
// answered. It is empty if err does not say that.
func Interrupted(err error) string {
	const silence = "no answer by then"
	text := strings.TrimPrefix(withoutEnd(err, silence), store.ErrNotSent.Error()+": ")
	if Refusal(err) != nil || !IsContextEnd(err) || text == silence {
		return ""
	}
	return text
}

// withoutEnd is the text of err, with other words for the end of a context.
func withoutEnd(err error, words string) string {
	return strings.NewReplacer(
		context.DeadlineExceeded.Error(), words, context.Canceled.Error(), words,
	).Replace(err.Error())
}

// IsContextEnd reports whether err is, or wraps, the end of some context.
func IsContextEnd(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// PermissionError is a refusal for lack of a permission, with details for the hint.
type PermissionError struct {
	Err     error    // wraps the *store.ServerError, and may say which servers refused
	Prefix  string   // of the client that was refused
	Lacking []string // commands that its user may not run, if the server was asked
}

func (e *PermissionError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *PermissionError) Unwrap() error { return e.Err }

// IsPermission reports that the server refused for lack of a permission.
func IsPermission(err error) bool {
	refused := Refusal(err)
	return refused != nil && refused.Code == "NOPERM"
}
