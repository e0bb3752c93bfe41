package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// An error over several servers has to say which of them failed, and how. Example: "quorum: 2 of 5
// nodes can take part, too few for a majority: 10.0.0.1:6379: connection refused; …". If a majority
// refused with the same code, as with NOPERM, then the quorum refuses with that code. The client
// treats such an error like the refusal of one server: nothing is held, and nothing is cancelled.
//
// So an error that wraps a refusal says that the outcome is known. Every other error says that some
// servers may have done what they were asked. NoMajorityError and interruptedError therefore hide
// the refusal of one server, which says nothing of the others.

// Errors that callers tell apart with errors.Is.
var (
	// ErrUnsupported: the action has no correct meaning over several servers, or none that this
	// version knows. Nothing was sent. Such actions are permits (each server counts its own,
	// and majorities together would admit more than there are), named owners (their tokens
	// would differ), conversions, shortenings, periods, and what a leader proclaims.
	ErrUnsupported = errors.New("quorum: not supported over several servers")
	// ErrSameServer: two nodes are one server, by its run id. The error names both addresses.
	ErrSameServer = errors.New("quorum: two nodes are the same server")
	// ErrTTLTooLong: the lease would be longer than [Config.MaxTTL]. Nothing was sent.
	ErrTTLTooLong = errors.New("quorum: lease longer than Config.MaxTTL")
	// ErrConfig: the arguments of [New] cannot work.
	ErrConfig = errors.New("quorum: invalid configuration")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("quorum: store is closed")
)

// errInvalidCall marks a call that the library does not make.
var errInvalidCall = errors.New("quorum: invalid call")

// errEnded is why nothing is sent for an attempt that has ended.
var errEnded = errors.New("the attempt has ended")

// errForgot says that a node does not know a hold that it had granted.
var errForgot = errors.New("has forgotten the grant")

// errTooRecent says that a node holds, but not for long enough to vouch for all of the time.
var errTooRecent = errors.New("has not held the lock for long enough")

// errNoGrant says that a node was not among those that granted.
var errNoGrant = errors.New("has not granted")

// refusal is a definite answer of the quorum itself. To the client it is the server's refusal;
// errors.Is finds one of the errors above in it.
type refusal struct {
	kind   error
	server store.ServerError
}

func refuse(kind error, code, format string, args ...any) error {
	return &refusal{kind, store.ServerError{Code: code, Message: code + " " + fmt.Sprintf(format, args...)}}
}

func (r *refusal) Error() string { return r.kind.Error() + ": " + r.server.Message }

func (r *refusal) Unwrap() []error { return []error{r.kind, &r.server} }

// NoMajorityError says that too few nodes answered, or count, for a majority, and what each of
// the others said. Nodes that are new or have lost their memory count again after
// [Config.MaxTTL] at the latest; their errors say when.
type NoMajorityError struct {
	Have, Nodes int     // how many nodes count, and how many there are
	Missing     []error // one for each node that does not count, with its name
}

func (e *NoMajorityError) Error() string {
	why := make([]string, len(e.Missing))
	for i, err := range e.Missing {
		// That a node cannot be reached shows in what its library says.
		why[i] = strings.Replace(err.Error(), store.ErrNotSent.Error()+": ", "", 1)
	}
	return fmt.Sprintf("quorum: %d of %d nodes can take part, too few for a majority: %s",
		e.Have, e.Nodes, strings.Join(why, "; "))
}

// Hint says what to do about the error, for [holdfast.Hint].
func (e *NoMajorityError) Hint() string {
	for _, err := range e.Missing {
		var probation *probationError
		if errors.As(err, &probation) {
			return "wait until a majority of the servers can take part again, and make sure that the others are running"
		}
	}
	return "check the servers that the error names: a majority must be running and answering"
}

// Unwrap returns the errors of the nodes. It leaves out those that are definite for one node
// alone, a refusal or [store.ErrNotSent], because they are not the answer of all nodes. If no
// connection was made before the context ended, it keeps the context's error.
func (e *NoMajorityError) Unwrap() []error {
	var list []error
	for _, err := range e.Missing {
		switch {
		case isRefusal(err):
		case !errors.Is(err, store.ErrNotSent):
			list = append(list, err)
		case errors.Is(err, context.DeadlineExceeded):
			list = append(list, context.DeadlineExceeded)
		case errors.Is(err, context.Canceled):
			list = append(list, context.Canceled)
		}
	}
	return list
}

// interruptedError is the end of the caller's context, with what was known of the nodes by then. The
// refusal of one node does not show as a wrapped error: it is not the answer of all nodes.
type interruptedError struct {
	end   error
	nodes []error // those that failed, and those that had not answered
}

// interrupted returns the context's error, and says which nodes had failed by then and which had not
// answered.
func (s *servers) interrupted(ctx context.Context, failed map[int]error, heard []bool) error {
	e := &interruptedError{end: ctx.Err()}
	for i, n := range s.nodes {
		switch err := failed[i]; {
		case err != nil:
			e.nodes = append(e.nodes, &nodeError{n.name(), err})
		case !heard[i]:
			e.nodes = append(e.nodes, &nodeError{n.name(), e.end})
		}
	}
	return e
}

func (e *interruptedError) Error() string {
	why := []string{e.end.Error()}
	if len(e.nodes) > 0 {
		why = nil
	}
	for _, err := range e.nodes {
		why = append(why, err.Error())
	}
	return "quorum: " + strings.Join(why, "; ")
}

func (e *interruptedError) Unwrap() error { return e.end }

// nodeError is the error of one node.
type nodeError struct {
	node string
	err  error
}

func (e *nodeError) Error() string { return e.node + ": " + e.err.Error() }

func (e *nodeError) Unwrap() error { return e.err }

// isRefusal reports whether a server has answered, with an error. The action has changed nothing
// there.
func isRefusal(err error) bool {
	var r *store.ServerError
	return errors.As(err, &r) && !r.MayHaveRun
}

// isFinal reports whether a node has refused for good. A node that is loading, or has too few
// replicas, refuses for a while.
func isFinal(err error) bool {
	var r *store.ServerError
	return errors.As(err, &r) && !r.Transient()
}

// noMajority makes the error for nodes of which too few count. If a majority refused with the
// same code, it returns that refusal as the quorum's own.
//
// A quorum with one wrong password says so for one node, and goes on. With the same wrong password
// on a majority of nodes, the client must see a refusal: to ask again would not help.
func (s *servers) noMajority(failed map[int]error) error {
	e := &NoMajorityError{Have: len(s.nodes) - len(failed), Nodes: len(s.nodes)}
	refusals := make(map[string][]string) // who refused with which code
	for i, n := range s.nodes {
		err := failed[i]
		if err == nil {
			continue
		}
		e.Missing = append(e.Missing, &nodeError{n.name(), err})
		var r *store.ServerError
		if errors.As(err, &r) && !r.MayHaveRun {
			refusals[r.Code] = append(refusals[r.Code], n.name())
		}
	}
	for _, missing := range e.Missing {
		var r *store.ServerError
		if errors.As(missing, &r) && !r.MayHaveRun && len(refusals[r.Code]) >= s.majority {
			who := refusals[r.Code]
			return &nodeError{fmt.Sprintf("quorum: %d of %d nodes (%s)",
				len(who), len(s.nodes), strings.Join(who, ", ")), errors.Unwrap(missing)}
		}
	}
	return e
}
