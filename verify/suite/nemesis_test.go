package suite

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/history"
)

// spansOf has some faults be active at the same time.
func spansOf(bout []fault.Fault) (spans []history.FaultSpan) {
	for _, f := range bout {
		spans = append(spans, history.FaultSpan{Name: f.Name, From: 1, Till: 2})
	}
	return spans
}

func every(fault.Fault) bool { return true }

// Whoever draws what is missing first has drawn all pairs that there can be, on every
// topology, in no more bouts than there are pairs.
func TestAllPairsAreDrawn(t *testing.T) {
	for _, topology := range fault.Topologies() {
		o, err := Options{Topology: topology, Argv: []string{"true"}}.Complete()
		assert.Must(t, err)
		faults, err := fault.Named(o.Faults)
		assert.Must(t, err)
		d := &draw{faults: faults, there: make(map[string]bool), pairs: make(map[string]int)}
		rng := rand.New(rand.NewPCG(1, 2))
		possible := Possible(o.Faults)
		for range possible {
			bout := d.next(rng, every)
			for i, a := range bout {
				for _, b := range bout[:i] {
					assert.MustEqual(t, fault.Apart(a, b), "", "%s: %s beside %s, though", topology, a.Name, b.Name)
				}
			}
			d.done(spansOf(bout))
		}
		for _, pair := range possible {
			assert.True(t, d.pairs[pair] != 0, "%s: %s was never drawn", topology, pair)
		}
		if never := Impossible(o.Faults); len(possible) < 5*len(never) {
			t.Errorf("%s: %d pairs are possible, and %d are not", topology, len(possible), len(never))
		}
	}
}

// A fault that was asked for comes again until it was done.
func TestAFaultThatFailedComesAgain(t *testing.T) {
	faults, err := fault.Named([]string{"kill", "cut", "evict"})
	assert.Must(t, err)
	d := &draw{faults: faults, asked: true, there: make(map[string]bool)}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 3 {
		bout := d.next(rng, every)
		if !slices.ContainsFunc(bout, func(f fault.Fault) bool { return f.Name == "evict" }) {
			t.Fatalf("bout %d has no evict", n)
		}
		spans := spansOf(bout)
		for i := range spans {
			if spans[i].Name == "evict" {
				spans[i].Err = "nothing was evicted"
			}
		}
		d.done(spans)
	}
}

// What two minorities forget, a majority may have forgotten: they take turns with a
// probation between.
func TestMinoritiesTakeTurns(t *testing.T) {
	w := &world{opts: Options{Topology: fault.Quorum, TTL: time.Nanosecond}, deployment: &deployment{}}
	for range 5 {
		w.deployment.own = append(w.deployment.own, &redistest.Server{})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	met := make(map[*redistest.Server]bool)
	for range 50 {
		first, done := w.Weak(rng)
		assert.MustTrue(t, len(first) != 0 && len(first) <= 2, "%d servers forget", len(first))
		for _, s := range first {
			met[s] = true
		}
		if second, end := w.Weak(rng); len(second) > 0 {
			t.Error("two minorities forget at once")
			end()
		}
		done()
		assert.False(t, w.ripe(), "another minority may forget at once")
		w.weak.over = time.Time{} // the time has passed
	}
	assert.Equal(t, len(met), 5, "servers of 5 that ever forget")
	w.Forgot()
	servers, _ := w.Weak(rng)
	assert.True(t, len(servers) == 0 && !w.ripe(), "a minority forgets right after a majority")
}

func TestFaultsThatMeetAreCounted(t *testing.T) {
	spans := []history.FaultSpan{
		{Name: "cut", From: 1, Till: 10}, {Name: "kill", From: 5, Till: 6}, {Name: "deaf", From: 6, Till: 20},
		{Name: "stop", From: 30, Till: 40},
	}
	pairs := pairsOf(spans)
	assert.True(t, len(pairs) == 3 && pairs["cut+kill"] == 1 && pairs["deaf+kill"] == 1 && pairs["cut+deaf"] == 1,
		"got %v", pairs)
	paired, triples := together(spans)
	assert.True(t, paired == 3 && triples == 1, "%d faults met another, %d threes", paired, triples)
}
