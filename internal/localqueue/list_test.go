package localqueue

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func fresh() *waiter[string] { return newWaiter[string]() }

// ready reports whether a waiter has its answer.
func ready[H comparable](w *waiter[H]) bool {
	select {
	case <-w.ready:
		return true
	default:
		return false
	}
}

func TestWaitersAreAnsweredInOrderOfArrival(t *testing.T) {
	var l list[string]
	a, b, c := l.enqueue(fresh()), l.enqueue(fresh()), l.enqueue(fresh())
	refused := errors.New("refused")
	for i, w := range []*waiter[string]{a, b, c} {
		assert.MustTrue(t, !ready(w), "waiter %d is answered before its time", i)
		hold := string(rune('a' + i))
		if l.give(hold, refused); !ready(w) || w.hold != hold || !errors.Is(w.err, refused) {
			t.Fatalf("waiter %d: %v, with %q and %v", i, ready(w), w.hold, w.err)
		}
	}
	assert.True(t, l.last == nil, "somebody waits who has an answer")
}

func TestAWaiterThatLeavesIsSkipped(t *testing.T) {
	for leaver := range 3 {
		var l list[string]
		all := []*waiter[string]{l.enqueue(fresh()), l.enqueue(fresh()), l.enqueue(fresh())}
		assert.MustTrue(t, l.remove(all[leaver]), "waiter %d could not leave", leaver)
		for i, w := range slices.Delete(slices.Clone(all), leaver, leaver+1) {
			if l.give("", nil); !ready(w) {
				t.Errorf("waiter %d has left, answer %d was not given", leaver, i)
			}
		}
		assert.True(t, l.last == nil && !ready(all[leaver]),
			"waiter %d was answered though it has left", leaver)
	}
}

func TestAWaiterThatLeavesTooLateHasItsAnswer(t *testing.T) {
	var l list[string]
	a, b := l.enqueue(fresh()), l.enqueue(fresh())
	l.give("hold", nil)
	assert.MustTrue(t, !l.remove(a) && a.hold == "hold", "the waiter was answered already")
	l.giveAll("", nil)
	assert.True(t, ready(b) && !l.remove(b), "the last waiter has no answer, or could still leave")
}

// The model is a slice: whatever the order of calls, the same waiter is next.
func TestAListIsAQueueWithHoles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var l list[int]
	var model []*waiter[int]
	for i := range 20_000 {
		switch rng.IntN(5) {
		case 0, 1:
			model = append(model, l.enqueue(newWaiter[int]()))
		case 2:
			if len(model) > 0 {
				at := rng.IntN(len(model))
				assert.MustTrue(t, l.remove(model[at]), "step %d: a waiter could not leave", i)
				model = slices.Delete(model, at, at+1)
			}
		case 3:
			if len(model) > 0 {
				l.give(i, nil)
				if !ready(model[0]) || model[0].hold != i || l.remove(model[0]) {
					t.Fatalf("step %d: somebody else was answered", i)
				}
				model = model[1:]
			}
		case 4:
			if rng.IntN(50) == 0 {
				l.giveAll(i, nil)
				for _, w := range model {
					assert.MustTrue(t, ready(w) && w.hold == i, "step %d: a waiter has no answer", i)
				}
				model = nil
			}
		}
		if (l.last == nil) != (len(model) == 0) {
			t.Fatalf("step %d: empty: %v, %d wait", i, l.last == nil, len(model))
		}
	}
}
