package holdfast

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/line"
	"github.com/holdfast-go/holdfast/internal/renewer"
)

// seats are the lines inside this process, one for each lock that a goroutine
// holds or wants. Who has the seat of a lock speaks to the server about it.
type seats struct {
	shards [64]shard
}

type shard struct {
	// mu guards the lines of the shard, and is held for moments only.
	mu    sync.Mutex
	lines map[string]*local
	rooms map[string]*room // of readers, and of those who ask for permits
	spare *local           // a line in which nobody is any more; nil or one
}

// local is the line of one lock, and the lease that its seat has, if any.
type local struct {
	line.Line[*hold]
	hold *hold
}

var seed = maphash.MakeSeed()

func (s *seats) shard(key string) *shard {
	return &s.shards[maphash.String(seed, key)%uint64(len(s.shards))]
}

// seated reports whether the goroutines of this process share a line for the
// lock. Those of a lock that is taken alone ask the server each for itself, and
// nothing is passed between them.
func (c *Client) seated(s *spec) bool { return c.cfg.MaxLocalHandOvers >= 0 && !s.alone }

// take returns with the seat, and a hold if one was passed along. While the
// seat is taken it waits in line, unless try is set: then it answers with a
// HeldError. On error the caller has no seat.
func (c *Client) take(ctx context.Context, s *spec, try bool) (h *hold, waited bool, err error) {
	sh := c.seats.shard(s.key())
	sh.mu.Lock()
	ln := sh.lines[s.key()]
	if ln == nil {
		if sh.lines == nil {
			sh.lines = make(map[string]*local)
		}
		if ln, sh.spare = sh.spare, nil; ln == nil {
			ln = new(local)
		}
		sh.lines[s.key()] = ln
	}
	if ln.Take() {
		sh.mu.Unlock()
		return nil, false, nil
	}
	if h := ln.hold; h != nil && h.stale() {
		if try {
			sh.mu.Unlock()
			c.recheck(ctx, h)
			return c.take(ctx, s, try)
		}
		c.life.Go(func() { c.recheck(c.life.Context(), h) })
	}
	if try {
		held := &HeldError{Name: s.name}
		if ln.hold != nil {
			held.HeldBy = ln.hold.attempt
			held.Remaining = max(ln.hold.Deadline()-c.now(), 0).Round(time.Millisecond)
		}
		sh.mu.Unlock()
		return nil, false, held
	}
	p := ln.Join()
	sh.mu.Unlock()

	c.observe(Event{Kind: EventWait, Name: s.name, Local: true})
	select {
	case <-p.Given:
		return p.Hold, true, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.life.Closing():
		err = ErrClosed
	}
	sh.mu.Lock()
	left := ln.Leave(p)
	sh.mu.Unlock()
	if !left {
		// The turn came as we left: pass it on, or all behind us would hang.
		if p.Hold == nil || !c.pass(s, p.Hold) {
			c.leave(s, p.Hold)
		}
	}
	return nil, true, err
}

// stale reports that the server's last word on the hold is so old that nobody should stand
// behind it without asking, and that nobody asks now.
func (h *hold) stale() bool {
	now, checked := h.spec.client.now(), h.checked.Load()
	last := max(time.Duration(h.told.Load()), time.Duration(checked))
	return now-last > leasetime.StaleAfter(h.spec.ttl) && h.checked.CompareAndSwap(checked, int64(now))
}

// recheck ends a hold, seat and all, that an operator has taken away: to this process the
// lock is as free then as to others. It only looks, for the lease may be fixed.
func (c *Client) recheck(ctx context.Context, h *hold) {
	if _, reason := h.learn(ctx); reason == renewer.Evicted && c.renewer.Remove(&h.Item) {
		c.lost(&h.Item, reason)
	}
}

// pass gives the hold to the next goroutine of this process, if one waits and
// the bounds allow it. It reports false, and nothing has changed, if not.
func (c *Client) pass(s *spec, h *hold) bool {
	if h.spec.whole || !c.seated(s) || c.life.IsClosing() {
		return false
	}
	sh := c.seats.shard(s.key())
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ln := sh.lines[s.key()]
	elsewhere := int(h.waiting.Load())
	if rm := sh.rooms[s.key()]; rm != nil && rm.waits {
		elsewhere++ // our own readers
	}
	if ln == nil || ln.Waiting() == 0 || !h.mayPass() ||
		!line.MayPass(int(h.passes.Load()), c.now()-h.began, elsewhere, c.cfg.MaxLocalHandOvers) {
		return false
	}
	h.passes.Add(1)
	return ln.Give(h)
}

// leave gives the seat to the next goroutine, which will ask the server
// itself. A hold that the leaver still has is released first.
func (c *Client) leave(s *spec, h *hold) {
	if h != nil && c.renewer.Remove(&h.Item) {
		_ = h.release(c.life.Context())
	}
	if !c.seated(s) {
		return
	}
	sh := c.seats.shard(s.key())
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ln := sh.lines[s.key()]
	ln.hold = nil
	if !ln.Give(nil) {
		delete(sh.lines, s.key())
		sh.spare = ln
	}
}

// sit notes which hold the seat has, for those who try and are refused.
func (c *Client) sit(s *spec, h *hold) {
	sh := c.seats.shard(s.key())
	sh.mu.Lock()
	if ln := sh.lines[s.key()]; ln != nil {
		ln.hold = h
	}
	sh.mu.Unlock()
}
