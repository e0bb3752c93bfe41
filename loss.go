// Loss: a hold that the clock, the server or an operator has ended, and leases that the program has dropped.

package holdfast

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
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
	for i, ls := range slices.DeleteFunc(live, (*leaseState).isDropped) {
		h, item := ls.hold, news{hold: ls.hold, lease: ls, event: ls.endEvent(EventLost, false, err)}
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
	return slices.ContainsFunc(c.renewer.All(), func(it *renewer.Item) bool { return madeBy(it.Hold.(*hold), attempt) })
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
		h.lock.client.canceller.Cancel(h.lock.toCancel(attemptOf(h)), h.lock.client.now())
	}
}

// If the collector finds a lease without a release, the client does not release it. The
// holder's code may still run, so no other client may get the lock before the TTL ends. The
// client stops the renewal, so the TTL does end the lease. It also reports the lease,
// because a dropped lease is most often a mistake. A lease without renewal is different: it
// ends with its TTL anyway, and to let it run out is a normal use.

// reportLeak is called by the collector when the program has dropped the handle.
func (l *Lease) reportLeak() { reportLeak(l.state.acquiredPC, l.state) }

// reportLeak stops the renewal of leases that the program has dropped, and reports those
// that were not released: to the log in one line, to the observer one by one.
func reportLeak(taken uintptr, dropped ...*leaseState) {
	dropped = slices.DeleteFunc(dropped, func(ls *leaseState) bool { return !ls.drop() })
	var names, tokens []string
	var left time.Duration
	for _, ls := range dropped {
		ls.hold.stopIfDropped()
		names, tokens = append(names, ls.hold.lock.name), append(tokens, wire.Number(ls.token.Load()))
		left = max(left, ls.hold.Deadline()-ls.hold.lock.client.now())
	}
	at := location(taken)
	for i, ls := range dropped {
		item := news{hold: ls.hold, lease: ls, event: ls.endEvent(EventLeak, false, nil)}
		if i == 0 {
			item.log = func(log *slog.Logger) {
				log.Error("holdfast: a lease was dropped without Release: it is no longer renewed, and the lock stays "+
					"held until its TTL ends", "lock", strings.Join(names, ", "), "taken at", at,
					"token", strings.Join(tokens, ", "), "left", left)
			}
		}
		ls.hold.lock.client.events.tell(item)
	}
}

// leakCheck makes the collector find a lease that was handed over inside the process. To set and
// clear a finalizer takes an eighth of such a hand-over. So a lease that is released leaves its check
// to the hold, for the next lease.
type leakCheck struct{ state *leaseState } // nil while the hold has it

// report is called by the collector when nobody has the check.
func (c *leakCheck) report() {
	if c.state != nil {
		reportLeak(c.state.acquiredPC, c.state)
	}
}

// passLeakCheckOn gives the check of the lease, if it has one, to the hold, for its next lease.
func (l *Lease) passLeakCheckOn() {
	c, h := l.check, l.state.hold
	if c == nil {
		return
	}
	c.state, l.check = nil, nil
	h.mu.Lock()
	h.more().leak = c
	h.mu.Unlock()
}

// startLeakCheck makes the collector report the lease if it is dropped. runtime.AddCleanup would need
// two more allocations for each lease.
func (l *Lease) startLeakCheck() {
	if l.state.mayLeak() {
		runtime.SetFinalizer(l, (*Lease).reportLeak)
	}
}

// mayLeak reports whether the collector reports a lease like this one.
func (ls *leaseState) mayLeak() bool {
	return !ls.hold.lock.client.simulated && !ls.hold.lock.noRenewal
}

// stopLeakCheck ends that: the caller has not dropped the lease.
func (l *Lease) stopLeakCheck() {
	if l.check == nil && l.state.mayLeak() {
		runtime.SetFinalizer(l, nil)
	}
}

// drop marks the lease as dropped. It reports false if the lease had already ended.
func (ls *leaseState) drop() bool {
	ls.hold.mu.Lock()
	ls.hold.more().dropped = true
	ls.hold.mu.Unlock()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.released || ls.cause != nil {
		return false
	}
	ls.dropped = true
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

// inUse reports whether the program still has a lease of the re-entry that began with ls.
func (ls *leaseState) inUse() bool {
	ls.mu.Lock()
	begun := !ls.left && !ls.dropped
	inner := slices.Clone(ls.reentries().inner)
	ls.mu.Unlock()
	return begun || slices.ContainsFunc(inner, func(in *leaseState) bool { return !in.isDropped() })
}

func (ls *leaseState) isDropped() bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.dropped
}

// evictOnce returns the arguments that make copies of an eviction harmless: the ID that the record
// remembers, and the highest token that a hold may have to be ended. Without a token the record is read
// for that. If the script refuses to show the record, that of the eviction says why.
func evictOnce(ctx context.Context, c *Client, key string, token uint64, force bool) ([]string, error) {
	if token == 0 && !force { // what is removed by force need not be readable
		record, err := c.sender.RecordUntil(ctx, []string{key}, func(*wire.Record) bool { return true })
		switch {
		case request.Refusal(err) != nil && !request.MayRunLate(err):
			// The eviction says better why it is refused. A late copy of it ends no hold.
		case err != nil:
			return nil, err
		}
		token = record.Fence
	}
	id, _ := c.newAttemptID()
	return []string{id, wire.Number(token)}, nil
}
