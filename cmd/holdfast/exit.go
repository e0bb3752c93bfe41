package main

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
	"github.com/holdfast-go/holdfast/internal/wire"
)

// The exit codes. They are a contract with scripts: a number is never given
// another meaning. 64 to 78 are those of sysexits.h. No other file of the tool has
// an exit code as a number.
const (
	codeOK            = 0
	codeFailed        = 1
	codeUsage         = 64
	codeUnreachable   = 69
	codeInternal      = 70
	codeOutput        = 74
	codeBusy          = 75
	codeProtocol      = 76
	codeRefused       = 77
	codeLost          = 79
	codeMaxRun        = 124
	codeNotStarted    = 125
	codeNotExecutable = proc.CodeNotExecutable // 126
	codeNotFound      = proc.CodeNotFound      // 127
	codeSignal        = proc.CodeSignal        // 128, to which the signal's number is added
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
	{codeOK, "done", "run: the command exited with 0. status: the lock is free. " +
		"acquire, extend, release, evict, list: done. demo, verify: nothing went wrong. doctor: no problem."},
	{
		codeFailed, "failed", "demo, verify: something was broken, or the run did not finish. " +
			"doctor: there is a problem (with --strict, also for a warning). " +
			"evict: the name was not confirmed, so nothing was evicted.",
	},
	{
		codeUsage, "usage", "A flag, a name or a value is wrong, or is not the one that other clients use " +
			"(--permits, PERIOD). No command was run.",
	},
	{codeUnreachable, "unreachable", "The server cannot be reached, or it cannot serve requests now."},
	{codeInternal, "internal", "Internal error."},
	{codeOutput, "output", "The result cannot be written to standard output: for example, the disk is full."},
	{
		codeBusy, "busy", "run, acquire: another client holds the lock, and the time to wait is over " +
			"(with -n, at once). -E sets another code. With --break-deadlock: the wait was in a deadlock. " +
			"elect: another process uses the file of --state. status: the lock is held. " +
			"evict: no holder has the token.",
	},
	{
		codeProtocol, "protocol", "The server's answer makes no sense: for example, the key holds a value that is " +
			"not a lock. list, top: a record cannot be read.",
	},
	{codeRefused, "refused", "The server refused the password, the user or a command."},
	{
		codeLost, "lost", "The lock was lost before the command ended. This code replaces the command's own, even 0. " +
			"--lost-exit-code sets another. extend, release: the lock is not held any more.",
	},
	{codeMaxRun, "max-run", "The command ran longer than --max-run, and was stopped."},
	{codeNotStarted, "not-started", "--on-acquire-exec failed, so the command was not started."},
	{codeNotExecutable, "not-started", "The command was found, but cannot be executed."},
	{codeNotFound, "not-started", "The command was not found."},
	{
		codeSignal, "interrupted", "Signal n ended the command, or ended holdfast while holdfast was waiting.",
	},
}

// number is a row's code as people write it.
func (m meaning) number() string {
	if m.code == codeSignal {
		return "128+n"
	}
	return strconv.Itoa(m.code)
}

// nameOf is the name of an exit code, or "" if the table does not have it.
func nameOf(code int) string {
	if code > codeSignal {
		code = codeSignal
	}
	for _, m := range meanings {
		if m.code == code {
			return m.name
		}
	}
	return ""
}

// exitCodesText is the table, with what it does not say.
func exitCodesText() string {
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
  list, inspect             0, 64, 69, 70, 74, 76, 77
  watch, top, serve         one of these, or 128+n
  doctor                    0, 1, 64, 69, 70, 74, 77
  demo                      0, 1, 64, 74, 128+n
  verify                    the same, or 126 or 127 if it cannot start holdfast-verify`)
	return b.String()
}

// exitError is an error with an exit code.
type exitError struct {
	code int
	err  error
	hint string // overrides the library's
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageError is a mistake in the command line; hint says what to write instead.
func usageError(text, hint string) error {
	return &exitError{codeUsage, errors.New(text), hint}
}

// silent ends the process with a code and no message: the message was printed before.
type silent int

func (silent) Error() string { return "" }

// codeOf finds the exit code for an error.
func codeOf(err error) int {
	var exit *exitError
	var quiet silent
	var server *holdfast.ServerError
	switch {
	case err == nil:
		return codeOK
	case errors.As(err, &quiet):
		return int(quiet)
	case errors.As(err, &exit):
		return exit.code
	case unasked(err) != nil:
		return codeOf(unasked(err))
	case errors.As(err, &server):
		return codeOfReply(server.Code)
	case redis.HasErrorPrefix(err, "NOPERM"): // of a request that the library did not send
		return codeRefused
	case errors.Is(err, holdfast.ErrInvalid), errors.Is(err, holdfast.ErrLimit), errors.Is(err, holdfast.ErrPeriod):
		return codeUsage
	case errors.Is(err, holdfast.ErrHeld), errors.Is(err, holdfast.ErrDeadlock):
		return codeBusy
	case errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrNotHeld):
		return codeLost
	case errors.Is(err, wire.ErrAnswer):
		return codeProtocol
	case unreachable(err):
		return codeUnreachable
	}
	return codeInternal
}

// codeOfReply sorts the error replies of a server by their first word. An unknown one
// makes no sense to us.
func codeOfReply(code string) int {
	switch code {
	case "NOAUTH", "WRONGPASS", "NOPERM":
		return codeRefused
	case "TLS", "REPLICA", "LOADING", "READONLY", "MASTERDOWN", "MISCONF", "OOM", "BUSY", "NOREPLICAS",
		"CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "UNKILLABLE":
		return codeUnreachable
	}
	return codeProtocol
}

// unreachable reports whether err means that no answer came. The error of a file looks like one of
// the network.
func unreachable(err error) bool {
	var network net.Error
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return false
	}
	return errors.Is(err, holdfast.ErrUnknownOutcome) || errors.Is(err, holdfast.ErrUnreachable) ||
		errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded)
}

// hintOf is what to do about err, or "".
func hintOf(err error) string {
	var exit *exitError
	if errors.As(err, &exit) && exit.hint != "" {
		return exit.hint
	}
	return strings.TrimSuffix(holdfast.Hint(err), ".")
}
