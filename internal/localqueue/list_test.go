package localqueue

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func fresh() *pendingCall[string] { return newPendingCall[string]() }

// ready reports whether a call has its answer.
func ready[H comparable](w *pendingCall[H]) bool {
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
	for i, w := range []*pendingCall[string]{a, b, c} {
		assert.MustTrue(t, !ready(w), "call %d is answered before its time", i)
		hold := string(rune('a' + i))
		if l.give(hold, refused); !ready(w) || w.hold != hold || !errors.Is(w.err, refused) {
			t.Fatalf("call %d: %v, with %q and %v", i, ready(w), w.hold, w.err)
		}
	}
	assert.True(t, l.last == nil, "somebody waits who has an answer")
}

func TestAWaiterThatLeavesIsSkipped(t *testing.T) {
	for leaver := range 3 {
		var l list[string]
		all := []*pendingCall[string]{l.enqueue(fresh()), l.enqueue(fresh()), l.enqueue(fresh())}
		assert.MustTrue(t, l.remove(all[leaver]), "call %d could not leave", leaver)
		for i, w := range slices.Delete(slices.Clone(all), leaver, leaver+1) {
			if l.give("", nil); !ready(w) {
				t.Errorf("call %d has left, answer %d was not given", leaver, i)
			}
		}
		assert.True(t, l.last == nil && !ready(all[leaver]),
			"call %d was answered though it has left", leaver)
	}
}

func TestAWaiterThatLeavesTooLateHasItsAnswer(t *testing.T) {
	var l list[string]
	a, b := l.enqueue(fresh()), l.enqueue(fresh())
	l.give("hold", nil)
	assert.MustTrue(t, !l.remove(a) && a.hold == "hold", "the call was answered already")
	l.giveAll("", nil)
	assert.True(t, ready(b) && !l.remove(b), "the last call has no answer, or could still leave")
}

// The model is a slice: whatever the order of calls, the same call is next.
func TestAListIsAQueueWithHoles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var l list[int]
	var model []*pendingCall[int]
	for i := range 20_000 {
		switch rng.IntN(5) {
		case 0, 1:
			model = append(model, l.enqueue(newPendingCall[int]()))
		case 2:
			if len(model) > 0 {
				at := rng.IntN(len(model))
				assert.MustTrue(t, l.remove(model[at]), "step %d: a call could not leave", i)
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
					assert.MustTrue(t, ready(w) && w.hold == i, "step %d: a call has no answer", i)
				}
				model = nil
			}
		}
		if (l.last == nil) != (len(model) == 0) {
			t.Fatalf("step %d: empty: %v, %d wait", i, l.last == nil, len(model))
		}
	}
}
