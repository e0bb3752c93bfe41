package demo

import (
	"slices"
	"strings"
	"testing"
)

// at shortens a record: holder, token, expiry in ms.
func at(holder string, fence uint64, expiry int64) record { return record{holder, fence, expiry} }

// story makes changes that join: each begins where the one before ended.
func story(changes ...change) []change {
	var last record
	for i := range changes {
		changes[i].Before = last
		last = changes[i].After
	}
	return changes
}

func TestReplayFindsHolds(t *testing.T) {
	h := replay(story(
		change{At: 1_000, Action: "acquire", Caller: "a/1", After: at("a/1", 1, 10)},
		change{At: 5_000, Action: "renew", Caller: "600000", After: at("a/1", 1, 15)},
		change{At: 6_000, Action: "release", Caller: "a/1", After: at("b/1", 2, 16)}, // handed over
		change{At: 7_000, Action: "release", Caller: "b/1", After: at("", 2, 0)},
		change{At: 8_000, Action: "acquire", Caller: "a/2", After: at("a/2", 3, 18)},
		change{At: 18_500, Action: "poll", Caller: "b/2", After: at("b/2", 4, 28)}, // a/2 had died
		change{At: 28_000, Action: "acquire", Caller: "a/3", After: at("a/3", 5, 38)},
	))
	want := []hold{
		{Holder: "a/1", Fence: 1, From: 1_000, Till: 6_000, Released: true, Ended: true},
		{Holder: "b/1", Fence: 2, From: 6_000, Till: 7_000, Released: true, Ended: true},
		{Holder: "a/2", Fence: 3, From: 8_000, Till: 18_000, Ended: true},
		{Holder: "b/2", Fence: 4, From: 18_500, Till: 28_000, Ended: true},
		{Holder: "a/3", Fence: 5, From: 28_000, Till: 38_000},
	}
	if !slices.Equal(h.Holds, want) {
		t.Errorf("holds:\n%+v\nwant\n%+v", h.Holds, want)
	}
	if len(h.Faults) > 0 {
		t.Errorf("faults in a legal history: %q", h.Faults)
	}
	if n := overlaps(h.Holds); n != 0 {
		t.Errorf("%d overlaps in a legal history", n)
	}
}

// Histories that no lock may have. The checker knows none of the scripts: it
// has to see what is wrong from the record alone.
func TestIllegalHistoriesAreFound(t *testing.T) {
	first := change{At: 1_000, Action: "acquire", Caller: "a/1", After: at("a/1", 5, 10)}
	for _, test := range []struct {
		name     string
		changes  []change
		overlaps int
		fault    string
	}{
		{"granted before the lease was over", story(first,
			change{At: 9_999, Action: "acquire", Caller: "b/1", After: at("b/1", 6, 19)}), 1, ""},
		{"granted exactly when it was over", story(first,
			change{At: 10_000, Action: "acquire", Caller: "b/1", After: at("b/1", 6, 20)}), 0, ""},
		{"handed over by a stranger's release", story(first,
			change{At: 3_000, Action: "release", Caller: "x/1", After: at("b/1", 6, 13)}), 1, ""},
		{"set free by a stranger, then granted", story(first,
			change{At: 3_000, Action: "release", Caller: "x/1", After: at("", 5, 0)},
			change{At: 4_000, Action: "acquire", Caller: "b/1", After: at("b/1", 6, 14)}), 1, ""},
		{"granted in spite of a renewal", story(first,
			change{At: 9_000, Action: "renew", Caller: "0", After: at("a/1", 5, 19)},
			change{At: 12_000, Action: "poll", Caller: "b/1", After: at("b/1", 6, 22)}), 1, ""},
		{"two at once, twice", story(first,
			change{At: 2_000, Action: "acquire", Caller: "b/1", After: at("b/1", 6, 12)},
			change{At: 3_000, Action: "acquire", Caller: "c/1", After: at("c/1", 7, 13)}), 2, ""},
		{"a token that falls", story(first,
			change{At: 2_000, Action: "release", Caller: "a/1", After: at("b/1", 4, 12)}), 0, "fell from 5 to 4"},
		{"a token granted twice", story(first,
			change{At: 2_000, Action: "release", Caller: "a/1", After: at("b/1", 5, 12)}), 0, "granted twice"},
		{"a change that no action made", []change{first,
			{At: 2_000, Action: "release", Caller: "b/1", Before: at("b/1", 5, 10), After: at("", 5, 0)}},
			0, "something else"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := replay(test.changes)
			if n := overlaps(h.Holds); n != test.overlaps {
				t.Errorf("%d overlaps, want %d in %+v", n, test.overlaps, h.Holds)
			}
			faults := strings.Join(h.Faults, "\n")
			if (faults != "") != (test.fault != "") || !strings.Contains(faults, test.fault) {
				t.Errorf("faults %q, want %q", faults, test.fault)
			}
		})
	}
}

func TestParseChange(t *testing.T) {
	got, err := parseChange("1700000000000001 poll c/2 - 41 - c/2 42 1700000000700")
	want := change{
		At: 1700000000000001, Action: "poll", Caller: "c/2",
		Before: at("", 41, 0), After: at("c/2", 42, 1700000000700),
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, line := range []string{
		"", "1 poll c/2 - 41 - c/2 42", "x poll c/2 - 41 - c/2 42 7", "1 poll c/2 - 4.1 - c/2 42 7",
	} {
		if c, err := parseChange(line); err == nil {
			t.Errorf("%q was read as %+v", line, c)
		}
	}
}

func TestHandoversCountOnlyPushedPassesBetweenProcesses(t *testing.T) {
	// Holds 1 to 7 in the server's order; the third holder dies.
	var holds []hold
	for i := range 7 {
		holds = append(holds, hold{Fence: uint64(i + 1), Released: i != 2})
	}
	token := func(fence uint64) uint64 { return fence * passes }
	turns := []turn{
		{Worker: 1, Token: token(1), Asked: 0, Got: 1, Freed: 100},
		{Worker: 2, Token: token(2), Asked: 10, Got: 130, Freed: 200, Pushed: true}, // counts: 30
		// the holder of 3 was killed and reports nothing
		{Worker: 1, Token: token(4), Asked: 110, Got: 900, Freed: 950, Pushed: true}, // its predecessor died
		{Worker: 1, Token: token(5), Asked: 940, Got: 960, Freed: 970, Pushed: true}, // same process
		{Worker: 2, Token: token(6), Asked: 975, Got: 980, Freed: 990, Pushed: true}, // nobody waited at the release
		{Worker: 1, Token: token(7), Asked: 985, Got: 999, Freed: 1010},              // found by itself
	}
	if got := handovers(holds, turns); !slices.Equal(got, []int64{30}) {
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

func TestLostUpdates(t *testing.T) {
	for _, test := range []struct {
		name    string
		written []int64
		final   int64
		want    int64
	}{
		{"nothing happened", nil, 0, 0},
		{"all there", []int64{1, 2, 3}, 3, 0},
		{"reported out of order", []int64{2, 1, 3}, 3, 0},
		{"two read the same", []int64{1, 2, 2, 3}, 3, 1},
		{"a late write threw three away", []int64{1, 2, 3, 4, 2, 3}, 3, 3},
		{"a late write at the very end", []int64{1, 2, 3, 4, 1}, 1, 4},
		{"one died after its write, before it could say so", []int64{1, 3}, 3, 0},
	} {
		if got := lostUpdates(test.written, test.final); got != test.want {
			t.Errorf("%s: %d lost, want %d", test.name, got, test.want)
		}
	}
}
