package waitsfor

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func edgeOf(from, to string) Edge { return Edge{at(from), at(to)} }

// provenIn collects, for each round that Add yields, the edges of marks that it proves.
func provenIn(p *Proofs, marks map[Edge]int64) (rounds []map[Edge]bool) {
	for proven := range p.Add(marks) {
		edges := map[Edge]bool{}
		for e := range marks {
			if proven(e) {
				edges[e] = true
			}
		}
		rounds = append(rounds, edges)
	}
	return rounds
}

func TestAnEdgeIsProvenWhenItsMarkRises(t *testing.T) {
	var p Proofs
	assert.False(t, p.Begun(), "a new one has begun")
	one, two := edgeOf("x.h", "y.w"), edgeOf("y.h", "x.w")
	for i, step := range []struct {
		marks  map[Edge]int64
		proves []int // how many edges for each round that is yielded
	}{
		{map[Edge]int64{one: 1}, nil},
		{map[Edge]int64{one: 1}, nil},
		{map[Edge]int64{one: 2, two: 5}, []int{1}},    // one existed in the round before, two was not there
		{map[Edge]int64{one: 2, two: 6}, []int{1, 1}}, // and now in different rounds
		{map[Edge]int64{one: 3, two: 6}, []int{1, 2}}, // two existed in a round in which one did
		{map[Edge]int64{two: 6}, []int{1}},            // one has ended
		{map[Edge]int64{one: 9, two: 6}, []int{1}},    // what comes back begins anew
		{map[Edge]int64{one: 10, two: 7}, []int{2}},   // both existed in the round before
	} {
		got := provenIn(&p, step.marks)
		assert.MustTrue(t, len(got) == len(step.proves), "step %d: %d rounds, want %d", i, len(got), len(step.proves))
		for n, edges := range got {
			assert.Equal(t, len(edges), step.proves[n], "step %d: round %d proves %v", i, n, edges)
		}
	}
	assert.True(t, p.Begun(), "it has not begun after eight rounds")
}

// Edges exist for a random time. Their marks rise while they exist, and are seen for a while
// after that. Whatever is proven for one round existed at the moment of that round.
func TestWhatIsProvenExistedTogether(t *testing.T) {
	type life struct {
		edge     Edge
		from, to int   // it exists from one moment to the other
		seenTo   int   // it is seen until then, with its last mark
		marks    []int // when the mark rises
	}
	proofs := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		var all []life
		for i := range 6 {
			l := life{edge: edgeOf("l.h", "l."+fmt.Sprint(i)), from: r.IntN(50)}
			l.to = l.from + r.IntN(100)
			l.seenTo = l.to + r.IntN(60)
			for moment := l.from; moment <= l.to; moment += 1 + r.IntN(30) {
				l.marks = append(l.marks, moment)
			}
			all = append(all, l)
		}
		var p Proofs
		var moments []int
		for now := 0; now < 200; now += 1 + r.IntN(20) {
			moments = append(moments, now)
			marks := map[Edge]int64{}
			for _, l := range all {
				if now < l.from || now > l.seenTo {
					continue
				}
				for _, rise := range l.marks {
					if rise <= now {
						marks[l.edge]++
					}
				}
			}
			for proven := range p.Add(marks) {
				together := func(moment int) bool {
					for _, l := range all {
						if proven(l.edge) && (moment < l.from || moment > l.to) {
							return false
						}
					}
					return true
				}
				found := false
				for _, moment := range moments[:len(moments)-1] {
					found = found || together(moment)
				}
				if proofs++; !found {
					t.Fatalf("seed %d: the edges that are proven at %d never existed together", seed, now)
				}
			}
		}
	}
	assert.True(t, proofs != 0, "nothing was ever proven")
}
