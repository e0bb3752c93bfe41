package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// acquire takes the lock on a majority, or a place in the line of its lead.
//
// When it fails, nothing stays: what nodes have granted is given back, in the
// background as far as they do not answer. When its ctx ends, that is left to
// the cancel that the client then sends.
func (s *Store) acquire(ctx context.Context, keys, args []string) (string, error) {
	d, err := s.parse(keys, args)
	if err != nil {
		return "", err
	}
	if err := s.meet(ctx, d.view); err != nil {
		return "", err
	}
	return s.claim(d.attempt, d).take(ctx, args[4])
}

// take takes the claim as far as it gets now.
func (c *claim) take(ctx context.Context, patience string) (string, error) {
	if !c.enter(ctx.Done()) {
		return "", ctx.Err()
	}
	defer c.leave()
	c.mu.Lock()
	c.patient = patience
	at := c.phase
	c.mu.Unlock()
	if at == over {
		return "", refuse(errMisuse, "ERR", "the attempt %s has ended: use each once", c.attempt)
	}
	if at == held || at == waiting || at == turning {
		return c.look(ctx) // asked again: the same answer, unless it has got further
	}
	return c.gather(ctx)
}

// gather takes the lock or a place in the line, in a round of its own. A
// round that a majority had granted and that nodes without their memory were
// part of is done again without them: each node is found out once. The caller
// is the driver.
func (c *claim) gather(ctx context.Context) (string, error) {
	for tries := 0; ; tries++ {
		answer, err := c.attemptRound(ctx)
		var again *recount
		if !errors.As(err, &again) {
			return answer, err
		}
		if tries == len(c.s.nodes) {
			return "", again.err
		}
		if err := c.s.meet(ctx, c.view); err != nil {
			return "", err
		}
	}
}

// recount says that a round came to nothing because of nodes that are known
// for it by now, and do not count in the next.
type recount struct{ err error }

func (r *recount) Error() string { return r.err.Error() }

// attemptRound asks all nodes at once, and decides as soon as their answers
// allow it.
func (c *claim) attemptRound(ctx context.Context) (string, error) {
	limit := c.s.limit(ctx, c.ttl)
	c.mu.Lock()
	if c.phase == over {
		c.mu.Unlock()
		return "", errOver
	}
	before := c.round
	if before != nil {
		before.end()
	}
	r, patience := c.begin(), c.patient
	slots := append([]*slot(nil), r.slots...)
	c.mu.Unlock()
	if before != nil {
		before.abandon(limit)
	}
	done := make(chan struct{}, (insist+2)*len(slots))
	ask := func(sl *slot, patience string) {
		if !c.s.life.Go(func() { _ = sl.acquire(limit, patience); done <- struct{}{} }) {
			sl.fail(ErrClosed)
			done <- struct{}{}
		}
	}
	for i, sl := range slots {
		if i == r.lead {
			ask(sl, patience)
		} else {
			ask(sl, "0")
		}
	}
	grace := time.NewTimer(forever) // for those that have not answered when a majority has granted
	defer grace.Stop()
	start := c.s.now()
	for tries, late, graced := 0, false, false; ; {
		select {
		case <-done:
		case <-grace.C:
			late = true
		case <-r.stop:
			return "", errOver
		case <-ctx.Done():
			return "", ctx.Err()
		}
		switch d, all := c.judge(r, patience != "0"); {
		case d == majority.Undecided:
		case d == majority.Won && !all && !late:
			if !graced {
				graced = grace.Reset(majority.Grace(c.s.now()-start, limit))
			}
		case d == majority.Join:
			ask(slots[r.lead], patience)
		case d == majority.Split && patience == "0" && tries < insist:
			if !c.s.life.Sleep(context.Background(), backoff.Default.After(tries, rand.Float64())) {
				return "", ErrClosed
			}
			tries++
			for _, sl := range r.askAgain() {
				ask(sl, patience)
			}
		default:
			return c.decided(ctx, r, d, limit)
		}
	}
}

