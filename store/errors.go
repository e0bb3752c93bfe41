package store

import "errors"

// ErrNotSent says that no byte of the request was sent, for example because no connection
// could be made: the request has no effect, now or later.
var ErrNotSent = errors.New("holdfast: server cannot be reached")

// ServerError is the refusal of a server: it answered with an error, and the
// script changed nothing, unless MayHaveRun is set. A store makes it from the server's answer.
type ServerError struct {
	// Code is the error's code word: "NOPERM", "OOM", "READONLY", "WRONGTYPE". A refusal
	// without a code, which a script may raise, has the code "ERR".
	Code string
	// Message is the whole answer of the server, with its code.
	Message string
	// MayHaveRun: the answer is not one that Redis or Valkey is known to give in place of running a script. A proxy
	// may have made it when it had passed the request on. So the outcome is unknown, and the refusal is transient.
	MayHaveRun bool
}

func (e *ServerError) Error() string { return "holdfast: server: " + e.Message }

// Transient reports whether the refusal may pass by itself: the server loads its data, fails
// over or moves a slot, or its disk is full. (MISCONF passes when somebody frees space. A
// release that gave up before that would be worse than a late one.)
func (e *ServerError) Transient() bool {
	switch e.Code {
	case "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "MOVED", "ASK",
		"NOREPLICAS", "MISCONF", "MAXCLIENTS":
		return true
	}
	return e.MayHaveRun
}
