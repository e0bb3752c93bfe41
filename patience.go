package holdfast

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
)

const (
	// tellAgain is how often the log is told that the server is away.
	tellAgain = time.Minute
	// lastLook bounds the question who has the lock when a wait is over.
	lastLook = 250 * time.Millisecond
)

// outage is what a call goes through while the server cannot serve it. A call
// that waits has said for how long, and that covers the way to the server too.
type outage struct {
	c        *Client
	name     string
	try      bool // the call does not wait: the first failure ends it
	failures int
	last     error // why the last request failed; nil if it was answered
}

// outlast waits until the next request makes sense. It reports false if the
// call is to end: it only tries, the failure is there to stay, ctx has ended,
// or the client closes.
func (o *outage) outlast(ctx context.Context, err error) bool {
	if o.try || !request.Transient(err) || request.Ended(ctx) != nil || o.c.life.IsClosing() {
		return false
	}
	if o.last == nil {
		o.report(err)
	}
	o.last = err
	o.failures++
	return o.c.sender.Pause(ctx, o.failures-1)
}

// over is the error of a call that has asked for nothing yet and gives up.
func (o *outage) over(ctx context.Context, err error) error {
	end := request.Ended(ctx)
	switch {
	case end != nil && request.Transient(err):
		return &endedError{name: o.name, end: end, last: o.last}
	case o.c.life.IsClosing() && request.Transient(err):
		return ErrClosed
	}
	return wrap("lock", o.name, err)
}

// ended is the error of a call whose ctx has ended while it waited for the server,
// in the place of err; else it is err.
func (o *outage) ended(ctx context.Context, err error) error {
	if end := request.Ended(ctx); end != nil && o.last != nil && request.Transient(err) {
		return &endedError{name: o.name, end: end, last: reason(o.last), unknown: errors.Is(err, ErrUnknownOutcome)}
	}
	return err
}

// report says that a call waits for the server.
func (o *outage) report(err error) {
	c, name := o.c, o.name
	c.events.observe(Event{Kind: EventAway, Name: name, Err: err})
	now, told := int64(c.now()), c.away.Load()
	if told != 0 && now-told < int64(tellAgain) || !c.away.CompareAndSwap(told, now) {
		return
	}
	c.log.Warn("holdfast: the server cannot serve a lock call, which goes on trying",
		"lock", name, "error", err, "hint", Hint(err))
}

// errWaitOver is the cause of the end of a context that Wait has bounded.
var errWaitOver = errors.New("holdfast: the wait is over")

// bounded is ctx with the limit of a wait.
func bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, errWaitOver)
}

// waitOver reports whether it is the limit of a wait that has ended ctx, and
// not the context around it, which the caller gave.
func waitOver(ctx, parent context.Context) bool {
	if request.Ended(ctx) == nil || request.Ended(parent) != nil {
		return false
	}
	cause := context.Cause(ctx)
	return cause == nil || errors.Is(cause, errWaitOver)
}

// heldError is the error of a wait that is over, in the place of err, which says
// only how a request ended at that moment. What err says for good, it says still.
func (s *lock) heldError(ctx, parent context.Context, err error) error {
	if err == nil || !waitOver(ctx, parent) ||
		!request.IsContextEnd(err) && !errors.Is(err, ErrUnknownOutcome) &&
			(!request.Definite(err) || !request.Transient(err)) {
		return err
	}
	until, _ := ctx.Deadline()
	told := &HeldError{Name: s.name, Waited: s.wait + time.Since(until)}
	var stopped *endedError
	switch {
	case errors.As(err, &stopped):
		told.Err = stopped.last
	case request.Definite(err):
		told.Err = err
	}
	if told.Err == nil {
		s.readHolder(parent, told)
	}
	return told
}

// heldErrorOf is held for several locks that are taken in one step: it names the
// first that somebody has.
func heldErrorOf(ctx, parent context.Context, locks []lock, err error) error {
	first := locks[0].heldError(ctx, parent, err)
	told, ok := first.(*HeldError) //nolint:errorlint // the one that was just made
	if !ok || !waitOver(ctx, parent) || told.Err != nil || told.Remaining > 0 {
		return first
	}
	others := make([]*HeldError, len(locks))
	var all sync.WaitGroup
	for i := range locks[1:] {
		s := &locks[i+1]
		other := &HeldError{Name: s.name, Waited: told.Waited}
		others[i+1] = other
		all.Go(func() { s.readHolder(parent, other) })
	}
	all.Wait()
	for _, other := range others[1:] {
		if other.Err == nil && other.Remaining > 0 {
			return other
		}
	}
	return first
}

// readHolder asks the server who has the lock, in a moment or not at all.
func (s *lock) readHolder(ctx context.Context, told *HeldError) {
	c := s.client
	look, cancel := context.WithTimeout(ctx, min(c.cfg.RequestTimeout, lastLook))
	defer cancel()
	r, err := c.sender.Record(look, s.keys())
	if err != nil {
		told.Err = request.InTime(ctx, err)
		return
	}
	seen := 0
	for _, h := range r.Holders {
		if wire.Client(h.Attempt) == c.id && !holdsAttempt(c, h.Attempt) {
			continue // what the wait's end has cut off, and is being given back
		}
		if seen++; seen == 1 {
			told.HeldBy, told.Remaining = ownerName(h.Owner, h.Attempt), h.Left
			continue
		}
		told.HeldBy, told.Remaining = "", min(told.Remaining, h.Left) // there are several
	}
}

// holdsAttempt reports whether the attempt is one of a hold that the client has.
func holdsAttempt(c *Client, attempt string) bool {
	return slices.ContainsFunc(c.renewer.All(), func(l *renewer.Item) bool { return l.Hold.(*hold).attempt == attempt })
}

// reason is why an acquisition failed, without the doubt whether it took effect:
// that is dealt with in the background.
func reason(err error) error {
	var doubt *unknownError
	if errors.As(err, &doubt) {
		return doubt.cause
	}
	return err
}
