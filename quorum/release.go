package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// release gives the lock up on all nodes at once; the lead grants to the next
// in its line in the same step. It is released when a majority says so: until
// then nobody else had one. After an error it may be held on some nodes until
// the cancel that goes on in the background reaches them.
func (s *Store) release(ctx context.Context, keys, args []string) (string, error) {
	if len(args) != 4 {
		return "", refuse(ErrUnsupported, "ERR", "release takes 4 arguments, not %d", len(args))
	}
	limit := s.limit(ctx, 0)
	c := s.known(keys[0], args[0])
	if c == nil {
		return s.releaseAgain(ctx, limit, keys, args)
	}
	slots, lead, won := s.finished(c)
	if !won {
		s.spread(func(i int, _ *node) error { _, err := slots[i].giveBack(limit); return err })
		return s.releaseAgain(ctx, limit, keys, args)
	}
	done := s.spread(func(i int, _ *node) error { return slots[i].release(limit, args) })
	return s.count(ctx, done, lead)
}

// count is the answer to a release by what the nodes say, the lead among them:
// who comes next asks it first.
func (s *Store) count(ctx context.Context, done <-chan result, lead int) (string, error) {
	failed, heard := make(map[int]error), make([]bool, len(s.nodes))
	yes, no := 0, 0
	for range s.nodes {
		var r result
		select {
		case r = <-done:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		heard[r.i] = true
		switch {
		case r.err == nil:
			yes++
		case errors.Is(r.err, errForgot):
			no++
		default:
			failed[r.i] = r.err
		}
		has, can := majority.Count(yes, no, len(s.nodes))
		switch {
		case has && (heard[lead] || s.onlySuspects(heard)):
			return "released", nil
		case !can:
			return "gone", nil
		}
	}
	return "", s.short(failed)
}

// releaseAgain answers a release that was sent before, by what the nodes
// remember of the token.
func (s *Store) releaseAgain(ctx context.Context, limit time.Duration, keys, args []string) (string, error) {
	done := s.spread(func(_ int, n *node) error {
		answer, err := n.call(limit, script.Release, keys, args)
		if err != nil {
			return err
		}
		return released(wire.Parse(answer))
	})
	return s.count(ctx, done, s.order(keys[0])[0])
}

// released is nil for a node that has released, and says otherwise what it has
// done.
func released(a wire.Answer, err error) error {
	switch {
	case err != nil:
		return err
	case a.Kind == wire.Gone:
		return errForgot
	case a.Kind != wire.Released:
		return wire.BadAnswer("another kind to release")
	}
	return nil
}

// finished ends a claim and answers what it has on the nodes, its lead, and
// whether it had been won.
func (s *Store) finished(c *claim) (slots []*slot, lead int, won bool) {
	s.forget(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	won = c.phase == held
	c.phase = over
	r := c.round
	if r == nil {
		r = c.begin() // it never got to ask
		c.phase = over
	}
	r.end()
	return append([]*slot(nil), r.slots...), r.lead, won
}

// release gives up what the slot has. A node that does not hold has nothing to
// say: errForgot.
func (sl *slot) release(limit time.Duration, args []string) error {
	c := sl.r.c
	sl.gate <- struct{}{} // what is under way there comes first
	c.mu.Lock()
	holds, token := sl.holds, sl.token
	sl.over = true
	c.mu.Unlock()
	<-sl.gate
	if !holds {
		if _, err := sl.giveBack(limit); err != nil && !refused(err) {
			return err
		}
		return errForgot
	}
	mine := append([]string{sl.id, wire.Number(token)}, args[2:]...)
	a, err := sl.send(limit, script.Release, mine)
	if err != nil && !refused(err) {
		cancel := []string{sl.id, c.retention, c.base}
		sl.node.owe(debt{keys: sl.keys, args: cancel, until: c.s.now() + c.ttl})
	} else {
		sl.chase()
	}
	return released(a, err)
}

// cancel undoes an acquisition. What nodes that do not answer may have granted
// is cancelled in the background.
func (s *Store) cancel(ctx context.Context, keys, args []string) (string, error) {
	if len(args) != 3 {
		return "", refuse(ErrUnsupported, "ERR", "cancel takes 3 arguments, not %d", len(args))
	}
	c := s.known(keys[0], args[0])
	if c == nil {
		return s.one(ctx, script.Cancel, keys, args)
	}
	limit := s.limit(ctx, 0)
	slots, _, _ := s.finished(c)
	kinds := make(chan wire.Kind, len(s.nodes))
	done := s.spread(func(i int, _ *node) error {
		kind, err := slots[i].giveBack(limit)
		kinds <- kind
		return err
	})
	answer := "left" // whatever it had is being given back
	for range s.nodes {
		select {
		case <-done:
			select {
			case kind := <-kinds:
				if kind == wire.Released {
					answer = "released"
				}
			default: // the store is closed, and nothing was asked
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return answer, nil
}
