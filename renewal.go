// Renewals and acknowledgements of a hold, and its loss.

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/store"
)

// markLost is called by the renewer. It does not change the record. The holder's code may
// still run, and an early release would let the next holder run beside it. A later Release
// frees the lock, or the end of the lease on the server.
func (h *hold) markLost(reason renewer.Reason) {
	h.mu.Lock()
	err := h.loss(LossReason(reason))
	h.more().lost = err
	first, all, released := h.lease, h.leases(), h.departed
	h.mu.Unlock()
	for _, t := range all {
		live := t.finish(err)
		if len(live) == 0 {
			continue
		}
		if t == first && !released {
			// The holder has lost the turn too. The next goroutine of this process may ask
			// the server, whether the holder has noticed the loss or not.
			h.leaveTurn()
		}
		reportLoss(h.lock.client, live, err)
	}
	h.unshare()
	if reason == renewer.NotHeld {
		h.cancelPosition()
	}
}

// reportLoss reports the lost leases of one re-entry. Dropped leases are reported already.
// If a lease without renewal expires, that is its normal end.
func reportLoss(c *Client, live []*leaseState, err *LostError) {
	for i, t := range slices.DeleteFunc(live, (*leaseState).isDropped) {
		h, n := t.hold, news{hold: t.hold, lease: t, event: t.ending(EventLost, false, err)}
		if i == 0 {
			level, token := slog.LevelWarn, t.token.Load()
			if h.lock.noRenewal && err.Reason == LossExpired {
				level = slog.LevelDebug
			}
			attributes := []any{"lock", h.lock.name, "reason", string(err.Reason), "token", token}
			if failed := lastFailure(h); failed != nil && err.Reason == LossExpired {
				attributes = append(attributes, "error", failed, "hint", Hint(failed))
			}
			n.log = func(log *slog.Logger) {
				log.Log(c.life.Context(), level, "holdfast: lease lost", attributes...)
			}
		}
		c.events.tell(n)
	}
}

// lastFailure returns why the last renewal failed, or nil.
func lastFailure(h *hold) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.peek().failed
}

// loss returns the error for a lost hold. If the hold was evicted, that is the reason. The
// caller holds h.mu.
func (h *hold) loss(reason LossReason) *LostError {
	evicted := h.peek().evicted
	if evicted != nil {
		reason = LossEvicted
	}
	return &LostError{Name: h.lock.name, Reason: reason, Evicted: evicted}
}

func (h *hold) lostFor(reason renewer.Reason) *LostError {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.loss(LossReason(reason))
}

// readEviction reads from the record whether an operator evicted the hold, and stores who
// did.
func (h *hold) readEviction(ctx context.Context) (r wire.Record, reason renewer.Reason) {
	onePage := func(*wire.Record) bool { return true } // it has the eviction, and who holds the lock alone
	r, err := h.lock.client.sender.RecordUntil(ctx, h.lock.keys(), onePage)
	mine := func(attempt string) bool { return madeBy(h, attempt) }
	if err != nil || r.Evicted == nil || !slices.ContainsFunc(r.Evicted.Attempts, mine) {
		return r, renewer.NotHeld
	}
	h.noteEviction(&EvictionInfo{At: r.Evicted.At, By: r.Evicted.By, Reason: r.Evicted.Reason})
	return r, renewer.Evicted
}

// madeBy reports whether a hold was granted to an attempt of a record.
func madeBy(h *hold, attempt string) bool {
	number, own := numberIn(h.lock.client, attempt)
	return own && number == h.number
}

// numberIn returns the number in an attempt ID of the client, as a record has it. A store of
// several servers adds a suffix of its own on each of them.
func numberIn(c *Client, attempt string) (number uint64, own bool) {
	client, rest, _ := strings.Cut(attempt, "/")
	digits, _, _ := strings.Cut(rest, ".")
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil && client == c.id
}

