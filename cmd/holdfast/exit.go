package main

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// The exit codes. They are a contract with scripts: a number is never given
// another meaning. 64 to 78 are those of sysexits.h.
const (
	codeOK          = 0
	codeUsage       = 64
	codeUnreachable = 69
	codeInternal    = 70
	codeBusy        = 75
	codeProtocol    = 76
	codeRefused     = 77
	codeLost        = 79
	codeMaxRun      = 124
	codeNotStarted  = 125
)

const exitCodesText = `The exit code of holdfast run is the command's own, unless:

  64   usage: a flag, a name or a value is wrong; nothing was tried
  69   the server is unreachable or cannot serve now
  70   internal error
  75   busy: another holds the lock and the wait, if any, is over (-E changes it)
  76   the server answered something impossible: another kind of value at the key,
       a reply that is none
  77   the server refused: password, user or permissions
  79   the lock was lost while the command ran, or the release found it gone; this
       wins over any code of the command, even 0 (--lost-exit-code changes it)
  124  --max-run has passed
  125  --on-acquire-exec failed, so the command was not started
  126  the command was found, but cannot be executed
  127  the command was not found
  128+n  signal n ended the command, or ended holdfast while it waited; it left
       the wait queue first

A release that fails after the command has ended does not change the code: it is
a warning, and the lease ends by itself. If the reply proves that the lock was
not ours any more, it is 79.

holdfast status: 0 free, 75 held; 64, 69, 70, 76 and 77 as above.`

// exitError is an error that has decided how the process ends.
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

// silent ends the process with a code and says nothing: everything was said.
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
	case errors.Is(err, holdfast.ErrInvalid):
		return codeUsage
	case errors.Is(err, holdfast.ErrHeld), errors.Is(err, holdfast.ErrDeadlock):
		return codeBusy
	case errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrNotHeld):
		return codeLost
	case unreachable(err):
		return codeUnreachable
	}
	return codeInternal
}

// codeOfReply sorts the error replies of a server by their first word. What is
// not known is a reply that makes no sense to us.
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

// unreachable reports whether err says that no answer came.
func unreachable(err error) bool {
	var network net.Error
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
