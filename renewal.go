// What keeps a hold: renewals and acknowledgements; and what is done when it is lost.

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/store"
)

// markLost is told by the renewer. The record is left alone: the holder's code may
// still run, and giving the lock on early would only invite the next one to
// meet it. Release, or the lease's end on the server, frees it.
func (h *hold) markLost(reason renewer.Reason) {
	h.mu.Lock()
	err := h.loss(LossReason(reason))
	h.lost = err
	first, all := h.lease, h.leases()
	h.mu.Unlock()
	for _, t := range all {
		live := t.finish(err)
		if len(live) == 0 {
			continue
		}
		if t == first {
			// The holder has lost the turn too: the next goroutine of this process may
			// ask the server like anybody else, whenever the holder notices.
			h.leaveTurn()
		}
		h.reportLoss(live, err)
	}
	h.unshare()
	if reason == renewer.NotHeld {
		h.cancelPosition()
	}
}

// reportLoss tells of leases of one stay that are lost. Nobody minds those that were
// dropped: they have been reported. A fixed lease that is over has lasted as long as
// it was to.
func (h *hold) reportLoss(live []*leaseState, err *LostError) {
	c := h.lock.client
	live = slices.DeleteFunc(live, (*leaseState).isDropped)
	for i, t := range live {
		h, n := t.hold, news{hold: t.hold, lease: t, event: t.ending(EventLost, false, err)}
		if i == 0 {
			level, token := slog.LevelWarn, t.token.Load()
			if h.lock.noRenewal && err.Reason == LossExpired {
				level = slog.LevelDebug
			}
			n.log = func(log *slog.Logger) {
				log.Log(c.life.Context(), level, "holdfast: lease lost", "lock", h.lock.name,
					"reason", string(err.Reason), "token", token)
			}
		}
		c.events.tell(n)
	}
}

// loss is the error for a hold that is lost: for that reason, unless it is known that it
// was evicted. h.mu is held.
func (h *hold) loss(reason LossReason) *LostError {
	if h.evicted != nil {
		reason = LossEvicted
	}
	return &LostError{Name: h.lock.name, Reason: reason, Evicted: h.evicted}
}

func (h *hold) lostFor(reason renewer.Reason) *LostError {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.loss(LossReason(reason))
}

// readEviction looks in the record whether an operator took the hold away, and notes who it was.
func (h *hold) readEviction(ctx context.Context) (r wire.Record, reason renewer.Reason) {
	r, err := h.lock.client.sender.Record(ctx, h.lock.keys())
	if err != nil || r.Evicted == nil || !slices.ContainsFunc(r.Evicted.Attempts, h.made) {
		return r, renewer.NotHeld
	}
	h.noteEviction(&EvictionInfo{At: r.Evicted.At, By: r.Evicted.By, Reason: r.Evicted.Reason})
	return r, renewer.Evicted
}

// made reports that an attempt of the record is the hold's. A store of several servers
// gives it a name of its own on each of them.
func (h *hold) made(attempt string) bool {
	rest, mine := strings.CutPrefix(attempt, h.attempt)
	return mine && (rest == "" || rest[0] == '.')
}

// noteEviction notes who evicted the hold, also if it was lost for less before.
func (h *hold) noteEviction(by *EvictionInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.evicted = by
	if h.lost != nil {
		h.lost = h.loss(LossEvicted)
	}
}

// endMissing ends a hold that the server does not know any more.
func (h *hold) endMissing(ctx context.Context) {
	c := h.lock.client
	_, reason := h.readEviction(request.Lasting(ctx))
	if c.renewer.Remove(&h.Item) {
		h.markLost(reason)
	}
}

// cancelPosition gives up the place in the line that the server may have again: a
// failover that loses the grant brings back the waiter that was granted, and its
// turn would go to nobody for the time of a lease. It is said once: if that is
// lost, so is no more than that time.
func (h *hold) cancelPosition() {
	h.mu.Lock()
	stood := h.stood
	h.mu.Unlock()
	if stood {
		h.lock.client.canceller.Cancel(h.lock.attempt(h.attempt), h.lock.client.now())
	}
}

// renewHolds asks the server to extend leases of one group.
func renewHolds(ctx context.Context, c *Client, batch []*renewer.Item) ([]renewer.Outcome, error) {
	holds := make([]request.Renewal, len(batch))
	for i, l := range batch {
		holds[i] = l.Hold.(*hold).renewal(l.Asking)
	}
	// All of one group wait for the same acknowledgements, or none does.
	first := batch[0].Hold.(*hold).lock
	renewals, got, err := c.sender.Renew(ctx, first.ack, holds)
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
		case r.Evicted:
			outcomes[i].Lost = renewer.Evicted
			asking.Go(func() { batch[i].Hold.(*hold).readEviction(ctx) }) // by whom and why
		default:
			outcomes[i].Lost = renewer.NotHeld
		}
	}
	asking.Wait()
	return outcomes, nil
}

// errTooFew is why nothing is known of one lease while others were renewed.
var errTooFew = errors.New("too few servers have answered")

// renewed is told by the renewer of every try.
func (h *hold) renewed(waiting int, lag time.Duration, err error) {
	c := h.lock.client
	if err == nil {
		h.setWaiters(waiting)
	}
	c.events.tell(news{hold: h, event: Event{
		Kind: EventRenew, Name: h.lock.name, HolderID: h.attempt, Waiters: waiting, Lag: max(lag, 0), Err: err,
	}})
}

// acked refuses an answer that too few replicas or disks have acknowledged: then the
// script has run all the same.
func (s *lock) acked(got store.Acks) error {
	if !s.ack.Wanted() || got.Covers(s.ack.Need) {
		return nil
	}
	return &AckError{Name: s.name, Want: s.ack.Need, Got: got}
}

// confirm sees a grant acknowledged, or gives it back and says why. A pushed
// grant was written over somebody else's connection, and an acquire that was
// sent twice may have written over one that is lost: so it is always a renewal
// over a connection of our own that is waited for, which covers all that was
// written before. It asks for a millisecond more than the lease has, so that
// there is something to write.
func (h *hold) confirm(ctx context.Context) error {
	c, s := h.lock.client, h.lock
	sent := c.now()
	lost, err := h.extend(ctx, h.TTL+time.Millisecond)
	if err == nil && lost == "" {
		c.renewer.Extended(&h.Item, sent, h.TTL)
		return nil
	}
	if c.renewer.Remove(&h.Item) && lost == "" {
		if errors.Is(err, ErrNotAcked) || request.Definite(err) {
			_ = h.release(ctx, releaseMode{}) // what it could not do goes on in the background
		} else {
			c.canceller.Cancel(s.attempt(h.attempt), c.now()+s.ttl)
		}
	}
	switch {
	case lost != "":
		return fmt.Errorf("holdfast: lock %q: lost before it was acknowledged: %w",
			s.name, h.lostFor(lost))
	case errors.Is(err, ErrNotAcked):
		return err
	case request.Ended(ctx) != nil:
		err = request.Ended(ctx)
	}
	return wrap("lock", s.name, err)
}

// extend asks the server for ttl from now on.
func (h *hold) extend(ctx context.Context, ttl time.Duration) (renewer.Reason, error) {
	c := h.lock.client
	r, got, err := c.sender.Renew(ctx, h.lock.ack, []request.Renewal{h.renewal(ttl)})
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

// renewal asks for ttl from now on.
func (h *hold) renewal(ttl time.Duration) request.Renewal {
	return request.Renewal{Key: h.lock.key(), Attempt: h.attempt, Owner: h.lock.owner, TTL: ttl}
}
