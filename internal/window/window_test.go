package window

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// more is how many more requests a window lets through.
func more(w Window) (n int) {
	for ; !w.Full() && n < 1000; n++ {
		w.Enter()
	}
	return n
}

func enter(w *Window, n int) {
	for range n {
		w.Enter()
	}
}

func TestWithoutALateAnswerThereIsNoLimit(t *testing.T) {
	var w Window
	enter(&w, 5000)
	w.Leave(Answered, true)
	w.Leave(Neither, true)
	assert.True(t, !w.Full() && !w.Limited(), "there is a limit")
}

func TestLateAnswersHalveTheLimitAndAnswersRaiseIt(t *testing.T) {
	var w Window
	enter(&w, 100)
	w.Leave(Late, false)
	assert.True(t, w.Full() && w.limit == 50, "the limit of 99 that are under way is %d", w.limit)
	for range 49 {
		w.Leave(Neither, false)
	}
	assert.True(t, w.Full() && more(w) == 0, "what was given up early changes the limit")
	for i := range 50 {
		w.Leave(Answered, false)
		assert.Equal(t, w.limit, 51+i, "limit after %d answers", i+1)
	}
	assert.True(t, w.Idle() && more(w) == 100, "after 50 answers it lets %d through", more(w))
}

func TestASilentServerHasTwoRequestsUnderWay(t *testing.T) {
	var w Window
	enter(&w, 1000)
	for !w.Idle() {
		w.Leave(Late, true)
	}
	assert.Equal(t, more(w), 2, "requests under way")
}

// A request that may not wait is sent though the window is full.
func TestALateAnswerNeverRaisesTheLimit(t *testing.T) {
	w := Window{limit: 4}
	enter(&w, 300)
	w.Leave(Late, true)
	assert.Equal(t, w.limit, 4, "the limit")
}

func TestTheLimitEndsWhenNoCrowdWaitsForThat(t *testing.T) {
	w := Window{limit: most}
	enter(&w, 2)
	w.Leave(Answered, true)
	assert.Equal(t, more(w), most-1, "more requests while a crowd waits")
	w.Leave(Answered, false)
	assert.False(t, w.Limited(), "the limit remains")
}
