package waitsfor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// at makes the ID of a word.
func at(word string) ID {
	lock, attempt, _ := strings.Cut(word, ".")
	return ID{lock, attempt}
}

func ids(words string) (list []ID) {
	for word := range strings.FieldsSeq(words) {
		list = append(list, at(word))
	}
	return list
}

// graph reads lines of the form NODE NEEDS…, or NODE WANT/FREE HOLDER=PERMITS….
func graph(text string) Graph {
	g := Graph{}
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		var n Node
		for _, word := range words[1:] {
			switch holder, permits, share := strings.Cut(word, "="); {
			case share:
				s := Share{ID: at(holder)}
				fmt.Sscan(permits, &s.Permits)
				n.Pool = append(n.Pool, s)
			case strings.Contains(word, "/"):
				fmt.Sscanf(word, "%d/%d", &n.Want, &n.Free)
			default:
				n.Needs = append(n.Needs, at(word))
			}
		}
		g[at(words[0])] = n
	}
	return g
}

func TestKnots(t *testing.T) {
	for name, c := range map[string]struct{ graph, knots, cycle string }{
		"nothing":           {"", "", ""},
		"a hold that works": {"w.2 h.1", "", ""},
		"two": {
			"y.wa y.hb\ny.hb x.wb\nx.wb x.ha\nx.ha y.wa", "x.ha x.wb y.hb y.wa", "x.ha y.wa y.hb x.wb",
		},
		"one waits for itself":                   {"a.1 a.1", "a.1", "a.1"},
		"three":                                  {"a.1 b.1\nb.1 c.1\nc.1 a.1", "a.1 b.1 c.1", "a.1 b.1 c.1"},
		"a chain that ends in a cycle":           {"a.1 b.1\nb.1 c.1\nc.1 b.1", "b.1 c.1", "b.1 c.1"},
		"a chain that ends in a hold that works": {"a.1 b.1\nb.1 c.1\nc.1 d.1", "", ""},
		"two deadlocks": {
			"a.1 b.1\nb.1 a.1\nc.1 d.1\nd.1 c.1", "a.1 b.1 | c.1 d.1", "a.1 b.1 | c.1 d.1",
		},
		"a short cut":                        {"a.1 b.1 c.1\nb.1 c.1\nc.1 a.1", "a.1 b.1 c.1", "a.1 c.1"},
		"one of several needs":               {"a.1 b.1 z.9\nb.1 a.1", "a.1 b.1", "a.1 b.1"},
		"all permits are in the cycle":       {"s.w 1/0 s.h=2\ns.h s.w", "s.h s.w", "s.h s.w"},
		"one holder of permits works":        {"s.w 1/0 s.h=2 s.g=1\ns.h s.w", "", ""},
		"the holder that works has too few":  {"s.w 2/0 s.h=2 s.g=1\ns.h s.w", "s.h s.w", "s.h s.w"},
		"what is free is enough with it":     {"s.w 2/1 s.h=2 s.g=1\ns.h s.w", "", ""},
		"all holders of permits, two cycles": {"s.w 1/0 s.h=1 s.g=1\ns.h s.w\ns.g s.w", "s.g s.h s.w", "s.g s.w"},
		"a permit of one that waits for the deadlock of others": {
			"s.w 1/0 s.h=1 s.g=1\ns.h s.w\ns.g a.1\na.1 b.1\nb.1 a.1", "a.1 b.1", "a.1 b.1",
		},
		"permits of two that wait for deadlocks of others": {
			"s.w 1/0 s.h=1 s.g=1\ns.h c.1\nc.1 s.h s.w\ns.g a.1\na.1 a.1",
			"a.1 | c.1 s.h", "a.1 | c.1 s.h",
		},
		"readers": {
			"x.w x.r1 x.r2\nx.r1 y.w\ny.w y.h\ny.h x.q\nx.q x.w", "x.q x.r1 x.w y.h y.w", "x.q x.w x.r1 y.w y.h",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var members, cycles []string
			for _, k := range graph(c.graph).Knots() {
				members, cycles = append(members, words(k.Members)), append(cycles, words(k.Cycle))
			}
			assert.Equal(t, strings.Join(members, " | "), c.knots, "members")
			assert.Equal(t, strings.Join(cycles, " | "), c.cycle, "cycle")
		})
	}
}

