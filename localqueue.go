package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// localTurn is the right to ask the server about a lock for all goroutines of this process.
type localTurn = waitqueue.Turn[*hold, *lock]

// newQueue makes the queue in which the goroutines of this process wait for each other.
func newQueue(c *Client) *waitqueue.Queue[*hold, *lock] {
	return waitqueue.New(waitqueue.Rules[*hold, *lock]{
		Join: (*hold).joinedBy, Joinable: (*hold).joinable, Reserve: (*hold).reserve, Unreserve: (*hold).unreserve,
		HandOver: (*hold).handsOver, Release: (*hold).discard,
		Waits: (*lock).waitsLocally, Refuse: refuse, Closed: ErrClosed,
	}, c.life.Closing())
}

// queued reports whether the goroutines of this process wait for each other for the lock. Those
// of a lock that is taken alone ask the server each for itself, and nothing is handed over
// between them.
func (s *lock) queued() bool { return s.client.cfg.MaxLocalHandOvers >= 0 && !s.noLocalQueue }

// shares reports whether readers on these terms share holds.
func (s *lock) shares() bool { return s.queued() && !s.noHandOver }

// suits reports whether the hold is what one would get on these terms.
func (h *hold) suits(s *lock) bool {
	return h.lock.client.renewer.TTL(&h.Item) == s.ttl && h.lock.ack == s.ack
}

// joinedBy is what a reader does while the readers of its process have h, or none.
func (h *hold) joinedBy(s *lock, writerHere bool) waitqueue.Decision {
	switch {
	case h != nil && h.suits(s):
		age := s.client.now() - time.Duration(h.told.Load())
		return waitqueue.Join(age, int(h.waiting.Load()), writerHere)
	case writerHere:
		return waitqueue.Wait
	}
	return waitqueue.Ask
}

// share lets readers of this process join the hold, unless they have one.
func (h *hold) share() {
	if c := h.lock.client; h.lock.shares() {
		c.queue.Share(h.lock.key(), h)
	}
}

// unshare ends that readers of this process join the hold.
func (h *hold) unshare() {
	if h.lock.rw.any() {
		h.lock.client.queue.Unshare(h.lock.key(), h)
	}
}

// turn is the turn of an exclusive lock, for the goroutine or the hold that has it.
func (s *lock) turn() localTurn { return s.client.queue.Turn(s.key(), waitqueue.Exclusive) }

// leaveTurn gives the turn to the next goroutine of this process, if it goes with the hold.
func (h *hold) leaveTurn() {
	if h.hasTurn.Load() {
		h.lock.turn().Leave()
	}
}

// waitsLocally is told that a goroutine begins to wait for another one of this process, which
// has h or asks.
func (s *lock) waitsLocally(h *hold) {
	c := s.client
	if h != nil && h.stale() {
		c.life.Go(func() { h.recheck(c.life.Context()) })
	}
	c.events.observe(Event{Kind: EventWait, Name: s.name, Local: true})
}

// refuse is the error for a goroutine that only tries while another one has h or asks; nil if it
// is to look again.
func refuse(ctx context.Context, s *lock, h *hold) error {
	if h == nil {
		return &HeldError{Name: s.name}
	}
	if h.stale() {
		h.recheck(ctx)
		return nil
	}
	left := max(h.Deadline()-s.client.now(), 0).Round(time.Millisecond)
	return &HeldError{Name: s.name, HeldBy: h.attempt, Remaining: left}
}

// stale reports that the server's last word on the hold is so old that nobody should stand
// behind it without asking, and that nobody asks now.
func (h *hold) stale() bool {
	now, checked := h.lock.client.now(), h.checked.Load()
	last := max(time.Duration(h.told.Load()), time.Duration(checked))
	return now-last > leasetime.StaleAfter(h.lock.ttl) && h.checked.CompareAndSwap(checked, int64(now))
}

// recheck ends a hold that an operator has taken away, and its turn: to this process the
// lock is as free then as to others. It only looks, for the lease may be fixed.
func (h *hold) recheck(ctx context.Context) {
	c := h.lock.client
	if _, reason := h.readEviction(ctx); reason == renewer.Evicted && c.renewer.Remove(&h.Item) {
		h.markLost(reason)
	}
}

// handsOver reports whether the hold may go to one more goroutine of this process. It counts
// that one: its token is the next.
func (h *hold) handsOver(readersWait bool) bool {
	c, waiters := h.lock.client, int(h.waiting.Load())
	if readersWait {
		waiters++
	}
	passes, age := int(h.passes.Load()), c.now()-h.began
	if h.lock.noHandOver || c.life.IsClosing() || !h.mayHandOver() ||
		!waitqueue.MayHandOver(passes, age, waiters, c.cfg.MaxLocalHandOvers) {
		return false
	}
	h.passes.Add(1)
	return true
}

// discard gives a hold back that no lease has.
func (h *hold) discard() {
	c := h.lock.client
	if c.renewer.Remove(&h.Item) {
		_ = h.release(c.life.Context(), releaseMode{})
	}
}
