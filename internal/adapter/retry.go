package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// Failure says what is known of a request that failed.
type Failure int

// The failures.
const (
	Final   Failure = iota // another try would change nothing, or there is no time for one
	Broken                 // the connection broke, so the request may have run
	NotSent                // the request reached no server, so it has not run
	Lost                   // the client closed the connection: it may have run, and another try may fail too
)

// unsentError is the error of a request that reached no server.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// Unsent returns err as the reason why a request reached no server.
func Unsent(err error) error { return unsentError{err} }

// FailureOf classifies a request by its error, which is not a refusal. An error of no socket is
// final, and so is a timeout.
func FailureOf(err error) Failure {
	var unsent unsentError
	var op *net.OpError
	switch {
	case errors.As(err, &unsent):
		return NotSent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Broken
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), !errors.As(err, &op):
		return Final
	case op.Op == "dial":
		return NotSent
	case op.Timeout():
		return Final
	}
	return Broken
}

// Retry repeats a request.
type Retry struct {
	// Tries bounds how often the request is sent again after its connection broke.
	Tries int
	// Failover is set if servers replace each other. Then, while ctx allows, the request is
	// also sent again if no server was there, or if a server refused it because the key's
	// place is changing.
	Failover bool
	// Classify judges an error that is not a refusal.
	Classify func(ctx context.Context, err error) Failure
	// Refusal returns the refusal that err is, or nil.
	Refusal func(err error) *store.ServerError
}

const (
	// maxTries bounds the tries of a request with Failover whose context has no deadline.
	maxTries = 100
	// maxTriesLost bounds them if the client may have been closed for good.
	maxTriesLost = 8
)

// Do calls send until it succeeds or another call would be of no use. It returns the last
// error. If an earlier request got no answer, broke says why; a refusal proves nothing about
// that earlier request.
//
// If the request must not run twice, or late (repeats is false), Do sends nothing more after a
// request that got no answer: only whoever knows of the unknown outcome may do that.
func (r Retry) Do(
	ctx context.Context, repeats bool, send func() (string, error),
) (answer string, err, broke error) {
	var unsent error // why a request was not sent, or was refused: the end of ctx is not a reason
	for retries := 0; ; retries++ {
		if answer, err = send(); err == nil {
			return answer, nil, nil
		}
		failure := Final
		if refused := r.Refusal(err); refused == nil {
			failure = r.Classify(ctx, err)
		} else if Transient(refused) {
			failure = NotSent
		}
		tries := r.Tries
		switch {
		case r.Failover && failure == Lost:
			tries = maxTriesLost
		case r.Failover:
			tries = maxTries
		}
		if !repeats && (failure == Broken || failure == Lost) {
			return "", err, broke
		}
		if failure == Final || failure != Broken && !r.Failover || retries >= tries {
			return "", err, broke
		}
		if failure != NotSent {
			broke = err
		}
		if failure == NotSent && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			unsent = err
		}
		if ended := pause(ctx, retries); ended != nil {
			if broke == nil {
				return "", cmp.Or(unsent, err), nil // nothing was sent, or the server answered last
			}
			return "", ended, err
		}
	}
}

// Explain turns an error of a client library into what [store.Store] promises. broke is why an earlier request of the
// same action got no answer, or nil. addr names the servers.
func (r Retry) Explain(ctx context.Context, library string, addr func() string, err, broke error) error {
	if refusal := r.Refusal(err); refusal != nil {
		if broke == nil {
			return refusal
		}
		return fmt.Errorf("%s: %s: no answer to an earlier request: %w; then: %s",
			library, addr(), broke, refusal.Message)
	}
	if broke == nil && r.Classify(ctx, err) == NotSent {
		return fmt.Errorf("%w: %s: %w", store.ErrNotSent, who(library, addr(), err), err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = Timeout(ctx, err)
	}
	if broke == nil {
		return fmt.Errorf("%s: %w", who(library, addr(), err), err)
	}
	if r.Refusal(broke) != nil {
		broke = errors.New(broke.Error()) // a text, because it does not answer the last request
	}
	return fmt.Errorf("%s: %w, after %w", who(library, addr(), err), err, broke)
}

// who names the client library in front of an error, and the server unless the error does.
func who(library, addr string, err error) string {
	for _, word := range strings.FieldsFunc(addr, func(r rune) bool { return r == ',' || r == ' ' }) {
		if strings.Contains(word, ":") && strings.Contains(err.Error(), word) {
			return library
		}
	}
	return library + ": " + addr
}

// Transient reports whether a refusal says only that the key's place is changing: a slot
// moves, or a primary is being replaced.
func Transient(refused *store.ServerError) bool {
	switch refused.Code {
	case "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING":
		return true
	}
	return false
}

// FromReplica reports whether a replica refused: it has no primary's rights, or has lost its primary.
func FromReplica(refused *store.ServerError) bool {
	return refused != nil && (refused.Code == "READONLY" || refused.Code == "MASTERDOWN")
}

// pause waits before the next try: not at all after the first, which may have used a broken
// connection, then longer each time. If the context ends first, pause returns its error.
func pause(ctx context.Context, retries int) error {
	if Ended(ctx) {
		return cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
	if retries == 0 {
		return nil
	}
	wait := Backoff(min(retries, 5))
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		// Done need not follow Deadline, see store.Store.
		wait = max(time.Until(deadline), 0)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		if Ended(ctx) {
			return cmp.Or(ctx.Err(), context.DeadlineExceeded)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Backoff returns how long to wait after so many failures in a row.
func Backoff(failures int) time.Duration { return backoff.Default.After(failures, rand.Float64()) }
