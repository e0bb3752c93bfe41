package quorum

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
)

// order lists the nodes as they are asked for the lead: those that do not
// answer, and those that a majority contradicts, are asked last.
func (s *Store) order(key string) []int {
	var order, silent []int
	for _, i := range majority.Order(key, len(s.nodes)) {
		if s.nodes[i].isSilent() || s.isContradicted(key, i) {
			silent = append(silent, i)
		} else {
			order = append(order, i)
		}
	}
	return append(order, silent...)
}

// contradiction is a node that says of a lock what a majority contradicts: it is held
// there by who has it nowhere else. That is so for a moment while a lock changes
// hands. What lasts is a clock that was set back, or somebody who took the lock on
// that node alone.
type contradiction struct {
	holder   string
	since    time.Duration
	lastSeen time.Duration
	lasting  bool // it has been so for so long that the node is not asked for the lead
}

// nodeLock is a lock on a node.
type nodeLock struct {
	key  string
	node int
}

// contradictionTime is for how long a majority must have contradicted a node: longer than
// who has been granted by a lead tries for the rest, and short enough that a free
// majority grants within two leases, though waiters look after a third of one.
func contradictionTime(ttl time.Duration) time.Duration { return ttl * 2 / 3 }

// noteContradiction notes that a node has a holder that a majority does not have, and
// reports whether that has lasted. The holder is the client's attempt: who tries and
// who looks name it alike.
func (s *Store) noteContradiction(key string, node int, holder string, ttl time.Duration) bool {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	at := nodeLock{key, node}
	a := s.contradictions[at]
	if a == nil || a.holder != holder || now-a.lastSeen > s.cfg.MaxTTL {
		if len(s.contradictions) >= maxContradictions {
			clear(s.contradictions) // it takes a while longer, then
		}
		a = &contradiction{holder: holder, since: now}
		s.contradictions[at] = a
	}
	a.lastSeen = now
	a.lasting = a.lasting || now-a.since >= contradictionTime(ttl)
	return a.lasting
}

// maxContradictions bounds what is remembered of such nodes.
const maxContradictions = 1000

// clearContradiction notes that a majority may well have what the node has.
func (s *Store) clearContradiction(key string, node int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.contradictions, nodeLock{key, node})
}

// isContradicted reports whether the node is not asked for the lead of the lock.
func (s *Store) isContradicted(key string, node int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.contradictions[nodeLock{key, node}]
	return a != nil && a.lasting && s.now()-a.lastSeen <= s.cfg.MaxTTL
}

// checkCoordinator asks the nodes, for one who waits in the lead's line, whether a majority
// contradicts the lead, and has done so for long.
func (acq *acquisition) checkCoordinator(ctx context.Context, r *round) bool {
	acq.mu.Lock()
	coordinator, last := r.coordinator, r.attempts[r.coordinator].lastAnswer
	acq.mu.Unlock()
	// The dead stand in a line that does not move, so who is far from the head may be
	// the first who lives. A lease that is longer than any is none of a right clock.
	if last.Place > alwaysChecked && last.Left <= acq.s.cfg.MaxTTL && rand.IntN(last.Place) >= alwaysChecked {
		return false
	}
	_, own, err := acq.s.readRecord(ctx, []string{acq.key}, nil)
	there, ok := own[coordinator]
	if err != nil || !ok || len(there.Holders) == 0 {
		return false
	}
	for _, h := range there.Holders {
		may := len(acq.s.nodes) - len(own) // those that did not answer may have it
		for _, other := range own {
			for _, mine := range other.Holders {
				if mine.Attempt == h.Attempt {
					may++
				}
			}
		}
		if may >= acq.s.majority {
			acq.s.clearContradiction(acq.key, coordinator)
			return false
		}
	}
	return acq.s.noteContradiction(acq.key, coordinator, there.Holders[0].Attempt, acq.ttl)
}

// alwaysChecked is how far from the head of a line one always probes, and about how many
// do so of those behind: the answer of the lead is as long as its line.
const alwaysChecked = 8

// comparison says what the other nodes say of what the lead says, if anything can be
// said yet.
type comparison uint8

const (
	undecided    comparison = iota
	plausible               // a majority may have what the lead has
	heldByOthers            // the lead has granted what somebody else has on a majority
	heldThere               // a majority does not have the holder that the lead names
)

// compare compares the lead's word with that of the others. all says that no more
// answers are expected. c.mu is held.
func (r *round) compare(all bool) (a comparison, holder string) {
	coordinator, m := r.attempts[r.coordinator], r.acq.s.majority
	open, same, by := 0, 0, make(map[string]int)
	for _, na := range r.attempts {
		switch na.reply {
		case majority.Open:
			open++
		case majority.Granted:
			by[""]++
		case majority.Busy:
			by[clientAttempt(na.lastAnswer.Holder)]++
		default: // it says nothing of holders
		}
	}
	switch coordinator.reply {
	case majority.Granted:
		delete(by, "") // readers cannot be told apart
		most := 0
		for _, n := range by {
			most = max(most, n)
		}
		if most >= m {
			return heldByOthers, ""
		} else if most > 0 && most+open >= m && !all {
			return undecided, ""
		}
	case majority.Busy:
		named := clientAttempt(coordinator.lastAnswer.Holder)
		for _, na := range r.attempts { // a node that failed may have the same
			differs := na.reply == majority.Busy && clientAttempt(na.lastAnswer.Holder) != named
			if !differs && na.reply != majority.Open && na.reply != majority.Granted {
				same++
			}
		}
		if others := len(r.attempts) - same - open; others >= m {
			return heldThere, named
		} else if others+open >= m && !all {
			return undecided, ""
		}
	default: // it says nothing of holders
	}
	return plausible, ""
}

// passCoordinator gives the lead to the next node. c.mu is held.
func (r *round) passCoordinator() {
	order := slices.DeleteFunc(slices.Clone(r.order), func(i int) bool { return i == r.coordinator })
	order = append(order, r.coordinator)
	r.order = order
}
