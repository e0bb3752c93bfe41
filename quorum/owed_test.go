package quorum

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// owes is a cancel that the attempt is owed so many times.
func owes(id string, times int) pendingCancel { return pendingCancel{args: []string{id}, times: times} }

// ids are the identities of cancels.
func ids(list []pendingCancel) []string {
	var got []string
	for _, p := range list {
		got = append(got, p.args[0])
	}
	return got
}

// Those that are added while others are sent come after what remains of those.
func TestWhatRemainsOfOwedCancelsComesFirst(t *testing.T) {
	var o owed
	assert.True(t, o.add(owes("c/1.1", 1)), "the first one begins to send")
	assert.False(t, o.add(owes("c/1.2", 1)), "the second one begins, too")
	due := o.take()
	assert.EqualSlices(t, ids(due), []string{"c/1.1", "c/1.2"}, "taken")
	assert.False(t, o.add(owes("c/1.3", 1)), "one that is added meanwhile begins, too")
	assert.False(t, o.putBack(due[1:]), "nothing is left")
	assert.EqualSlices(t, ids(o.take()), []string{"c/1.2", "c/1.3"}, "taken afterwards")
	assert.True(t, o.putBack(nil), "something is left")
	assert.True(t, o.add(owes("c/1.4", 1)), "the next one does not begin to send")
}

// A cancel is over when it has ended something for each request.
func TestACancelIsOverWhenItHasEndedEachRequest(t *testing.T) {
	for _, test := range []struct {
		times int
		said  string
		left  int
		over  bool
	}{{1, "released", 0, true}, {1, "none", 1, false}, {2, "withdrawn", 1, false}, {2, "none", 2, false}} {
		left, over := owes("c/1.1", test.times).heard(test.said)
		assert.True(t, left.times == test.left && over == test.over, "%+v: %d, %v", test, left.times, over)
	}
}

// What is remembered for a server that answers nothing is bounded. The oldest is forgotten first.
func TestTheOldestCancelsAreForgottenFirst(t *testing.T) {
	var o owed
	for i := range maxPendingCancels + 1 {
		o.add(owes(fmt.Sprint("c/1.", i), 1))
	}
	o.remember(owes("c/1.10000", 2)) // it is known already
	assert.Equal(t, len(o.cancels), maxPendingCancels, "pending cancels")
	assert.Equal(t, o.cancels[0].args[0], "c/1.1", "the oldest")
	assert.Equal(t, len(o.late), maxLateCancels, "remembered for late pushes")
	first := fmt.Sprint("c/1.", maxPendingCancels+1-maxLateCancels)
	assert.Equal(t, o.order[0], first, "the oldest")
	_, known := o.late[first]
	assert.True(t, known, "it is forgotten")
	assert.Equal(t, o.late["c/1.10000"].times, 2, "of one that is added again, times")
}
