package quorum

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// stay gives the lock up on all nodes at once, and has it stay taken there for a
// while: until then nobody has a majority. Asked again it is answered the same.
// A node that is not reached lets somebody in when the lease there is over, be
// that earlier or later; after an error nobody may have been reached.
func (s *Store) stay(ctx context.Context, keys, args []string) (string, error) {
	if len(args) != 6 {
		return "", refuse(ErrUnsupported, "ERR", "stay takes 6 arguments, not %d", len(args))
	}
	c := s.known(keys[0], args[0])
	if c == nil {
		return "gone", nil
	}
	limit := s.limit(ctx, 0)
	slots, lead, won := c.leaves()
	if !won {
		return "gone", nil
	}
	replies := make([]wire.Answer, len(s.nodes)) // each is written before its result is sent
	done := s.spread(func(i int, _ *node) (err error) {
		replies[i], err = slots[i].stay(limit, args)
		return err
	})
	given, err := s.given(ctx, done, lead)
	switch {
	case err != nil:
		return "", err
	case given == nil:
		return "gone", nil
	}
	lefts := make([]time.Duration, len(given))
	for i, one := range given {
		lefts[i] = replies[one].Left
	}
	// The lock is free when a majority can be had.
	if left := majority.Rank(lefts, len(s.nodes)); left > 0 {
		return "stays " + wire.Millis(left), nil
	}
	return "released", nil
}

// leaves ends the claim for a stay. It is still known, so that it can be asked
// again. won says that there was a grant to give up.
func (c *claim) leaves() (slots []*slot, lead int, won bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if won = c.phase == held || c.stays; !won {
		return nil, 0, false
	}
	c.phase, c.stays = over, true
	c.round.end()
	return append([]*slot(nil), c.round.slots...), c.round.lead, true
}

// stay gives up what the slot has.
func (sl *slot) stay(limit time.Duration, args []string) (wire.Answer, error) {
	token, err := sl.part(limit)
	if err != nil {
		return wire.Answer{}, err
	}
	a, err := sl.send(limit, script.Stay, append([]string{sl.id, wire.Number(token)}, args[2:]...))
	if err == nil {
		sl.owe(0, 0)
		if a.Kind == wire.Gone {
			err = errForgot
		}
	}
	return a, err
}
