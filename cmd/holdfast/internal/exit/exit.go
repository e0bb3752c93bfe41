// Package exit has the exit codes of the tool, what they mean, and the errors that carry them. Every command ends
// with an error or with nil, and Of finds the code for it.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/internal/commandline"
)

// The exit codes. They are a contract with scripts: a number is never given
// another meaning. 64 to 78 are those of sysexits.h. No other file of the tool has
// an exit code as a number.
const (
	CodeOK            = 0
	CodeFailed        = 1
	CodeUsage         = 64
	CodeUnreachable   = 69
	CodeInternal      = 70
	CodeOutput        = 74
	CodeBusy          = 75
	CodeProtocol      = 76
	CodeRefused       = 77
	CodeLost          = 79
	CodeMaxRun        = 124
	CodeNotStarted    = 125
	CodeNotExecutable = proc.CodeNotExecutable // 126
	CodeNotFound      = proc.CodeNotFound      // 127
	CodeSignal        = proc.CodeSignal        // 128, to which the signal's number is added
)

// meaning is one row of the table of exit codes.
type meaning struct {
	code int
	name string // the reason in the last event of a run
	text string
}

// meanings is the table of exit codes: for --help, and for the last event of a run.
// docs/shell.md has the same table.
var meanings = []meaning{
	{CodeOK, "done", "run: the command exited with 0. status, wait: the lock is free. " +
		"acquire, extend, release, evict, list: done. check: the lease is live. demo, verify: nothing went wrong. " +
		"doctor: no problem."},
	{
		CodeFailed, "failed", "demo, verify: something was broken, or the run did not finish. " +
			"doctor: there is a problem (with --strict, also for a warning). " +
			"evict: the name was not confirmed, so nothing was evicted.",
	},
	{
		CodeUsage, "usage", "A flag, a name or a value is wrong, or is not the one that other clients use " +
			"(--permits, PERIOD). No command was run.",
	},
	{CodeUnreachable, "unreachable", "The server cannot be reached, or it cannot serve requests now."},
	{CodeInternal, "internal", "Internal error."},
	{CodeOutput, "output", "The result cannot be written to standard output: for example, the disk is full."},
	{
		CodeBusy, "busy", "run, acquire: another client holds the lock, and the time to wait is over " +
			"(with -n, at once). -E sets another code. With --break-deadlock: the wait was in a deadlock. " +
			"elect: another process uses the file of --state. status, wait: the lock is held. " +
			"evict: no holder has the token.",
	},
	{
		CodeProtocol, "protocol", "The server's answer makes no sense: for example, the key holds a value that is " +
			"not a lock. list, top: a record cannot be read.",
	},
	{CodeRefused, "refused", "The server refused the password, the user or a command."},
	{
		CodeLost, "lost", "The lock was lost before the command ended. This code replaces the command's own, even 0. " +
			"--lost-exit-code sets another. extend, release: the lock is not held any more. " +
			"check: the lease is not live.",
	},
	{CodeMaxRun, "max-run", "The command ran longer than --max-run, and was stopped."},
	{CodeNotStarted, "not-started", "--on-acquire-exec failed, so the command was not started."},
	{CodeNotExecutable, "not-started", "The command was found, but cannot be executed."},
	{CodeNotFound, "not-started", "The command was not found."},
	{
		CodeSignal, "interrupted", "Signal n ended the command, or ended holdfast while holdfast was waiting.",
	},
}

// number is a row's code as people write it.
func (m meaning) number() string {
	if m.code == CodeSignal {
		return "128+n"
	}
	return strconv.Itoa(m.code)
}

// NameOf is the name of an exit code, or "" if the table does not have it.
func NameOf(code int) string {
	if code > CodeSignal {
		code = CodeSignal
	}
	for _, m := range meanings {
		if m.code == code {
			return m.name
		}
	}
	return ""
}

