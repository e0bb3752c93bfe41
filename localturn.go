// The rules of the local queue: the goroutines of one process that want one lock.

package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/localqueue"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/observe"
)

// localTurn is the right to ask the server about a lock for all goroutines of this process.
type localTurn = localqueue.Turn[*hold, *lock]

// newLocalQueue creates the queue in which the goroutines of this process wait for each other.
func newLocalQueue() *localqueue.Queue[*hold, *lock] {
	return localqueue.New(localqueue.Rules[*hold, *lock]{
		Join: joinDecision, Joinable: (*hold).joinable, Reserve: (*hold).reserve, Unreserve: (*hold).unreserve,
		HandOver: (*hold).claimHandOver, Release: (*hold).discardThen, OnWait: onLocalWait, Refuse: refuseTry,
		Closed: ErrClosed,
	})
}

// usesLocalQueue reports whether the goroutines of this process wait for each other for the lock.
// If not, each of them asks the server, and there are no local hand-overs.
func (lk *lock) usesLocalQueue() bool {
	return lk.client.cfg.MaxLocalHandOvers >= 0 && !lk.noLocalQueue
}

// shares reports whether readers with these parameters share a hold.
func (lk *lock) shares() bool { return lk.usesLocalQueue() && !lk.noHandOver }

// turn returns the turn of an exclusive lock. The caller, or its hold, has the turn.
func (lk *lock) turn() localTurn { return lk.client.localQueue.Turn(lk.key(), localqueue.Exclusive) }

// joinDecision decides what a reader does. h is the hold that the readers of its process
// share, or nil.
func joinDecision(h *hold, lk *lock, writerHere bool) localqueue.Decision {
	switch {
	case h != nil && h.suits(lk):
		age := lk.client.now() - time.Duration(h.waitingAt.Load())
		return localqueue.Join(age, int(h.waiting.Load()), writerHere)
	case writerHere:
		return localqueue.Wait
	}
	return localqueue.Ask
}

// claimHandOver reports whether the hold may go to one more goroutine of this process. It
// counts that hand-over, so the next lease gets the next token.
func (h *hold) claimHandOver(readersWait bool) bool {
	c, waiters := h.lock.client, int(h.waiting.Load())
	if readersWait {
		waiters++
	}
	handOvers := int(h.handOvers.Load())
	if h.lock.noHandOver || c.life.IsClosing() || !h.mayHandOver() || h.needsOwnToken() ||
		!localqueue.MayHandOver(handOvers, c.now()-h.firstLease.start, waiters, c.cfg.MaxLocalHandOvers) {
		return false
	}
	h.handOvers.Add(1)
	return true
}

// passTurnOn gives the turn to the next goroutine of this process, if the hold has the turn. A loss and a
// release may come at the same time, and the turn passes on once.
func (h *hold) passTurnOn() {
	if h.hasTurn.Swap(false) {
		h.lock.turn().PassOn()
	}
}

// endedHere returns the error of a call that has waited for another goroutine of this process. If the server has
// not answered that goroutine either, nobody knows whether the lock was held.
func (lk *lock) endedHere(ctx context.Context, err error, class localqueue.Class) error {
	if err != ctx.Err() { //nolint:errorlint // only the bare error: every other says more
		return err
	}
	ended := &endedError{name: lk.name, end: err}
	h, refusal := lk.client.localQueue.Told(lk.key(), class)
	switch {
	case class == localqueue.Exclusive && h != nil, class == localqueue.Permits, heldIn(refusal) != nil:
		ended.held = &HeldError{Name: lk.name}
	case refusal != nil:
		ended.last = reason(refusal)
	}
	return ended
}

// toTries returns what goroutines that only try, and waited for the answer to another call of this process, get
// from that call's error: that the lock is held, or that the server did not answer. nil: they ask for themselves.
func (c *Client) toTries(err error) error {
	if held := heldIn(err); held != nil {
		return held
	}
	if !request.IsContextEnd(err) && c.isTransient(err) {
		return err
	}
	return nil
}

// onLocalWait is called when a goroutine begins to wait for another goroutine of this
// process, which has h or asks the server.
func onLocalWait(ctx context.Context, lk *lock, h *hold) {
	c := lk.client
	if h != nil && h.claimEvictionCheck() {
		c.life.Go(evictionCheckLabel, func() { h.endIfEvicted(c.life.Context()) })
	}
	waitsInChain(ctx, "", 0)
	if c.events.observed() { // an Event is large
		lk.reportEvent(ctx, observe.Event{Kind: observe.EventWait, Local: true})
	}
}

// refuseTry returns the error for a goroutine that only tries, while another goroutine has h, or
// waits at the server as a reader. If it returns nil, the goroutine checks again.
func refuseTry(ctx context.Context, lk *lock, h *hold) error {
	if h == nil {
		return &HeldError{Name: lk.name}
	}
	if h.claimEvictionCheck() {
		h.endIfEvicted(ctx)
		return nil
	}
	left := max(h.goneBy()-lk.client.now(), 0).Round(time.Millisecond)
	return &HeldError{Name: lk.name, HeldBy: h.attemptID(), Remaining: left}
}

// claimEvictionCheck reports whether the client must ask the server about the hold before another goroutine
// waits for it, and notes that the caller asks now. That is so if the server's last answer is old and no
// other goroutine asks.
func (h *hold) claimEvictionCheck() bool {
	now, fresh := h.lock.client.now(), leasetime.StaleAfter(h.lock.ttl)
	if now-time.Duration(h.waitingAt.Load()) <= fresh {
		return false // without the mutex, for which goroutines that pass the hold on would wait
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now-h.peek().checked <= fresh {
		return false
	}
	h.more().checked = now
	return true
}

// endIfEvicted ends a hold that an operator has evicted, and gives up its turn. After an
// eviction the lock is free for this process too. endIfEvicted only reads, because the lease may
// be one without renewal.
func (h *hold) endIfEvicted(ctx context.Context) {
	c := h.lock.client
	if _, reason := h.readEviction(ctx); reason == renewer.Evicted && c.renewer.Remove(&h.Item) {
		h.markLost(reason)
	}
}
