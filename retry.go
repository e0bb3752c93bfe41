// Retry: what a call may try again after a failed request.

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
)

// retries are what a call does and knows when the server does not serve its requests. A call that
// waits keeps trying, because its wait limit includes the time without a server.
type retries struct {
	c        *Client
	lock     *lock
	try      bool // the call does not wait: the first failure ends it
	turn     bool // the call has the exclusive turn, and others of this process may only try
	failures int
	last     error  // why the last request failed, perhaps of an earlier attempt; nil if it was answered
	silent   string // of an earlier attempt, see [endedError]
}

// tellAgain is the least time between two log lines about a server that is away.
const tellAgain = time.Minute

// pauseAfter pauses before the next request. It reports false if the call must end: the call
// only tries, the failure is not transient, ctx has ended, or the client closes.
func (r *retries) pauseAfter(ctx context.Context, err error) bool {
	if r.try || !request.Transient(err) || request.Ended(ctx) != nil || r.c.life.IsClosing() || r.c.elsewhere(err) {
		return false
	}
	if r.failures == 0 {
		r.report(ctx, err)
	}
	r.last = err
	r.failures++
	r.tell(wrap("lock", r.lock.name, err))
	return r.c.sender.Pause(ctx, r.failures-1)
}

// tell tells the goroutines of this process that only try why this call waits: until now they could not know.
func (r *retries) tell(refusal error) {
	if r.turn {
		r.lock.turn().Waiting(refusal)
	}
}

// prepare checks the server as soon as it can be reached. After an error the call must end.
func (r *retries) prepare(ctx context.Context, lk *lock) error {
	for err := lk.prepare(ctx); err != nil; err = lk.prepare(ctx) {
		if !r.pauseAfter(ctx, err) {
			return r.finalError(ctx, err, false)
		}
	}
	return nil
}

// prepare checks three things once: the server can run the scripts, its user has the
// permissions, and the server can wait for the lock's acknowledgements.
func (lk *lock) prepare(ctx context.Context) error {
	c := lk.client
	noPushes, err := c.preflight.Check(ctx, lk.ack, lk.keys(), lk.channel)
	if noPushes != nil {
		c.pushing.mute.Store(true)
		lk.reportPushUnavailable(noPushes)
	}
	return err
}

// finalError returns the error of a call that gives up because a request failed. unknown says that one may have
// taken effect.
func (r *retries) finalError(ctx context.Context, err error, unknown bool) error {
	end := request.Ended(ctx)
	switch {
	case end != nil && request.Transient(err):
		return &endedError{
			name: r.lock.name, end: end, last: whyLast(err, r.last), unknown: unknown,
			silent: cmp.Or(request.Interrupted(err), r.silent),
		}
	case r.c.life.IsClosing() && request.Transient(err):
		return ErrClosed
	}
	return wrap("lock", r.lock.name, err)
}

// ended replaces err if ctx ended while the call waited for the server. Otherwise it
// returns err.
func (r *retries) ended(ctx context.Context, err error) error {
	if end := request.Ended(ctx); end != nil && r.last != nil && request.Transient(err) {
		return &endedError{
			name: r.lock.name, end: end, last: reason(r.last), unknown: errors.Is(err, ErrUnknownOutcome),
		}
	}
	return err
}

// report reports that a call waits for the server.
func (r *retries) report(ctx context.Context, err error) {
	c := r.c
	r.lock.reportEvent(ctx, observe.Event{Kind: observe.EventAway, Err: err})
	now, told := int64(c.now()), c.awayLoggedAt.Load()
	if told != 0 && now-told < int64(tellAgain) || !c.awayLoggedAt.CompareAndSwap(told, now) {
		return
	}
	c.events.warn(func(log *slog.Logger) {
		log.Warn("holdfast: the server cannot serve a call that wants a lock; the call keeps trying",
			"lock", r.lock.name, "error", err, "hint", Hint(err))
	})
}

// forWait returns r for the second attempt of a call, which waits. err ended the first one, so the
// second knows why the server did not answer.
func (r *retries) forWait(err error) *retries {
	r.try = false
	var stopped *endedError
	switch {
	case errors.As(err, &stopped):
		r.last, r.silent = stopped.last, stopped.silent
	case heldIn(err) == nil:
		r.last = reason(err)
	}
	return r
}

// isTransient reports whether err is a transient error of the server or of the connection: a later try
// may succeed.
func (c *Client) isTransient(err error) bool {
	return request.Transient(err) && (request.Definite(err) || errors.Is(err, ErrUnknownOutcome)) && !c.elsewhere(err)
}

// elsewhere reports whether the server is a node of a Cluster that does not have the lock, and the
// store does not follow it to the right one. Then no later try succeeds.
func (c *Client) elsewhere(err error) bool {
	refused := request.Refusal(err)
	return !c.sharded && refused != nil && refused.Code == "MOVED"
}

// loopOutlasts reports whether a loop goes on after err. Before that it reports that the server is
// away. A single call ends at once if the server is out of memory or a replica does not
// acknowledge, so that somebody acts. A loop would end for good, and both pass.
func (lk *lock) loopOutlasts(ctx context.Context, err error, failures int) bool {
	refused := request.Refusal(err)
	switch {
	case errors.Is(err, ErrHeld), errors.Is(err, ErrNotHeld), errors.Is(err, ErrLost):
		return true
	case lk.client.isTransient(err), errors.Is(err, ErrNotAcked), refused != nil && refused.Code == "OOM":
	default:
		return false
	}
	if failures == 0 {
		(&retries{c: lk.client, lock: lk}).report(ctx, err)
	}
	return true
}

// again bounds how often a call that does not wait asks anew because a connection broke: a client may have
// several connections that are dead.
type again struct {
	began time.Duration // of the call
	asked int
}

// maxAgain is how often a call asks anew at most.
const maxAgain = 3

// may reports whether the call may ask anew, and counts that.
func (a *again) may(lk *lock) bool {
	a.asked++
	return a.asked <= maxAgain && lk.client.now()-a.began < lk.requestLimit()
}

// isBreak reports whether the outcome of a request is unknown although its time is not over.
func isBreak(err error) bool {
	return err != nil && !request.Definite(err) && !request.IsSilence(err) && !request.IsContextEnd(err) &&
		!errors.Is(err, wire.ErrAnswer)
}

// withdraw cancels an attempt and reports whether the server has answered.
func (lk *lock) withdraw(ctx context.Context, action *script.Script, id string) bool {
	c, a := lk.client, lk.toCancel(id)
	_, err := c.sender.RunWithin(ctx, lk.requestLimit(), action, a.Keys, a.Owned(a.ID, c.retention, a.ChannelPrefix))
	return err == nil
}
