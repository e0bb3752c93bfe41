package waitsfor

import (
	"iter"
	"slices"
)

// Edge is a piece of a graph that needs a proof: that the code which holds From waits as To.
// Without From: that the waiter To is alive.
type Edge struct{ From, To ID }

// Proofs finds out which edges existed at the same time, although each was read at another
// moment, and what a client said may have been old when it was read. It is given the marks of
// all edges, round by round. The mark of an edge rises when its client says again that the edge
// exists. So if a mark has risen since a round, the edge existed in that round. An edge that has
// ended never comes back.
//
// The zero value has seen nothing.
type Proofs struct {
	round int
	seen  map[Edge]sight
}

type sight struct {
	mark   int64
	first  int // the edge is there since this round
	proven int // in this round the edge existed; 0: not known of any
}

// Begun reports whether there was a round.
func (p *Proofs) Begun() bool { return p.round > 0 }

// Add adds a round. It yields a function for each round in which some edges are known to have
// existed, the last such round first. The function reports whether an edge that is still there
// existed in that round.
func (p *Proofs) Add(marks map[Edge]int64) iter.Seq[func(Edge) bool] {
	p.round++
	now := make(map[Edge]sight, len(marks))
	var rounds []int
	for e, mark := range marks {
		s, known := p.seen[e]
		switch {
		case !known:
			s = sight{mark: mark, first: p.round}
		case mark > s.mark:
			s.mark, s.proven = mark, p.round-1
		}
		if now[e] = s; s.proven > 0 && !slices.Contains(rounds, s.proven) {
			rounds = append(rounds, s.proven)
		}
	}
	p.seen = now
	slices.Sort(rounds)
	slices.Reverse(rounds)
	return func(yield func(func(Edge) bool) bool) {
		for _, round := range rounds {
			if !yield(func(e Edge) bool {
				s, known := now[e]
				return known && s.first <= round && round <= s.proven
			}) {
				return
			}
		}
	}
}
