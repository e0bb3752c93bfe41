package check_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/verify/history"
)

// An attempt that joined the queue while the account was silent may have waited there for
// long, before the waiters whose positions are known. Otherwise it has overtaken them.
func TestAPlaceThatWasTakenUnsaid(t *testing.T) {
	for _, silent := range []bool{true, false} {
		for action, caller := range map[string]string{"release": "c1/1", "poll": "c2/1"} { // or it asks for itself
			s := newStory(history.FaultSpan{Name: "no-perm", From: at(20), Till: at(30), Blind: silent}).
				note(1, "acquire", "l", "c1/1", held(1, "c1/1"))
			s.record["p:{l}"] = queued(held(1, "c1/1"), 1, 1, 1, "c2/1") // c2/1 joins at 25, and that is not said
			s.note(300, "acquire", "l", "c3/1", queued(held(1, "c1/1"), 2, 1, 2, "c3/1")).
				note(600, action, "l", caller, heard(queued(held(600, "c2/1"), 1, 2, 2, "c3/1"), 2, "c3/1"))
			if r := s.results()["order"]; r.Passed() != silent || (r.Excused == 1) != silent {
				t.Errorf("%s, the account was silent: %v: %+v", action, silent, r)
			}
		}
	}
}

// While the server may not publish it can tell nobody of a grant: the lock is for whoever
// asks. Before and after that a newcomer overtakes the waiters.
func TestAGrantThatNobodyCanBeToldOf(t *testing.T) {
	for name, c := range map[string]struct {
		what       string
		from, till float64
		excused    bool
	}{
		"the server may not publish":          {"publish", 1, 10, true},
		"a node may not publish in its shard": {"spublish, 98 refused on 1", 1, 10, true},
		"it may publish, and not write":       {"hset", 1, 10, false},
		"it may publish again":                {"publish", -900, -500, false},
		"it may publish still":                {"publish", 500, 900, false},
	} {
		s := twoWait().note(4, "acquire", "l", "c1/2", heard(queued(held(4, "c1/2"), 2, 1, 2, "c3/1"), 1, "c2/1"))
		s.add(history.Event{Kind: history.Fault, Fault: &history.FaultSpan{
			Name: "no-perm", Text: c.what, From: at(c.from), Till: at(c.till),
		}})
		r := s.results()["order"]
		assert.True(t, r.Passed() == c.excused && (r.Excused == 1) == c.excused, "%s: %+v", name, r)
	}
}