// holdsAttempt reports whether the attempt belongs to a hold of the client.
func holdsAttempt(c *Client, attempt string) bool {
	return slices.ContainsFunc(c.renewer.All(), func(l *renewer.Item) bool { return madeBy(l.Hold.(*hold), attempt) })
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
		h.lock.client.canceller.Cancel(h.lock.attempt(attemptOf(h)), h.lock.client.now())
	}
}

// renewHolds asks the server to renew leases of one group.
func renewHolds(ctx context.Context, c *Client, batch []renewer.Asked) ([]renewer.Outcome, error) {
	holds := make([]request.Renewal, len(batch))
	for i, l := range batch {
		holds[i] = l.Hold.(*hold).renewal(l.For)
	}
	// All leases of one group need the same acknowledgements, or none needs any.
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
	}
	h.mu.Lock()
	if r.Err != nil || h.peek().failed != nil {
		h.more().failed = r.Err
	}
	h.mu.Unlock()
	c.events.tell(news{hold: h, event: Event{
		Kind: EventRenew, Name: h.lock.name, Mode: h.lock.mode(), HolderID: attemptOf(h), Waiters: r.Waiting,
		Lag: max(r.Lag, 0), Remaining: r.Remaining, TTL: r.TTL, Err: r.Err,
	}})
}

// acked returns an error if too few replicas or disks acknowledged an answer. The script
// has run in that case too.
func (s *lock) acked(got store.Acks) error {
	if !s.ack.Wanted() || got.Covers(s.ack.Need) {
		return nil
	}
	return &AckError{Name: s.name, Want: s.ack.Need, Got: got}
}

// confirm waits until a grant is acknowledged. If it is not, confirm releases the hold and
// returns the reason. The grant may have been written over another client's connection, or
// over a connection that is lost. So confirm sends a renewal and waits for its
// acknowledgements, which cover all earlier writes too. It asks for one millisecond more
// than the lease has, so that there is a change to write.
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
			untilEnd(ctx, c, func() { _ = h.release(ctx, releaseMode{}) })
		} else {
			c.canceller.Cancel(s.attempt(attemptOf(h)), c.now()+s.ttl)
		}
	}
	switch {
	case lost != "":
		return fmt.Errorf("holdfast: lock %q: the lease was lost before it was acknowledged: %w",
			s.name, h.lostFor(lost))
	case errors.Is(err, ErrNotAcked):
		return err
	case request.Ended(ctx) != nil:
		err = request.Ended(ctx)
	}
	return wrap("lock", s.name, err)
}

// beginExtension notes an extension of t. Until endExtension, the hold is not handed over: the next
// goroutine has not asked for that TTL. It reports false if t is released.
func (m *members) beginExtension(t *leaseState) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.has(t) {
		return false
	}
	m.more().extending++
	return true
}

// endExtension notes that the outcome of an extension is known.
func (m *members) endExtension() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.extra.extending--
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

// renewal returns the request for ttl from now on.
func (h *hold) renewal(ttl time.Duration) request.Renewal {
	return request.Renewal{Key: h.lock.key(), Attempt: attemptOf(h), Owner: h.lock.owner, TTL: ttl}
}

// drop marks the lease as dropped. It reports false if the lease had already ended.
func (t *leaseState) drop() bool {
	t.hold.mu.Lock()
	t.hold.more().dropped = true
	t.hold.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.released || t.cause != nil {
		return false
	}
	t.dropped = true
	return true
}

// stopIfDropped stops the renewal of a hold whose leases are all dropped. From then on no
// reader joins the hold, and it is not handed over.
func (h *hold) stopIfDropped() {
	if h.noneInUse() {
		h.lock.client.renewer.StopRenewal(&h.Item)
		h.unshare()
	}
}

// inUse reports whether the program still has a lease of the re-entry that began with t.
func (t *leaseState) inUse() bool {
	t.mu.Lock()
	begun := !t.left && !t.dropped
	inner := slices.Clone(t.entered().inner)
	t.mu.Unlock()
	return begun || slices.ContainsFunc(inner, func(in *leaseState) bool { return !in.isDropped() })
}

func (t *leaseState) isDropped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}
