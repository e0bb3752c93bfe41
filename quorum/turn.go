package quorum

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// pushed is told of a push by one node. It says that the node has granted to
// who stood in its line; if that is the lead, the rest is asked for. Or it says
// when the lock is free there, which is news if the lead says it. It must not
// block: what follows has a goroutine of its own. What is for nobody here,
// or for a round that is over, is cancelled unless its cancel is on the way.
func (s *Store) pushed(i int, payload string) bool {
	id, a, err := wire.ParsePush(payload)
	if err != nil {
		return false
	}
	c := s.waiter(roundless(id))
	if c == nil {
		s.nodes[i].stray(id)
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.round
	if r == nil || !r.live() || r.slots[i].id != id {
		s.nodes[i].stray(id)
		return true
	}
	sl := r.slots[i]
	if a.Kind == wire.Stays {
		if c.phase == waiting && i == r.lead {
			sl.last.Left = a.Left
			s.life.Go(func() { c.message("stays " + c.attempt + " " + wire.Millis(a.Left)) })
		}
		return true
	}
	sl.hold(a.Token, a.Waiting, sl.asked)
	if sl.short = a.Lease > 0 && a.Lease < c.ttl; sl.short {
		s.life.Go(sl.confirm)
	}
	switch {
	case c.phase == waiting && i == r.lead:
		s.life.Go(func() { c.turn(r) })
	case c.phase == turning:
		c.stir()
	default:
		sl.late()
	}
	return true
}

// confirm makes a grant that was pushed count: until then its lease is short, so
// that one to a client that hears nothing costs little.
func (sl *slot) confirm() {
	c := sl.r.c
	_ = sl.poll(majority.Limit(c.s.cfg.Timeout, c.ttl, 0)) // what comes of it is in the slot
	c.stir()
}

// turn begins the gathering of the rest, for the one whom the lead has granted:
// it stands in the lines of the others, where only those can be in its way who
// had another lead. It is bounded: behind it is a timer, after which everything
// is given back.
func (c *claim) turn(r *round) {
	c.mu.Lock()
	if !r.live() || c.phase != waiting && c.phase != asking {
		c.mu.Unlock()
		return
	}
	c.phase = turning
	missing := r.reopen()
	c.mu.Unlock()
	c.view.refresh()
	limit := majority.Limit(c.s.cfg.Timeout, c.ttl, 0)
	for _, sl := range missing {
		c.s.life.Go(func() {
			_ = sl.acquire(limit, c.patience())
			c.stir()
		})
	}
	c.stir()
	c.s.life.Go(func() { c.finishTurn(r, limit) })
}

// reopen lists the slots that have nothing yet: they are about to be asked, and
// what they answered before counts no more. c.mu is held.
func (r *round) reopen() (list []*slot) {
	for _, sl := range r.slots {
		if !sl.holds && !sl.stands {
			sl.reply = majority.Open
			list = append(list, sl)
		}
	}
	return list
}

// finishTurn waits until a majority has granted, and tells the client.
func (c *claim) finishTurn(r *round, limit time.Duration) {
	c.mu.Lock()
	stints := c.stints
	c.mu.Unlock()
	stint := time.NewTimer(majority.Stint(limit, c.ttl, stints, rand.Float64()))
	defer stint.Stop()
	for mended := false; ; {
		select {
		case <-c.news:
		case <-stint.C:
			c.backOff(r, limit)
			return
		case <-r.stop:
			return
		case <-c.s.life.Closing():
			return
		}
		if c.tryTurn(r, limit) {
			return
		}
		if !mended && c.view.isDoubtful() {
			mended = true
			c.s.life.Go(func() {
				_ = c.s.meet(c.s.life.Context(), c.view) // what comes of it is in the view
				c.stir()
			})
		}
	}
}

// tryTurn reports whether the turn is over: by a grant, or because somebody
// else took the claim further.
func (c *claim) tryTurn(r *round, limit time.Duration) bool {
	if !c.enter(r.stop) {
		return true
	}
	defer c.leave()
	c.mu.Lock()
	mine := r.live() && c.phase == turning
	c.mu.Unlock()
	if !mine {
		return true
	}
	answer, won, _ := c.complete(c.s.life.Context(), r, limit)
	if !won {
		return false // there is more to come, or the stint ends
	}
	c.tell(answer)
	return true
}

// tell pushes a grant to the client. If nobody listens it finds out by a poll.
func (c *claim) tell(answer string) {
	c.message("granted " + c.attempt + strings.TrimPrefix(answer, "granted"))
}

// message pushes to the client. What of the claim it reads never changes.
func (c *claim) message(payload string) {
	for _, e := range c.s.listeners(c.base + wire.Client(c.attempt)) {
		e.message(payload)
	}
}

// backOff gives everything back after a stint in vain, and joins again after a
// pause by chance: two who keep each other from a majority must not do so for
// ever. The client goes on waiting, and finds its place by a poll if that fails.
func (c *claim) backOff(r *round, limit time.Duration) {
	if !c.enter(r.stop) {
		return
	}
	c.mu.Lock()
	mine := r.live() && c.phase == turning
	c.stints++
	pause := backoff.Default.After(c.stints, rand.Float64())
	c.mu.Unlock()
	if mine {
		c.drop(r, limit)
	}
	c.leave()
	if !mine || !c.s.life.Sleep(context.Background(), pause) || !c.enter(c.s.life.Closing()) {
		return
	}
	defer c.leave()
	c.mu.Lock()
	mine = c.round == r && c.phase == idle
	c.mu.Unlock()
	if !mine {
		return // cancelled, or taken further by a poll
	}
	ctx, cancel := context.WithTimeout(c.s.life.Context(), 4*limit)
	defer cancel()
	answer, err := c.gather(ctx)
	switch {
	case err != nil:
		c.nudge()
	case strings.HasPrefix(answer, "granted "):
		c.tell(answer)
	}
}

// nudge makes the client look by itself.
func (c *claim) nudge() {
	for _, e := range c.s.listeners(c.base + wire.Client(c.attempt)) {
		e.resumed()
	}
}