// judge decides by the replies so far, and notes who has the lead: a node whose word
// a majority contradicts has not. all says that every node has replied of which a
// reply is expected.
func (c *claim) judge(r *round, joins bool) (d majority.Decision, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	replies, counts := r.replies()
	all = c.s.onlySuspects(said(replies))
	for range r.slots {
		d, r.lead = majority.Judge(replies, counts, r.order, joins)
		if d == majority.Won || d == majority.Short {
			break
		}
		a, holder := r.weigh(all)
		if a == heldByOthers && !joins {
			break // they may be giving back, see insist
		}
		if (d == majority.Taken || d == majority.Split && joins) && a == unsettled {
			d = majority.Undecided // the others may yet contradict the lead
		}
		if a != heldByOthers && (a != heldThere || !c.s.contradicted(c.key, r.lead, holder, c.ttl)) {
			break
		}
		r.pass()
	}
	if r.slots[r.lead].holds {
		c.waits = r.slots[r.lead].waits
	}
	if d == majority.Join {
		r.slots[r.lead].reply = majority.Open
	}
	return d, all
}

// insist is how often one who does not wait asks again where somebody was in the
// way, once the lead has granted: the others, whom the lead has not, are giving
// back. Without that, of several who try at once none might get the lock.
const insist = 5

// askAgain picks the nodes where somebody was in the way.
func (r *round) askAgain() (again []*slot) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	for _, sl := range r.slots {
		if sl.reply == majority.Busy {
			sl.reply = majority.Open
			again = append(again, sl)
		}
	}
	return again
}

// said are the nodes that have replied.
func said(replies []majority.Reply) []bool {
	list := make([]bool, len(replies))
	for i, r := range replies {
		list[i] = r != majority.Open
	}
	return list
}

// decided carries out what the first answers mean.
func (c *claim) decided(ctx context.Context, r *round, d majority.Decision, limit time.Duration) (string, error) {
	switch {
	case d == majority.Won:
		answer, err := c.finish(ctx, r, limit)
		var young *youngError
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.As(err, &young) || errors.Is(err, errForgot):
			return "", c.settle(ctx, r, limit, &recount{err})
		default:
			c.drop(r, limit)
		}
		return answer, err
	case d == majority.Line:
		return c.stand(r, limit), nil
	case d == majority.Split && c.patience() != "0":
		c.turn(r)
		return c.turning(), nil
	case d == majority.Short:
		c.mu.Lock()
		err := c.s.short(r.failures())
		c.mu.Unlock()
		c.drop(r, limit)
		if refused(err) {
			c.s.forget(c) // nobody cancels what was refused
		}
		return "", err
	}
	answer := c.busy(r)
	if r.holdsAny() {
		// Who asks again at once must not stand behind what it had itself.
		if err := c.settle(ctx, r, limit, nil); err != nil {
			return "", err
		}
	} else {
		c.drop(r, limit)
	}
	c.s.forget(c)
	return answer, nil
}

// holdsAny reports whether a node has granted.
func (r *round) holdsAny() bool {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return slices.ContainsFunc(r.slots, func(sl *slot) bool { return sl.holds })
}

// drop gives the round back: the claim has nothing any more.
func (c *claim) drop(r *round, limit time.Duration) {
	c.mu.Lock()
	r.end()
	if c.round == r && c.phase != over {
		c.phase = idle
	}
	c.mu.Unlock()
	r.abandon(limit)
}

