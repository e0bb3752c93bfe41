// What makes a hold last: renewals, extensions, acknowledgements.

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/mark"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/store"
)

// renewHolds asks the server to renew leases of one group.
func (c *Client) renewHolds(ctx context.Context, batch []renewer.Asked) ([]renewer.Outcome, error) {
	holds := make([]request.Renewal, len(batch))
	for i, l := range batch {
		h := l.Hold.(*hold)
		holds[i] = h.renewal(h.lock.onServer(l.For))
	}
	// All leases of one group need the same acknowledgements, or none needs any.
	first := batch[0].Hold.(*hold).lock
	limit, _ := ctx.Deadline() // the renewer has set it
	renewals, got, err := c.sender.Renew(ctx, time.Until(limit), first.ack, holds)
	if err == nil {
		err = first.acked(got)
	}
	if err != nil {
		return nil, request.InTime(c.life.Context(), err) // the limit is the renewer's
	}
	outcomes := make([]renewer.Outcome, len(batch))
	var asking sync.WaitGroup
	for i, r := range renewals {
		switch {
		case r.Held:
			outcomes[i].Waiting = r.Waiting
		case r.Unknown:
			outcomes[i].Err = errTooFew
		case r.Err != nil:
			outcomes[i].Err = r.Err
		case r.Evicted:
			outcomes[i].Lost = renewer.Evicted
			asking.Go(func() { batch[i].Hold.(*hold).readEviction(ctx) }) // the operator and the reason
		default:
			outcomes[i].Lost = renewer.NotHeld
		}
	}
	asking.Wait()
	return outcomes, nil
}

// errTooFew says that the outcome of one lease is unknown, while others were renewed.
var errTooFew = errors.New("too few servers have answered")

// renewed is called by the renewer after every try.
func (h *hold) renewed(r renewer.Report) {
	c := h.lock.client
	if r.Err == nil {
		h.setWaiters(r.Waiting)
		c.listenForEvictions()
	}
	h.mu.Lock()
	if r.Err != nil || h.peek().failed != nil {
		h.more().failed = r.Err
	}
	h.mu.Unlock()
	c.events.tell(news{hold: h, event: observe.Event{
		Kind: observe.EventRenew, Name: h.lock.name, Mode: h.lock.mode(), HolderID: h.attemptID(), Waiters: r.Waiting,
		Lag: max(r.Lag, 0), Remaining: r.Remaining, TTL: r.TTL, Err: r.Err,
	}})
}

// acked returns an error if too few replicas or disks acknowledged an answer. The script
// has run in that case too.
func (lk *lock) acked(got store.Acks) error {
	if !lk.ack.Wanted() || got.Covers(lk.ack.Need) {
		return nil
	}
	return &MismatchError{lk.name, lk.ack.Need, got}
}

// confirm waits until a grant is acknowledged. If it is not, confirm releases the hold and
// returns the reason. The grant may have been written over another client's connection, or
// over a connection that is lost. So confirm sends a renewal and waits for its
// acknowledgements, which cover all earlier writes too. It asks for one millisecond more
// than the lease has, so that there is a change to write.
func (h *hold) confirm(ctx context.Context) error {
	c, lk := h.lock.client, h.lock
	sent := c.now()
	lost, err := h.extend(ctx, lk.onServer(h.TTL+time.Millisecond))
	if err == nil && lost == "" {
		c.renewer.Extended(&h.Item, sent, h.TTL)
		return nil
	}
	if c.renewer.Remove(&h.Item) && lost == "" {
		switch back := h.heldBack(); {
		case back > 0:
			h.releaseLater(back)
		case errors.Is(err, ErrNotAcked) || request.Definite(err):
			c.untilEnd(ctx, func() { _ = h.release(ctx, releaseMode{}) })
		default:
			c.canceller.CancelUnknown(lk.toCancel(h.attemptID()))
		}
	}
	switch {
	case lost != "":
		return errorf("holdfast: lock %q: the lease was lost before it was acknowledged: %w",
			lk.name, h.lostFor(lost))
	case errors.Is(err, ErrNotAcked):
		return err
	case request.Ended(ctx) != nil:
		err = request.Ended(ctx)
	}
	return wrap("lock", lk.name, err)
}

// Extend makes the lease last for ttl from now, and every later renewal asks for ttl too.
// Extend never shortens a lease, and never extends it past [MaxHold]. Leases that share a
// hold are extended together. ttl has the limits of [TTL]. After [Lease.Shorten], a longer ttl
// is an [ErrInvalid].
//
// If the error is an [ErrNotHeld], the lease has ended. After any other error the lease keeps
// its old deadline and its renewal.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	ls := l.state
	h, c := ls.hold, ls.hold.lock.client
	switch err := checkTTL(ttl); {
	case ctx == nil:
		return errNoContext
	case err != nil:
		return invalid("%v", err)
	case h.lock.tooLong(ttl) != nil:
		return h.lock.tooLong(ttl)
	}
	if err := ls.ended(); err != nil {
		return errorf("%w: %w", ErrNotHeld, err)
	}
	if err := cmp.Or(h.checkLongest(ttl), alreadyOver(ctx, "extending", h.lock.name)); err != nil {
		return err
	}
	if !h.beginExtension(ls) {
		return errorf("%w: %w", ErrNotHeld, cmp.Or(ls.ended(), ErrReleased))
	}
	sent := c.now()
	lost, err := h.extend(ctx, h.lock.onServer(h.TTLFor(sent, ttl)))
	if err == nil || request.Definite(err) {
		defer h.endExtension()
	}
	switch {
	case err != nil:
		return wrap("extending", h.lock.name, err)
	case lost != "":
		if c.renewer.Remove(&h.Item) {
			h.markLost(lost)
		}
	default:
		c.renewer.Extended(&h.Item, sent, ttl)
		h.shortenAgain(ctx, ttl)
	}
	if err := ls.ended(); err != nil {
		return errorf("%w: %w", ErrNotHeld, err)
	}
	return h.checkLongest(ttl)
}

// extend asks the server for a lease of ttl from now on, see onServer.
func (h *hold) extend(ctx context.Context, ttl time.Duration) (renewer.Reason, error) {
	c := h.lock.client
	limit := h.lock.requestLimit()
	if h.Patient() {
		limit = c.sender.Timeout
	}
	r, got, err := c.sender.Renew(mark.Awaited(ctx), limit, h.lock.ack, []request.Renewal{h.renewal(ttl)})
	if err == nil {
		err = h.lock.acked(got)
	}
	switch {
	case err != nil:
		return "", err
	case r[0].Unknown:
		return "", errTooFew
	case r[0].Evicted:
		_, _ = h.readEviction(ctx)
		return renewer.Evicted, nil
	case !r[0].Held:
		return renewer.NotHeld, nil
	}
	return "", nil
}

// Patient reports whether a renewal waits for acknowledgements.
func (h *hold) Patient() bool { return h.lock.ack.Wanted() }

// renewal returns the request for a lease of ttl from now on, see onServer.
func (h *hold) renewal(ttl time.Duration) request.Renewal {
	return request.Renewal{Key: h.lock.key(), Attempt: h.attemptID(), Owner: h.lock.owner, TTL: ttl}
}