func words(list []ID) string {
	var all []string
	for _, id := range list {
		all = append(all, id.Lock+"."+id.Attempt)
	}
	return strings.Join(all, " ")
}

func TestWhatWaitsForADeadlockOfOthersIsInNone(t *testing.T) {
	g := graph("s.w 1/0 s.h=1 s.g=1\ns.h s.w\ns.g a.1\na.1 b.1\nb.1 a.1\nz.1 s.w")
	for _, id := range ids("s.w s.h s.g z.1") {
		k, ok := g.Knot(id)
		assert.True(t, !ok, "%v is in %v", id, k)
	}
}

// random makes a graph of n nodes.
func random(r *rand.Rand, n int) Graph {
	g := Graph{}
	pick := func() ID { return ID{"l", fmt.Sprint(r.IntN(n))} }
	for i := range n {
		var node Node
		for range r.IntN(3) {
			node.Needs = append(node.Needs, pick())
		}
		if r.IntN(3) == 0 {
			limit := 0
			for range 1 + r.IntN(3) {
				s := Share{pick(), 1 + r.IntN(2)}
				node.Pool, limit = append(node.Pool, s), limit+s.Permits
			}
			node.Want = 1 + r.IntN(limit)
			node.Free = r.IntN(node.Want)
		}
		g[ID{"l", fmt.Sprint(i)}] = node
	}
	return g
}

// run lets every node go on that can, one after another in a random order, as locks do: a
// node that goes on is gone for all that wait for it. It returns those that remain.
func run(r *rand.Rand, g Graph) map[ID]bool {
	left := map[ID]bool{}
	for id := range g {
		left[id] = true
	}
	for {
		var able []ID
		for id := range left {
			free, needs := g[id].Free, false
			for _, other := range g[id].Needs {
				needs = needs || left[other]
			}
			for _, s := range g[id].Pool {
				if !left[s.ID] {
					free += s.Permits
				}
			}
			if !needs && free >= g[id].Want {
				able = append(able, id)
			}
		}
		if len(able) == 0 {
			return left
		}
		delete(left, able[r.IntN(len(able))])
	}
}

// Whatever the order in which the others go on, exactly the stuck nodes remain. Each knot is a
// cycle of stuck nodes, and all of its members see the same one. They remain even if all
// others are taken away. If something is stuck, there is a knot.
func TestStuckIsWhatRemains(t *testing.T) {
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := random(r, 1+r.IntN(9))
		stuck, left := g.Stuck(), run(r, g)
		assert.MustEqual(t, len(stuck), len(left), "seed %d: %v is stuck, and %v remains of %v", seed, stuck, left, g)
		for id := range left {
			assert.MustTrue(t, stuck[id], "seed %d: %v remains and is not stuck in %v", seed, id, g)
		}
		knots := g.Knots()
		assert.MustTrue(t, (len(knots) > 0) == (len(stuck) > 0),
			"seed %d: %d knots, %d stuck in %v", seed, len(knots), len(stuck), g)
		for _, k := range knots {
			alone := Graph{}
			for _, id := range k.Members {
				alone[id] = g[id]
			}
			if left := run(r, alone); len(left) != len(k.Members) {
				t.Fatalf("seed %d: of the knot %v only %v remains in %v", seed, k.Members, left, g)
			}
			for i, id := range k.Cycle {
				next := k.Cycle[(i+1)%len(k.Cycle)]
				follows := slices.Contains(slices.Collect(g[id].edges()), next)
				assert.MustTrue(t, stuck[id] && follows && slices.Contains(k.Members, id),
					"seed %d: %v is no cycle in %v", seed, k.Cycle, g)
			}
			for _, id := range k.Members {
				other, ok := g.Knot(id)
				assert.MustTrue(t, ok && slices.Equal(other.Members, k.Members),
					"seed %d: %v sees %v, and not %v", seed, id, other.Members, k.Members)
			}
		}
	}
}
