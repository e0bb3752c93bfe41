package demo

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestOverlapsAreGrantsBeforeAnEarlierHoldIsOver(t *testing.T) {
	for _, c := range []struct {
		name   string
		grants []grant
		want   int
	}{
		{"one after the other", []grant{{From: 1, Till: 5}, {From: 5, Till: 9}}, 0},
		{"one beside the other", []grant{{From: 1, Till: 5}, {From: 4, Till: 9}}, 1},
		{"two at once, twice", []grant{{From: 1, Till: 9}, {From: 2, Till: 3}, {From: 4, Till: 5}}, 2},
	} {
		assert.Equal(t, overlaps(c.grants), c.want, "%s", c.name)
	}
}

func TestHandoversCountOnlyThoseOfAReleaseBetweenProcesses(t *testing.T) {
	// Grants 1 to 7 in the server's order; the third holder dies.
	var grants []grant
	for i := range 7 {
		grants = append(grants, grant{Token: uint64(i + 1), By: "release", Released: i != 2})
	}
	grants[6].By = "poll"
	of := func(proc int, token uint64, asked, got, released int64, confirmed bool) *hold {
		return &hold{
			event{Proc: proc, Token: token * tokensPerGrant, Asked: asked, At: got},
			&event{Asked: released, Released: confirmed},
		}
	}
	holds := []*hold{
		of(1, 1, 0, 1, 100, true),
		of(2, 2, 10, 130, 200, true), // counts: 30
		// the holder of 3 was killed and reports nothing
		of(1, 4, 110, 900, 950, true),   // its predecessor died
		of(1, 5, 940, 960, 970, true),   // same process
		of(2, 6, 975, 980, 990, true),   // nobody waited at the release
		of(1, 7, 985, 999, 1010, false), // the waiter found the lock free
		of(2, 8, 990, 1020, 1030, true),
	}
	grants = append(grants, grant{Token: 8, By: "release"}) // its predecessor had lost the lock
	assert.EqualSlices(t, handovers(grants, holds), []int64{30}, "hand-overs")
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
		assert.Equal(t, percentile(test.values, test.p), test.want,
			"percentile %d of %d values", test.p, len(test.values))
	}
}
