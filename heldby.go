// What the error of a wait that is over says: which holder has the lock.

package holdfast

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// errWaitOver is the cause when MaxWait ends a context.
var errWaitOver = errors.New("holdfast: the wait is over")

// bounded returns ctx with the limit of a wait.
func bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, errWaitOver)
}

// waitOver reports whether the wait limit ended ctx. If the caller's own context ended, it
// reports false.
func waitOver(ctx, parent context.Context) bool {
	if request.Ended(ctx) == nil || request.Ended(parent) != nil {
		return false
	}
	cause := context.Cause(ctx)
	return cause == nil || errors.Is(cause, errWaitOver)
}

// asHeldError replaces err when the wait limit ended the wait. At that moment err says only
// how a request was stopped. An error that is not transient stays as it is.
func (lk *lock) asHeldError(ctx, parent context.Context, err error) error {
	if err == nil || !waitOver(ctx, parent) ||
		!request.IsContextEnd(err) && !errors.Is(err, ErrUnknownOutcome) &&
			(!request.Definite(err) || !request.Transient(err)) {
		return err
	}
	until, _ := ctx.Deadline()
	told := &HeldError{Name: lk.name, Waited: lk.maxWait + time.Since(until)}
	var stopped *endedError
	switch {
	case errors.As(err, &stopped):
		told.Err = stopped.last
	case request.Definite(err):
		told.Err = err
	}
	if told.Err == nil {
		lk.readHolder(parent, told)
	}
	return told
}

// asHeldErrorOf does what asHeldError does, for several locks that one request acquires. It
// names the first lock that is held.
func asHeldErrorOf(ctx, parent context.Context, locks []lock, err error) error {
	first := locks[0].asHeldError(ctx, parent, err)
	told, ok := first.(*HeldError) //nolint:errorlint // the one that was just made
	if !ok || !waitOver(ctx, parent) || told.Err != nil || told.Remaining > 0 {
		return first
	}
	others := make([]*HeldError, len(locks))
	var all sync.WaitGroup
	for i := range locks[1:] {
		lk := &locks[i+1]
		other := &HeldError{Name: lk.name, Waited: told.Waited}
		others[i+1] = other
		all.Go(func() { lk.readHolder(parent, other) })
	}
	all.Wait()
	for _, other := range others[1:] {
		if other.Err == nil && other.Remaining > 0 {
			return other
		}
	}
	return first
}

// readHolderLimit bounds the request for the holder's name at the end of a wait.
const readHolderLimit = 250 * time.Millisecond

// readHolder asks the server which holder the lock has; of very many readers, it reads some. It
// gives up after readHolderLimit.
func (lk *lock) readHolder(ctx context.Context, told *HeldError) {
	c := lk.client
	limited, cancel := context.WithTimeout(ctx, min(c.cfg.RequestTimeout, readHolderLimit))
	defer cancel()
	r, err := c.sender.RecordUntil(limited, lk.keys(), oneOrSeveral)
	if err != nil {
		told.Err = request.InTime(ctx, err)
		return
	}
	seen, client := 0, ""
	for _, h := range r.Holders {
		if wire.Client(h.Attempt) == c.id && !c.holdsAttempt(h.Attempt) {
			continue // stopped by the end of the wait, with a cancel under way
		}
		if seen++; seen == 1 {
			told.HeldBy, told.Remaining, client = ownerName(h.Owner, h.Attempt), h.Left, wire.Client(h.Attempt)
			continue
		}
		told.HeldBy, told.Remaining = "", min(told.Remaining, h.Left) // there are several holders
	}
	if told.HeldBy != "" {
		told.Client = c.programOf(limited, client)
	}
}

// program is what a client said of itself, and when this client asked.
type program struct {
	id   string
	info *ClientInfo // nil: nothing is known
	at   time.Duration
}

// askAgain is how long a client that has said nothing of itself is not asked for again.
const askAgain = time.Second

// mostPrograms is how many clients a client remembers.
const mostPrograms = 32

// programOf returns what a client said of itself. That never changes, and a client that tries a lock again and again
// meets the same few holders: one request asks for each of them, and not one each time. If two calls ask at once, one
// answer may be forgotten.
func (c *Client) programOf(ctx context.Context, id string) *ClientInfo {
	var known []program
	if programs := c.programs.Load(); programs != nil {
		known = *programs
	}
	i := slices.IndexFunc(known, func(p program) bool { return p.id == id })
	if i >= 0 && (known[i].info != nil || c.now()-known[i].at < askAgain) {
		return known[i].info
	}
	p := program{id, c.clientInfo(ctx, id), c.now()}
	known = slices.DeleteFunc(slices.Clone(known), func(other program) bool { return other.id == id })
	known = append(known[max(0, len(known)-mostPrograms+1):], p)
	c.programs.Store(&known)
	return p.info
}

// nameHolder adds the holder's program to the error of a try. The errors of a wait have it already, see readHolder.
func (c *Client) nameHolder(ctx context.Context, err error) error {
	held, ok := err.(*HeldError) //nolint:errorlint // the one that the try has just made
	if !ok || held.Client != nil || held.Err != nil {
		return err
	}
	client, _, isAttempt := strings.Cut(held.HeldBy, "/")
	if !isAttempt || client == c.id || client == "" {
		return err // an owner's name, a holder of this process, or another library's
	}
	limited, cancel := context.WithTimeout(ctx, min(c.cfg.RequestTimeout, readHolderLimit))
	defer cancel()
	named := *held // a shared error may be another call's, too
	named.Client = c.programOf(limited, client)
	return &named
}

// oneOrSeveral ends the reading as soon as it is known that there are several holders, or that
// there is only one.
func oneOrSeveral(page *wire.Record) bool {
	return len(page.Holders) > 1 || len(page.Holders) == 1 && page.Holders[0].Mode == wire.Exclusive
}

// reason returns why an acquisition failed, without the unknown outcome. A cancel ends that.
func reason(err error) error {
	var failed *requestError
	if errors.As(err, &failed) {
		return failed.cause
	}
	return err
}

// heldIn returns the HeldError in err, or nil.
func heldIn(err error) error {
	var held *HeldError
	if errors.As(err, &held) {
		return held
	}
	return nil
}
