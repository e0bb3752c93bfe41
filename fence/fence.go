// Package fence has what the guards of a resource share. A guard remembers the highest fencing
// token that its resource was shown, and refuses a lower one. The guards are in the packages
// below:
//
//   - sqlfence: transactions and rows of PostgreSQL, MySQL, MariaDB and SQLite, or by a trigger all writes to a
//     table;
//   - redisfence: writes to Redis and Valkey, on one server or in a Cluster;
//   - objectfence: objects of a store with conditional requests, such as S3;
//   - httpfence: requests to an HTTP service.
//
// A service that keeps no tokens asks [holdfast.Client.Check]. If what the lock protects can check nothing, see
// [holdfast.LockDelay].
//
// Guard one resource by one lock, because tokens of different locks say nothing about each
// other. docs/fencing.md says what a guard does not promise, and what to do if the lock's server
// loses its data and its clock.
package fence

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// ErrStale is the sentinel of [StaleError].
var ErrStale = errors.New("fence: the token is stale")

// ErrInvalid says that an argument cannot work. Nothing was sent.
var ErrInvalid = errors.New("fence: invalid")

// StaleError says that a resource has seen a higher token, or that no live lease has this one. The
// caller no longer holds the lock: another client acquired it later, and reached the resource
// first. Nothing was written. A repetition with the same token fails, too: acquire the lock again,
// read again, and write under the new token.
type StaleError struct {
	Resource string
	Token    uint64 // of the caller
	Seen     uint64 // the highest one that the resource saw; equal to Token if nobody holds the lock (httpfence.Ask)
}

func (e *StaleError) Error() string {
	if e.Seen == e.Token {
		return fmt.Sprintf("fence: %s: no live lease has token %d", e.Resource, e.Token)
	}
	return fmt.Sprintf("fence: %s has seen token %d: token %d is stale", e.Resource, e.Seen, e.Token)
}

// Is makes a StaleError an [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Memory remembers the highest token of each resource, for callers that cannot join their check
// and their write in one step.
type Memory interface {
	// Raise shows token to the resource. If the resource has seen a higher one, the error is a
	// [*StaleError]. Raise accepts an equal one. After any other error the outcome is
	// unknown: the memory may have the token. A repetition is safe.
	Raise(ctx context.Context, resource string, token uint64) error
}

// maxResource is the most bytes in the name of a resource: the size of its column in SQL.
const maxResource = 255

// Check returns an [ErrInvalid] if no resource has such a name, or no lease such a token. The
// guards call it before they send anything.
func Check(resource string, token uint64) error {
	switch {
	case resource == "" || len(resource) > maxResource:
		return fmt.Errorf("%w: the name of a resource has 1 to %d bytes, not %d",
			ErrInvalid, maxResource, len(resource))
	case token == 0 || token > math.MaxInt64:
		return fmt.Errorf("%w: %d is not the token of any lease: pass Lease.Token()", ErrInvalid, token)
	}
	return nil
}

// Judge compares a token with the highest one that a resource has seen.
func Judge(resource string, token, seen uint64) error {
	if seen > token {
		return &StaleError{Resource: resource, Token: token, Seen: seen}
	}
	return nil
}
