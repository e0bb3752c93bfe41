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
	return s.released(ctx, done, lead)
}

func (s *Store) released(ctx context.Context, done <-chan result, lead int) (string, error) {
	given, err := s.given(ctx, done, lead)
	switch {
	case err != nil:
		return "", err
	case given == nil:
		return "gone", nil
	}
	return "released", nil
}

// given waits until a majority has said that it gave the lock up, the lead among
// them, for who comes next asks it first; it answers which nodes have. None
// means that no majority had it.
func (s *Store) given(ctx context.Context, done <-chan result, lead int) (given []int, err error) {
	failed, heard := make(map[int]error), make([]bool, len(s.nodes))
	no := 0
	for range s.nodes {
		var r result
		select {
		case r = <-done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		heard[r.i] = true
		switch {
		case r.err == nil:
			given = append(given, r.i)
		case errors.Is(r.err, errForgot):
			no++
		default:
			failed[r.i] = r.err
		}
		has, can := majority.Count(len(given), no, len(s.nodes))
		switch {
		case has && (heard[lead] || s.onlySuspects(heard)):
			return given, nil
		case !can:
			return nil, nil
		}
	}
	return nil, s.short(failed)
}

// releaseAgain answers a release that was sent before, by what the nodes
// remember of the token.
func (s *Store) releaseAgain(ctx context.Context, limit time.Duration, keys, args []string) (string, error) {
	done := s.spread(func(_ int, n *node) error {
		answer, err := n.call(limit, script.Release, keys, args)
		if err != nil {
			return err
		}
		return releasedBy(wire.Parse(answer))
	})
	return s.released(ctx, done, s.order(keys[0])[0])
}

// releasedBy is nil for a node that has released, and says otherwise what it has
// done.
func releasedBy(a wire.Answer, err error) error {
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

// release gives up what the slot has.
func (sl *slot) release(limit time.Duration, args []string) error {
	token, err := sl.part(limit)
	if err != nil {
		return err
	}
	c := sl.r.c
	mine := append([]string{sl.id, wire.Number(token)}, args[2:]...)
	a, err := sl.send(limit, script.Release, mine)
	if err != nil && !refused(err) {
		sl.owe(1, c.s.now()+c.ttl)
	} else {
		sl.owe(0, 0)
	}
	return releasedBy(a, err)
}

// part ends the slot, and answers the token of what it holds. A node that does
// not hold has nothing to give up: errForgot, once what it may have is given back.
func (sl *slot) part(limit time.Duration) (token uint64, err error) {
	c := sl.r.c
	sl.gate <- struct{}{} // what is under way there comes first
	c.mu.Lock()
	holds := sl.holds
	token, sl.over = sl.token, true
	c.mu.Unlock()
	<-sl.gate
	if holds {
		return token, nil
	}
	if _, err := sl.giveBack(limit); err != nil && !refused(err) {
		return 0, err
	}
	return 0, errForgot
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