// settle gives the round back like drop, and waits until the nodes that are
// expected to answer have done so: the next round must not find itself in the
// way. It answers why.
func (c *claim) settle(ctx context.Context, r *round, limit time.Duration, why error) error {
	c.mu.Lock()
	r.end()
	if c.round == r && c.phase != over {
		c.phase = idle
	}
	c.mu.Unlock()
	slots, heard := r.all(), make([]bool, len(r.slots))
	done := c.s.spread(func(i int, _ *node) error { _, err := slots[i].giveBack(limit); return err })
	for !c.s.onlySuspects(heard) {
		select {
		case one := <-done:
			heard[one.i] = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return why
}

// stand keeps the place in the lead's line, and gives back what other nodes
// have granted: whose turn it is finds them free.
func (c *claim) stand(r *round, limit time.Duration) string {
	c.mu.Lock()
	for i := range r.slots {
		if i != r.lead {
			r.replace(i, limit)
		}
	}
	lead := r.slots[r.lead]
	turn := lead.holds // the push has overtaken the answer
	answer := c.queued(lead)
	if r.live() && c.phase == asking && !turn {
		c.phase = waiting
	}
	c.mu.Unlock()
	if turn {
		c.turn(r)
		return c.turning()
	}
	return answer
}

// queued is the lead's answer to one who waits. It looks again after a third
// of its lease at the latest, for its lead may be gone. It tells no time: no
// server pushes to the client, and what the claim tells it is never old.
func (c *claim) queued(sl *slot) string {
	return fmt.Sprintf("queued %d %s 0", sl.last.Place, wire.Millis(min(sl.last.Left, c.ttl/3)))
}

// turning is the answer to one whose turn it is, and who has no majority yet:
// first in line, and to look again while the lead still holds.
func (c *claim) turning() string {
	return "queued 1 " + wire.Millis(c.ttl/3) + " 0"
}

// busy answers who holds, as the first node in the order says it that says so.
func (c *claim) busy(r *round) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range r.order {
		if b := r.slots[i].last; b.Kind == wire.Busy {
			holder := "-"
			if b.Holder != "" {
				holder = roundless(b.Holder)
			}
			return fmt.Sprintf("busy %s %s", wire.Millis(b.Left), holder)
		}
	}
	return "busy 0 -"
}

// errNoGrant says that a node was not among those that granted.
var errNoGrant = errors.New("has not granted")

// finish is the second phase: it writes a token above those of all grants to a
// majority of the nodes that hold, and sees that these have forgotten nothing.
// Only then the grant is believed. The caller is the driver.
func (c *claim) finish(ctx context.Context, r *round, limit time.Duration) (string, error) {
	c.mu.Lock()
	_, counts := r.replies()
	holders, drawn := make(map[int]*slot), []uint64(nil)
	for i, sl := range r.slots {
		if sl.holds && counts[i] {
			holders[i], drawn = sl, append(drawn, sl.token)
		}
	}
	token, granted := majority.Token(drawn, len(r.slots)), c.s.now()
	c.mu.Unlock()

	done := make(chan result, len(holders))
	for i, sl := range holders {
		if !c.s.life.Go(func() { done <- result{i, sl.raise(limit, token)} }) {
			done <- result{i, ErrClosed}
		}
	}
	failed, raised := make(map[int]error), make([]bool, len(r.slots))
	for i := range r.slots {
		if holders[i] == nil {
			failed[i] = errNoGrant
		}
	}
	for open := len(holders); ; open-- {
		ok, err := c.vouched(granted, raised, failed, open)
		if err != nil {
			return "", err
		} else if ok {
			return c.won(r, token, holders, limit)
		}
		select {
		case one := <-done:
			if raised[one.i] = one.err == nil; one.err != nil {
				failed[one.i] = one.err
			}
		case <-r.stop:
			return "", errOver
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// vouched reports whether a majority of those that have the token vouch for what
// they granted, by what they said of themselves since then. open answers are to
// come; the error is that it cannot be a majority any more.
func (c *claim) vouched(since time.Duration, raised []bool, failed map[int]error, open int) (bool, error) {
	ok, why, sure := c.view.vouch(since, raised)
	if sure || open == 0 {
		c.view.doubt(why)
	}
	if ok >= c.s.majority {
		c.view.refresh()
		// Two of them may have turned out to be one server.
		c.view.mu.Lock()
		defer c.view.mu.Unlock()
		c.view.same = c.view.twice(since)
		return c.view.same == nil, c.view.same
	}
	if !sure && open > 0 {
		ok += len(why)
	}
	if ok+open >= c.s.majority {
		return false, nil
	}
	maps.Copy(failed, why)
	return false, c.s.short(failed)
}

// won makes the round's holds the claim's, unless it has ended meanwhile or its
// lease is over before it began.
func (c *claim) won(r *round, token uint64, holders map[int]*slot, limit time.Duration) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.s.now()
	switch {
	case !r.live():
		return "", errOver
	case leasetime.Deadline(c.floor, c.ttl) <= now:
		return "", fmt.Errorf("quorum: a majority took %v to grant a lease of %v: nothing is left of it",
			now-c.floor, c.ttl)
	}
	c.phase, c.token, c.renewed = held, token, now
	c.touch()
	// Who granted while the others were raised gets the token, too.
	for i, sl := range r.slots {
		if sl.holds && holders[i] != sl {
			c.s.life.Go(func() { _ = sl.raise(limit, token) })
		}
	}
	c.stir()
	return fmt.Sprintf("granted %d %d", token, c.waits), nil
}

// late raises a hold that a node has granted after the claim was won. c.mu is
// held.
func (sl *slot) late() {
	c := sl.r.c
	if c.phase == held && sl.r.live() && !sl.over {
		token, limit := c.token, majority.Limit(c.s.cfg.Timeout, c.ttl, 0)
		c.s.life.Go(func() { _ = sl.raise(limit, token) })
	}
}
