package demo

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/verify/check"
	"github.com/holdfast-go/holdfast/verify/history"
)

func TestOverlapsAreGrantsBeforeAnEarlierHoldIsOver(t *testing.T) {
	for _, c := range []struct {
		name   string
		grants []check.Grant
		want   int
	}{
		{"one after the other", []check.Grant{{From: 1, Till: 5}, {From: 5, Till: 9}}, 0},
		{"one beside the other", []check.Grant{{From: 1, Till: 5}, {From: 4, Till: 9}}, 1},
		{"two at once, twice", []check.Grant{{From: 1, Till: 9}, {From: 2, Till: 3}, {From: 4, Till: 5}}, 2},
	} {
		if got := overlaps(c.grants); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestHandoversCountOnlyThoseOfAReleaseBetweenProcesses(t *testing.T) {
	// Grants 1 to 7 in the server's order; the third holder dies.
	var grants []check.Grant
	for i := range 7 {
		grants = append(grants, check.Grant{Token: uint64(i + 1), By: "release", Released: i != 2})
	}
	grants[6].By = "poll"
	hold := func(proc int, token uint64, asked, got, released int64, how string) *check.Hold {
		token *= tokensPerGrant
		return &check.Hold{
			Proc:  proc,
			Event: &history.Event{Token: token, Asked: asked, At: got},
			Over:  &history.Event{Token: token, Asked: released, How: how},
		}
	}
	holds := []*check.Hold{
		hold(1, 1, 0, 1, 100, history.Released),
		hold(2, 2, 10, 130, 200, history.Released), // counts: 30
		// the holder of 3 was killed and reports nothing
		hold(1, 4, 110, 900, 950, history.Released), // its predecessor died
		hold(1, 5, 940, 960, 970, history.Released), // same process
		hold(2, 6, 975, 980, 990, history.Released), // nobody waited at the release
		hold(1, 7, 985, 999, 1010, history.NotHeld), // the waiter found the lock free
		hold(2, 8, 990, 1020, 1030, history.Released),
	}
	grants = append(grants, check.Grant{Token: 8, By: "release"}) // its predecessor had lost the lock
	if got := handovers(grants, holds); !slices.Equal(got, []int64{30}) {
		t.Errorf("hand-overs %v, want [30]", got)
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(100 - i) // 100 … 1
	}
	for _, test := range []struct {
		values []int64
		p      int
		want   int64
	}{
		{nil, 50, 0},
		{[]int64{7}, 50, 7},
		{[]int64{7}, 99, 7},
		{[]int64{3, 1, 2}, 50, 2},
		{[]int64{4, 1, 2, 3}, 50, 2},
		{[]int64{4, 1, 2, 3}, 99, 4},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
		{hundred, 0, 1},
	} {
		if got := percentile(test.values, test.p); got != test.want {
			t.Errorf("percentile %d of %d values = %d, want %d", test.p, len(test.values), got, test.want)
		}
	}
}
