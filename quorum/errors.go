package quorum

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// The errors that callers tell apart, with errors.Is.
var (
	// ErrUnsupported: the action has no meaning over several servers that is
	// right, or none that this version knows: permits (each server counts its
	// own, and majorities together would admit more than there are), owners by
	// name (their tokens would differ), steps between reading and writing,
	// periods, and what a leader proclaims.
	// Nothing was sent.
	ErrUnsupported = errors.New("quorum: not supported over several servers")
	// ErrSameServer: two nodes are one server, by its run id. The error names
	// both addresses.
	ErrSameServer = errors.New("quorum: two nodes are the same server")
	// ErrTTLTooLong: a lease longer than [Config.MaxTTL]. Nothing was sent.
	ErrTTLTooLong = errors.New("quorum: lease longer than Config.MaxTTL")
	// ErrConfig: the arguments of [New] cannot work.
	ErrConfig = errors.New("quorum: invalid configuration")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("quorum: store is closed")
)

// errInvalidCall is a call that the library does not make.
var errInvalidCall = errors.New("quorum: invalid call")

// errEnded is why nothing is sent for an attempt that has ended.
var errEnded = errors.New("the attempt has ended")

// errForgot says that a node does not know of a hold that it had granted.
var errForgot = errors.New("has forgotten the grant")

// errTooRecent says that a node holds, and does not vouch for all of the time.
var errTooRecent = errors.New("holds for too short a time")

// errNoGrant says that a node was not among those that granted.
var errNoGrant = errors.New("has not granted")

// refusal is a definite answer of the quorum itself: to the client it is the
// server's, to errors.Is one of the above.
type refusal struct {
	kind   error
	server store.ServerError
}

func refuse(kind error, code, format string, args ...any) error {
	return &refusal{kind, store.ServerError{Code: code, Message: code + " " + fmt.Sprintf(format, args...)}}
}

func (r *refusal) Error() string { return r.kind.Error() + ": " + r.server.Message }

func (r *refusal) Unwrap() []error { return []error{r.kind, &r.server} }

// NoMajorityError says that too few nodes answered, or count, for a majority, and
// what each of the others said. Those that are new or have lost their memory
// count again after [Config.MaxTTL] at the latest, and say when.
type NoMajorityError struct {
	Have, Nodes int     // so many of so many nodes can be counted on
	Missing     []error // one for each of the others, which names it
}

func (e *NoMajorityError) Error() string {
	why := make([]string, len(e.Missing))
	for i, err := range e.Missing {
		why[i] = err.Error()
	}
	return fmt.Sprintf("quorum: %d of %d nodes can be counted on, too few for a majority: %s",
		e.Have, e.Nodes, strings.Join(why, "; "))
}

// Unwrap gives what the nodes said, but nothing that is definite for one of them
// alone, a refusal or that nothing was sent: it is not the answer of all.
func (e *NoMajorityError) Unwrap() []error {
	var list []error
	for _, err := range e.Missing {
		if !isRefusal(err) && !errors.Is(err, store.ErrNotSent) {
			list = append(list, err)
		}
	}
	return list
}

// nodeError is what one node said.
type nodeError struct {
	node string
	err  error
}

func (e *nodeError) Error() string { return e.node + ": " + e.err.Error() }

func (e *nodeError) Unwrap() error { return e.err }

func isRefusal(err error) bool {
	var r *store.ServerError
	return errors.As(err, &r)
}

// noMajority makes the error for nodes of which too few count. Where so many have
// refused that none of the others matters, the refusal is the quorum's own.
func (s *Store) noMajority(failed map[int]error) error {
	e := &NoMajorityError{Have: len(s.nodes) - len(failed), Nodes: len(s.nodes)}
	codes := make(map[string]int)
	for i, n := range s.nodes {
		err := failed[i]
		if err == nil {
			continue
		}
		e.Missing = append(e.Missing, &nodeError{n.name(), err})
		var r *store.ServerError
		if errors.As(err, &r) {
			if codes[r.Code]++; codes[r.Code] >= s.majority {
				return &nodeError{fmt.Sprintf("quorum: %d of %d nodes, the last %s",
					codes[r.Code], len(s.nodes), n.name()), err}
			}
		}
	}
	return e
}
