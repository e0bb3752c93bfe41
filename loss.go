// Loss: a hold that the clock, the server, an operator or Close has ended.

package holdfast

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
)

// markLost is called by the renewer. It does not change the record. The holder's code may
// still run, and an early release would let the next holder run beside it. A later Release
// frees the lock, or the end of the lease on the server.
func (h *hold) markLost(reason renewer.Reason) {
	h.mu.Lock()
	err := h.loss(LossReason(reason))
	h.more().lost = err
	current, all, released := h.lease, h.leases(), h.departed
	h.mu.Unlock()
	for _, ls := range all {
		live := ls.finish(err)
		if len(live) == 0 {
			continue
		}
		if ls == current && !released {
			// The holder has lost the turn too. The next goroutine of this process may ask
			// the server, whether the holder has noticed the loss or not.
			h.passTurnOn()
		}
		h.lock.client.reportLoss(live, err)
	}
	h.unshare()
	switch {
	case reason == renewer.NotHeld:
		h.cancelPosition()
	case h.wasInQueue && (reason == renewer.Limit || reason == renewer.Expired && h.lock.noRenewal):
		h.serveOthers()
	}
}

// serveOthers makes the server grant the lock when the lease has ended there, because its holder may never release it.
// Whoever has waited since before the grant polls when the lease before it would have ended. At the grant, the server
// has told one waiter of the new end, but none of the same client, and nobody who watches the lock.
func (h *hold) serveOthers() {
	lk, c := h.lock, h.lock.client
	c.life.Go(releaseLabel, func() {
		ctx, args := c.life.Context(), []string{lk.want, "0", c.retention, lk.channelPrefix}
		left := h.goneBy() - c.now() + leasetime.Margin(lk.ttl)
		for range 2 { // the server counts from when it got the request, so a little may be left
			if !c.life.Sleep(ctx, left) {
				return
			}
			a, err := c.sender.Ask(ctx, script.AwaitFree, lk.keys(), args)
			if err != nil || a.Kind != wire.Busy || a.Left > leasetime.Margin(lk.ttl) {
				return
			}
			left = a.Left + time.Millisecond
		}
	})
}

// reportLoss reports the lost leases of one re-entry. Dropped leases are reported already.
// If a lease without renewal expires, that is its normal end.
func (c *Client) reportLoss(live []*leaseState, err *LostError) {
	for i, ls := range slices.DeleteFunc(live, (*leaseState).isDropped) {
		h, item := ls.hold, news{hold: ls.hold, lease: ls, event: ls.endEvent(observe.EventLost, false, err)}
		if i == 0 {
			level, token := slog.LevelWarn, ls.token.Load()
			if h.lock.noRenewal && err.Reason == LossExpired {
				level = slog.LevelDebug
			}
			attributes := []any{"lock", h.lock.name, "reason", string(err.Reason), "token", token}
			if err.Err != nil {
				attributes = append(attributes, "error", err.Err, "hint", Hint(err.Err))
			}
			item.log = func(log *slog.Logger) {
				log.Log(c.life.Context(), level, "holdfast: lease lost", attributes...)
			}
		}
		c.events.tell(item)
	}
}

// endReason returns why the hold serves no lease any more.
func (h *hold) endReason() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch lost := h.peek().lost; {
	case lost != nil:
		return lost
	case h.closed:
		return ErrClosed
	}
	// The renewer has removed the hold and has not reported it yet.
	return h.loss(LossReason(h.EndReason()))
}

// loss returns the error for a lost hold. If the hold was evicted, that is the reason. The
// caller holds h.mu.
func (h *hold) loss(reason LossReason) *LostError {
	lost := &LostError{Name: h.lock.name, Reason: reason, Evicted: h.peek().evicted}
	if lost.Evicted != nil {
		lost.Reason = LossEvicted
	}
	if lost.Reason == LossExpired {
		lost.Err = h.peek().failed
	}
	return lost
}

func (h *hold) lostFor(reason renewer.Reason) *LostError {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.loss(LossReason(reason))
}

// endMissing ends a hold that the server no longer knows.
func (h *hold) endMissing(ctx context.Context) {
	c := h.lock.client
	_, reason := h.readEviction(ctx)
	if c.renewer.Remove(&h.Item) {
		h.markLost(reason)
	}
}

// cancelPosition cancels the position that the server may have again. If a failover loses
// the grant, the waiter is back in the queue, and its next grant would reach nobody for one
// TTL. The cancel is sent once. If it is lost, only that time is lost.
func (h *hold) cancelPosition() {
	if h.wasInQueue {
		h.lock.client.canceller.Cancel(h.lock.toCancel(h.attemptID()), h.lock.client.now())
	}
}

// readEviction reads from the record whether an operator evicted the hold, and stores who
// did.
func (h *hold) readEviction(ctx context.Context) (r wire.Record, reason renewer.Reason) {
	onePage := func(*wire.Record) bool { return true } // it has the eviction, and who holds the lock alone
	r, err := h.lock.client.sender.RecordUntil(ctx, h.lock.keys(), onePage)
	asked := func(l wire.HolderLine) bool { return l.Ending && h.madeBy(l.Attempt) }
	switch {
	case err != nil:
		return r, renewer.NotHeld
	case r.Evicted == nil || !slices.ContainsFunc(r.Evicted.Attempts, h.madeBy):
		if slices.ContainsFunc(r.Holders, asked) { // and somebody else was evicted after that
			return r, renewer.Evicted
		}
		return r, renewer.NotHeld
	}
	h.noteEviction(&EvictionInfo{At: r.Evicted.At, By: r.Evicted.By, Reason: r.Evicted.Reason})
	return r, renewer.Evicted
}

// noteEviction stores the eviction, also if the hold was lost for another reason before.
func (h *hold) noteEviction(by *EvictionInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.more()
	x.evicted = by
	if x.lost != nil {
		x.lost = h.loss(LossEvicted)
	}
}

// madeBy reports whether a hold was granted to an attempt of a record.
func (h *hold) madeBy(attempt string) bool {
	number, own := h.lock.client.numberIn(attempt)
	return own && number == h.number
}

// numberIn returns the number in an attempt ID of the client, as a record has it. A store of
// several servers adds a suffix of its own on each of them.
func (c *Client) numberIn(attempt string) (number uint64, own bool) {
	attempt, _, _ = strings.Cut(attempt, ".")
	number, err := strconv.ParseUint(wire.NumberOf(attempt), 10, 64)
	return number, err == nil && wire.Client(attempt) == c.id
}

// holdsAttempt reports whether the attempt belongs to a hold of the client.
func (c *Client) holdsAttempt(attempt string) bool {
	return slices.ContainsFunc(c.renewer.All(), func(it *renewer.Item) bool { return it.Hold.(*hold).madeBy(attempt) })
}

// endAtClose ends the current lease because the client closes. The hold serves no further
// lease. err is the error in the release event.
func (h *hold) endAtClose(err error) {
	for _, ls := range h.close() {
		for _, live := range ls.finish(ErrClosed) {
			if !live.isDropped() {
				released := live.endEvent(observe.EventRelease, false, err)
				h.lock.client.events.tell(news{hold: h, lease: live, event: released})
			}
		}
	}
}