// Text is the table, with what it does not say.
func Text() string {
	var b strings.Builder
	b.WriteString("holdfast run, every and elect exit with the command's own exit code, or with one of these:\n\n")
	for _, m := range meanings {
		fmt.Fprintf(&b, "  %-7s%-13s%s\n", m.number(), m.name, m.text)
	}
	b.WriteString(`
If the release fails after the command has ended, holdfast warns and keeps the command's
exit code: the lease expires by itself. If the server answers that the lease was gone
already, the exit code is 79.

  acquire, extend, release  one of these, too
  status                    0, 64, 69, 70, 74, 75, 76, 77
  evict                     the same, or 1
  list, inspect, limit      0, 64, 69, 70, 74, 76, 77
  check                     the same, or 79
  watch, top, serve         one of these, or 128+n
  doctor                    0, 1, 64, 69, 70, 74, 77
  fence                     0, 64, 74
  demo                      0, 1, 64, 74, 128+n
  verify                    the same, or 126 or 127 if it cannot start holdfast-verify`)
	return b.String()
}

// Error is an error with an exit code.
type Error struct {
	Code int
	Err  error
	Hint string // overrides the library's
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// With is an error that ends the tool with a code. Without a hint, the library's counts.
func With(code int, err error, hint string) *Error { return &Error{code, err, hint} }

// Usage is a mistake in the command line; hint says what to write instead.
func Usage(text, hint string) error {
	return With(CodeUsage, errors.New(text), hint)
}

// Silent ends the process with a code and no message: the message was printed before.
type Silent int //nolint:errname // it reads as what the process does

func (Silent) Error() string { return "" }

// Signalled is the error for a command that a signal has ended: the cause of ctx, see
// [commandline.Signalled]. It is nil if none has.
func Signalled(ctx context.Context) error {
	if by, ok := errors.AsType[commandline.SignalError](context.Cause(ctx)); ok {
		return Silent(CodeSignal + int(by.Signal))
	}
	return nil
}

// Of finds the exit code for an error.
func Of(err error) int {
	var exit *Error
	var quiet Silent
	var server *holdfast.ServerError
	switch {
	case err == nil:
		return CodeOK
	case errors.As(err, &quiet):
		return int(quiet)
	case errors.As(err, &exit):
		return exit.Code
	case Unasked(err) != nil:
		return Of(Unasked(err))
	case errors.As(err, &server):
		return codeOfReply(server)
	case redis.HasErrorPrefix(err, "NOPERM"): // of a request that the library did not send
		return CodeRefused
	case errors.Is(err, holdfast.ErrInvalid), errors.Is(err, holdfast.ErrLimit), errors.Is(err, holdfast.ErrPeriod):
		return CodeUsage
	case errors.Is(err, holdfast.ErrHeld), errors.Is(err, holdfast.ErrDeadlock):
		return CodeBusy
	case errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrNotHeld):
		return CodeLost
	case UnknownAnswer(err):
		return CodeProtocol
	case Unreachable(err):
		return CodeUnreachable
	}
	return CodeInternal
}

// codeOfReply sorts the error replies of a server by their first word. An unknown one
// makes no sense to us.
func codeOfReply(reply *holdfast.ServerError) int {
	switch reply.Code {
	case "NOAUTH", "WRONGPASS", "NOPERM", "DENIED":
		return CodeRefused
	case "TLS", "REPLICA", "OOM", "UNKILLABLE":
		return CodeUnreachable
	}
	if reply.Transient() {
		return CodeUnreachable
	}
	return CodeProtocol
}

// UnknownAnswer reports whether the answer was none that a version of Holdfast gives.
func UnknownAnswer(err error) bool {
	_, unknown := errors.AsType[interface {
		error
		UnknownAnswer() bool
	}](err)
	return unknown
}

// Unreachable reports whether err means that no answer came. The error of a file looks like one of
// the network.
func Unreachable(err error) bool {
	var network net.Error
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return false
	}
	return errors.Is(err, holdfast.ErrUnknownOutcome) || errors.Is(err, holdfast.ErrUnreachable) ||
		errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded)
}

// HintOf is what to do about err, or "".
func HintOf(err error) string {
	var exit *Error
	if errors.As(err, &exit) && exit.Hint != "" {
		return exit.Hint
	}
	return strings.TrimSuffix(holdfast.Hint(err), ".")
}

// Unasked returns why a wait ended without an answer of the server, or nil.
func Unasked(err error) error {
	if held, ok := errors.AsType[*holdfast.HeldError](err); ok {
		return held.Err
	}
	return nil
}
