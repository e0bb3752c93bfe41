package adapter

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// Fate says what is known of a request that failed.
type Failure int

// The fates.
const (
	Final   Failure = iota // another try would change nothing, or there is no time for it
	Broken                 // the connection broke under it: it may have run
	NotSent                // it found nobody to go to: it has not run
	Lost                   // the client took its connection away: it may have run, and trying again may be in vain
)

// SocketFate is the fate of a request by how its socket failed. Whatever is no
// failure of a socket is final, and so is a time limit that passed.
func SocketFailure(err error) Failure {
	var op *net.OpError
	switch {
	case !errors.As(err, &op):
		return Final
	case op.Op == "dial":
		return NotSent
	case op.Timeout():
		return Final
	}
	return Broken
}

// Retry is how a request that every action tolerates twice is sent again.
type Retry struct {
	// Tries bounds how often it is sent again after its connection broke.
	Tries int
	// Patient is for servers that replace each other: while ctx allows, it is
	// sent again, too, when nobody was there, or who was there refused it
	// because the place of its key is changing.
	Failover bool
	// Fate judges an error that is no refusal.
	Classify func(ctx context.Context, err error) Failure
	// Refusal is the refusal that err is, or nil.
	Refusal func(err error) *store.ServerError
}

const (
	// most bounds the tries of a patient request whose context has no deadline.
	maxTries = 100
	// few bounds those of one whose client may have been closed for good.
	maxTriesLost = 8
)

// Do calls send until it succeeds or there is no reason to call it again. It
// returns the last error, and why an earlier request got no answer, if one
// did not: then a refusal proves nothing about that one.
func (r Retry) Do(ctx context.Context, send func() (string, error)) (answer string, err, broke error) {
	for attempt := 0; ; attempt++ {
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
		if failure == Final || failure != Broken && !r.Failover || attempt >= tries {
			return "", err, broke
		}
		if failure != NotSent {
			broke = err
		}
		if ended := pause(ctx, attempt); ended != nil {
			if broke == nil {
				return "", err, nil // nothing was sent, or the last word was the server's
			}
			return "", ended, err
		}
	}
}

// Passing reports a refusal that says only that the place of the key is
// changing: a slot that moves, a primary that is being replaced.
func Transient(refused *store.ServerError) bool {
	switch refused.Code {
	case "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING":
		return true
	}
	return false
}

// pause waits before the next attempt: not at all after the first, which may
// have found a connection that had died unnoticed, then longer each time. It
// returns the context's error if that ends first.
func pause(ctx context.Context, attempt int) error {
	if Ended(ctx) {
		return cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
	if attempt == 0 {
		return nil
	}
	wait := Backoff(min(attempt, 5))
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
