package line

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// given reports whether the seat has come to p.
func given(p *Place[string]) bool {
	select {
	case <-p.Given:
		return true
	default:
		return false
	}
}

func TestTheSeatIsGivenInOrderOfArrival(t *testing.T) {
	var l Line[string]
	if !l.Idle() || !l.Take() || l.Take() {
		t.Fatal("a free seat is taken once")
	}
	a, b, c := l.Join(), l.Join(), l.Join()
	for i, p := range []*Place[string]{a, b, c} {
		if l.Waiting() != 3-i || given(p) {
			t.Fatalf("before turn %d: %d wait, given: %v", i, l.Waiting(), given(p))
		}
		if !l.Give(string(rune('a'+i))) || !given(p) || p.Hold != string(rune('a'+i)) {
			t.Fatalf("turn %d: given %v, with %q", i, given(p), p.Hold)
		}
	}
	if l.Idle() || l.Take() {
		t.Error("the last one has the seat, and it is free")
	}
	if l.Give("") || !l.Idle() || !l.Take() {
		t.Error("with nobody waiting the seat is free")
	}
}

func TestWhoLeavesIsPassedOver(t *testing.T) {
	for leaver := range 3 {
		var l Line[string]
		l.Take()
		places := []*Place[string]{l.Join(), l.Join(), l.Join()}
		if !l.Leave(places[leaver]) || l.Waiting() != 2 {
			t.Fatalf("place %d: %d wait", leaver, l.Waiting())
		}
		for i, p := range slices.Delete(slices.Clone(places), leaver, leaver+1) {
			if !l.Give("") || !given(p) {
				t.Errorf("place %d has left, turn %d was not given", leaver, i)
			}
		}
		if l.Give("") || given(places[leaver]) {
			t.Errorf("place %d was given though it has left", leaver)
		}
	}
}

func TestWhoLeavesTooLateHasTheSeatAndMustPassItOn(t *testing.T) {
	var l Line[string]
	l.Take()
	a, b := l.Join(), l.Join()
	l.Give("hold")
	if l.Leave(a) {
		t.Fatal("the seat was given already")
	}
	if !l.Give(a.Hold) || b.Hold != "hold" {
		t.Error("the hold did not arrive at the next one")
	}
}

// Against a slice as the model: whatever order of calls, the same one is next.
func TestALineIsAQueueWithHoles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var l Line[int]
	var model []*Place[int]
	taken := false
	for i := range 20_000 {
		switch rng.IntN(4) {
		case 0:
			if l.Take() == taken {
				t.Fatalf("step %d: taken %v", i, taken)
			}
			taken = true
		case 1:
			model = append(model, l.Join())
		case 2:
			if len(model) > 0 {
				at := rng.IntN(len(model))
				if !l.Leave(model[at]) {
					t.Fatalf("step %d: a waiter could not leave", i)
				}
				model = slices.Delete(model, at, at+1)
			}
		case 3:
			if !taken {
				continue
			}
			if taken = l.Give(i); taken != (len(model) > 0) {
				t.Fatalf("step %d: given %v to %d waiters", i, taken, len(model))
			}
			if taken {
				if model[0].Hold != i || l.Leave(model[0]) {
					t.Fatalf("step %d: the seat went to somebody else", i)
				}
				model = model[1:]
			}
		}
		if l.Waiting() != len(model) || l.Idle() != (!taken && len(model) == 0) {
			t.Fatalf("step %d: %d wait of %d", i, l.Waiting(), len(model))
		}
	}
}

func TestPassingIsBoundedByCountAndTime(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		passes    int
		since     time.Duration
		elsewhere int
		limit     int
		want      bool
	}{
		{0, 0, 0, 1023, true},
		{1022, 9 * ms, 0, 1023, true},
		{1023, 0, 0, 1023, false}, // a token has no room for more
		{1023, 0, 0, 5000, false},
		{0, 10 * ms, 0, 1023, false}, // somebody may wait elsewhere by now
		{31, ms, 1, 1023, true},
		{32, ms, 1, 1023, false},
		{0, 2 * ms, 1, 1023, false},
		{0, 2 * ms, 0, 1023, true},
		{2, 0, 0, 3, true},
		{3, 0, 0, 3, false},
		{3, 0, 9, 3, false},
		{0, 0, 0, -1, false},
		{0, 0, 0, 0, false},
	} {
		if got := MayPass(c.passes, c.since, c.elsewhere, c.limit); got != c.want {
			t.Errorf("MayPass(%d, %v, %d, %d) = %v", c.passes, c.since, c.elsewhere, c.limit, got)
		}
	}
}
