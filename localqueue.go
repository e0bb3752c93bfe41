package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// localTurn is the right to ask the server about a lock for all goroutines of this process.
type localTurn = waitqueue.Turn[*hold, *spec]

// newQueue makes the queue in which the goroutines of this process wait for each other.
func (c *Client) newQueue() *waitqueue.Queue[*hold, *spec] {
	return waitqueue.New(waitqueue.Rules[*hold, *spec]{
		Join: (*hold).joinedBy, Joinable: (*hold).joinable, Reserve: (*hold).reserve, Unreserve: (*hold).unreserve,
		HandOver: (*hold).handsOver, Release: (*hold).discard,
		Waits: c.waitsLocally, Refuse: c.refuse, Closed: ErrClosed,
	}, c.life.Closing())
}

// queued reports whether the goroutines of this process wait for each other for the lock. Those
// of a lock that is taken alone ask the server each for itself, and nothing is handed over
// between them.
func (c *Client) queued(s *spec) bool { return c.cfg.MaxLocalHandOvers >= 0 && !s.alone }

// shares reports whether readers on these terms share holds.
func (c *Client) shares(s *spec) bool { return c.queued(s) && !s.whole }

// suits reports whether the hold is what one would get on these terms.
func (h *hold) suits(s *spec) bool {
	return h.spec.client.renewer.TTL(&h.Item) == s.ttl && h.spec.ack == s.ack
}

// joinedBy is what a reader does while the readers of its process have h, or none.
func (h *hold) joinedBy(s *spec, writerHere bool) waitqueue.Decision {
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
	if c := h.spec.client; c.shares(h.spec) {
		c.queue.Share(h.spec.key(), h)
	}
}

// unshare ends that readers of this process join the hold.
func (h *hold) unshare() {
	if h.spec.rw.any() {
		h.spec.client.queue.Unshare(h.spec.key(), h)
	}
}

// turnOf is the turn of an exclusive lock, for the goroutine or the hold that has it.
func (c *Client) turnOf(s *spec) localTurn { return c.queue.Turn(s.key(), waitqueue.Exclusive) }

// leaveTurn gives the turn to the next goroutine of this process, if it goes with the hold.
func (h *hold) leaveTurn() {
	if h.hasTurn.Load() {
		h.spec.client.turnOf(h.spec).Leave()
	}
}

// waitsLocally is told that a goroutine begins to wait for another one of this process, which
// has h or asks.
func (c *Client) waitsLocally(s *spec, h *hold) {
	if h != nil && h.stale() {
		c.life.Go(func() { c.recheck(c.life.Context(), h) })
	}
	c.events.observe(Event{Kind: EventWait, Name: s.name, Local: true})
}

// refuse is the error for a goroutine that only tries while another one has h or asks; nil if it
// is to look again.
func (c *Client) refuse(ctx context.Context, s *spec, h *hold) error {
	if h == nil {
		return &HeldError{Name: s.name}
	}
	if h.stale() {
		c.recheck(ctx, h)
		return nil
	}
	left := max(h.Deadline()-c.now(), 0).Round(time.Millisecond)
	return &HeldError{Name: s.name, HeldBy: h.attempt, Remaining: left}
}

// stale reports that the server's last word on the hold is so old that nobody should stand
// behind it without asking, and that nobody asks now.
func (h *hold) stale() bool {
	now, checked := h.spec.client.now(), h.checked.Load()
	last := max(time.Duration(h.told.Load()), time.Duration(checked))
	return now-last > leasetime.StaleAfter(h.spec.ttl) && h.checked.CompareAndSwap(checked, int64(now))
}

// recheck ends a hold that an operator has taken away, and its turn: to this process the
// lock is as free then as to others. It only looks, for the lease may be fixed.
func (c *Client) recheck(ctx context.Context, h *hold) {
	if _, reason := h.learn(ctx); reason == renewer.Evicted && c.renewer.Remove(&h.Item) {
		c.lost(&h.Item, reason)
	}
}

// handsOver reports whether the hold may go to one more goroutine of this process. It counts
// that one: its token is the next.
func (h *hold) handsOver(readersWait bool) bool {
	c, waiters := h.spec.client, int(h.waiting.Load())
	if readersWait {
		waiters++
	}
	passes, age := int(h.passes.Load()), c.now()-h.began
	if h.spec.whole || c.life.IsClosing() || !h.mayPass() ||
		!waitqueue.MayHandOver(passes, age, waiters, c.cfg.MaxLocalHandOvers) {
		return false
	}
	h.passes.Add(1)
	return true
}

// discard gives a hold back that no lease has.
func (h *hold) discard() {
	c := h.spec.client
	if c.renewer.Remove(&h.Item) {
		_ = h.release(c.life.Context(), releaseMode{})
	}
}
