package quorum

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
)

// alone is a node that says of a lock what a majority contradicts: it is held
// there by who has it nowhere else. That is so for a moment while a lock changes
// hands. What lasts is a clock that was set back, or somebody who took the lock on
// that node alone.
type alone struct {
	holder string
	since  time.Duration
	last   time.Duration
	long   bool // it has been so for so long that the node is not asked for the lead
}

// place is a lock on a node.
type place struct {
	key  string
	node int
}

// lasting is for how long a majority must have contradicted a node: longer than
// who has been granted by a lead tries for the rest, and short enough that a free
// majority grants within two leases, though waiters look after a third of one.
func lasting(ttl time.Duration) time.Duration { return ttl * 2 / 3 }

// contradicted notes that a node has a holder that a majority does not have, and
// reports whether that has lasted. The holder is the client's attempt: who tries and
// who looks name it alike.
func (s *Store) contradicted(key string, node int, holder string, ttl time.Duration) bool {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{key, node}
	a := s.alone[at]
	if a == nil || a.holder != holder || now-a.last > s.cfg.MaxTTL {
		if len(s.alone) >= maxAlone {
			clear(s.alone) // it takes a while longer, then
		}
		a = &alone{holder: holder, since: now}
		s.alone[at] = a
	}
	a.last = now
	a.long = a.long || now-a.since >= lasting(ttl)
	return a.long
}

// maxAlone bounds what is remembered of such nodes.
const maxAlone = 1000

// agreed notes that a majority may well have what the node has.
func (s *Store) agreed(key string, node int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.alone, place{key, node})
}

// overruled reports whether the node is not asked for the lead of the lock.
func (s *Store) overruled(key string, node int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.alone[place{key, node}]
	return a != nil && a.long && s.now()-a.last <= s.cfg.MaxTTL
}

// probe asks the nodes, for one who waits in the lead's line, whether a majority
// contradicts the lead, and has done so for long.
func (c *claim) probe(ctx context.Context, r *round) bool {
	c.mu.Lock()
	lead, last := r.lead, r.slots[r.lead].last
	c.mu.Unlock()
	// The dead stand in a line that does not move, so who is far from the head may be
	// the first who lives. A lease that is longer than any is none of a right clock.
	if last.Place > nearest && last.Left <= c.s.cfg.MaxTTL && rand.IntN(last.Place) >= nearest {
		return false
	}
	_, own, err := c.s.record(ctx, []string{c.key}, nil)
	there, ok := own[lead]
	if err != nil || !ok || len(there.Holders) == 0 {
		return false
	}
	for _, h := range there.Holders {
		may := len(c.s.nodes) - len(own) // those that did not answer may have it
		for _, other := range own {
			for _, mine := range other.Holders {
				if mine.Attempt == h.Attempt {
					may++
				}
			}
		}
		if may >= c.s.majority {
			c.s.agreed(c.key, lead)
			return false
		}
	}
	return c.s.contradicted(c.key, lead, there.Holders[0].Attempt, c.ttl)
}

// nearest is how far from the head of a line one always probes, and about how many
// do so of those behind: the answer of the lead is as long as its line.
const nearest = 8

// against says what the other nodes say of what the lead says, if anything can be
// said yet.
type against uint8

const (
	unsettled    against = iota
	confirmed            // a majority may have what the lead has
	heldByOthers         // the lead has granted what somebody else has on a majority
	heldThere            // a majority does not have the holder that the lead names
)

// weigh compares the lead's word with that of the others. all says that no more
// answers are expected. c.mu is held.
func (r *round) weigh(all bool) (a against, holder string) {
	lead, m := r.slots[r.lead], r.c.s.majority
	open, same, by := 0, 0, make(map[string]int)
	for _, sl := range r.slots {
		switch sl.reply {
		case majority.Open:
			open++
		case majority.Granted:
			by[""]++
		case majority.Busy:
			by[roundless(sl.last.Holder)]++
		default: // it says nothing of holders
		}
	}
	switch lead.reply {
	case majority.Granted:
		delete(by, "") // readers cannot be told apart
		most := 0
		for _, n := range by {
			most = max(most, n)
		}
		if most >= m {
			return heldByOthers, ""
		} else if most > 0 && most+open >= m && !all {
			return unsettled, ""
		}
	case majority.Busy:
		for _, sl := range r.slots { // a node that failed may have the same
			if other := sl.reply == majority.Busy && roundless(sl.last.Holder) != roundless(lead.last.Holder); !other &&
				sl.reply != majority.Open && sl.reply != majority.Granted {
				same++
			}
		}
		if others := len(r.slots) - same - open; others >= m {
			return heldThere, roundless(lead.last.Holder)
		} else if others+open >= m && !all {
			return unsettled, ""
		}
	default: // it says nothing of holders
	}
	return confirmed, ""
}

// pass gives the lead to the next node. c.mu is held.
func (r *round) pass() {
	order := slices.DeleteFunc(slices.Clone(r.order), func(i int) bool { return i == r.lead })
	order = append(order, r.lead)
	r.order = order
}
