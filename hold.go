package holdfast

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// hold is one grant of the server. It is in the keeper's care, and serves one
// lease after another while it is passed inside the process.
type hold struct {
	keeper.Lease
	client  *Client
	spec    *spec
	attempt string
	server  uint64        // the server's part of the token
	granted time.Duration // when the grant is counted from
	passes  int           // written only by who has the seat
	waiting atomic.Int64  // how many wait on the server, as last told

	// mu guards the fields below.
	mu     sync.Mutex
	tenure *tenure // the lease that it serves now
	lost   *LostError
}

// begin makes a hold of a grant that is counted from sent, and gives it into
// the keeper's care. It reports false when the grant came too late to be
// believed, or the client has closed: then the caller gives it back.
func (c *Client) begin(s *spec, attempt string, token uint64, waiting int, sent time.Duration) (*hold, bool) {
	h := &hold{
		Lease:  keeper.Lease{Group: s.group, TTL: s.ttl, Fixed: s.fixed},
		client: c, spec: s, attempt: attempt, server: token, granted: sent,
	}
	h.Hold = h
	h.waiting.Store(int64(waiting))
	if !c.keeper.Add(&h.Lease, sent) {
		return nil, false
	}
	if h.Deadline() <= c.now() && c.keeper.Remove(&h.Lease) {
		return nil, false
	}
	return h, true
}

// token is the fencing token of the present pass: the server's part, and room
// for the passes behind it, so that every lease has a higher one.
func (h *hold) token() uint64 { return h.server<<10 | uint64(h.passes) }

func (h *hold) isLost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost != nil
}

// serve makes t the lease that ends when the hold is lost. It reports false
// if the hold is lost already.
func (h *hold) serve(t *tenure) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost != nil {
		return false
	}
	h.tenure = t
	return true
}

// finish ends the present lease's context, with cause.
func (h *hold) finish(cause error) {
	h.mu.Lock()
	t := h.tenure
	h.mu.Unlock()
	if t != nil {
		t.end(cause)
	}
}

// lost is told by the keeper. The record is left alone: the holder's code may
// still run, and giving the lock on early would only invite the next one to
// meet it. Release, or the lease's end on the server, frees it.
func (c *Client) lost(l *keeper.Lease, reason keeper.Reason) {
	h := l.Hold.(*hold)
	err := &LostError{Name: h.spec.name, Reason: LossReason(reason)}
	h.mu.Lock()
	h.lost = err
	t := h.tenure
	h.mu.Unlock()
	if t == nil || !t.end(err) {
		return
	}
	c.log.Warn("holdfast: lease lost", "lock", h.spec.name, "reason", string(reason), "token", t.token)
	c.observe(Event{
		Kind: EventLost, Name: h.spec.name, Owner: h.attempt, Token: t.token,
		Held: c.now() - t.start, Err: err,
	})
}

// renew asks the server to extend leases of one group.
func (c *Client) renew(ctx context.Context, batch []*keeper.Lease) ([]keeper.Outcome, error) {
	keys := make([]string, len(batch))
	args := make([]string, 1, 1+3*len(batch))
	args[0] = c.retention
	for i, l := range batch {
		h := l.Hold.(*hold)
		keys[i] = h.spec.key
		args = append(args, h.attempt, wire.Millis(l.TTL), "")
	}
	answer, err := c.store.Run(ctx, script.Renew, keys, args)
	if err != nil {
		return nil, err
	}
	renewals, err := wire.ParseRenewals(answer, len(batch))
	if err != nil {
		return nil, err
	}
	outcomes := make([]keeper.Outcome, len(batch))
	for i, r := range renewals {
		switch {
		case r.Held:
			outcomes[i].Waiting = r.Waiting
		case r.Evicted:
			outcomes[i].Lost = keeper.Evicted
		default:
			outcomes[i].Lost = keeper.NotHeld
		}
	}
	return outcomes, nil
}

// renewed is told by the keeper of every try.
func (c *Client) renewed(l *keeper.Lease, waiting int, lag time.Duration, err error) {
	h := l.Hold.(*hold)
	if err == nil {
		h.waiting.Store(int64(waiting))
	}
	c.observe(Event{
		Kind: EventRenew, Name: h.spec.name, Owner: h.attempt, Waiting: waiting, Lag: max(lag, 0), Err: err,
	})
}

// release tells the server that the hold is over, which hands the lock on in
// the same step. The hold is out of the keeper's care by now. It survives the
// end of ctx, whose deadline bounds it only while ctx lasts; a request
// without an answer is sent once more, for it tolerates that, and after that
// the background goes on until the lease has ended by itself.
func (h *hold) release(ctx context.Context) error {
	c, s := h.client, h.spec
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	args := []string{h.attempt, wire.Number(h.server), c.retention, s.base}
	a, err := c.ask(ctx, script.Release, s.keys, args)
	if err != nil && !definite(err) {
		// A copy that ran is answered like the first. ctx may have ended meanwhile.
		a, err = c.ask(context.WithoutCancel(ctx), script.Release, s.keys, args)
	}
	switch {
	case err != nil:
		if passing(err) {
			c.undo(s, h.attempt, max(c.now(), h.Deadline()))
		}
		return fault("release of", s.name, err)
	case a.Kind == wire.Released:
		return nil
	case a.Kind == wire.Gone:
		return fmt.Errorf("%w: %w", ErrNotHeld, &LostError{Name: s.name, Reason: LossNotHeld})
	}
	return fault("release of", s.name, wire.BadAnswer("another kind to release"))
}
