package demo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// record is what the server's record of the lock said about its holder at one
// moment. Without a holder, Holder is empty and Expiry is 0.
type record struct {
	Holder string // the attempt that holds, "<client>/<number>"
	Fence  uint64 // the token that was granted last
	Expiry int64  // server clock, ms: until when the holder may not be replaced
}

// change is one entry of the audit: an action that changed the record.
type change struct {
	At            int64 // server clock, µs, when the action was done
	Action        string
	Caller        string // the first argument of the action; of a release, the attempt that gives up
	Before, After record
}

// parseChange reads a line that audit.lua wrote.
func parseChange(line string) (change, error) {
	w := strings.Fields(line)
	if len(w) != 9 {
		return change{}, fmt.Errorf("audit line of %d words: %q", len(w), line)
	}
	var bad error
	number := func(word string) int64 {
		if word == "-" {
			return 0
		}
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil && bad == nil {
			bad = fmt.Errorf("audit line %q: %w", line, err)
		}
		return n
	}
	read := func(w []string) record {
		holder := w[0]
		if holder == "-" {
			holder = ""
		}
		return record{Holder: holder, Fence: uint64(number(w[1])), Expiry: number(w[2])}
	}
	c := change{
		At: number(w[0]), Action: w[1], Caller: w[2],
		Before: read(w[3:6]), After: read(w[6:9]),
	}
	return c, bad
}

// hold is one possession of the lock, by the server's own account.
type hold struct {
	Holder   string
	Fence    uint64
	From     int64 // server clock, µs: the grant
	Till     int64 // µs: the release, or the end of the lease if there was none
	Released bool
	Ended    bool // false: still held when the audit ends
}

// history is what an audit says happened.
type history struct {
	Holds []hold // in the order of their grants
	// Faults lists what the record must never do, apart from overlaps: a
	// token that did not rise, a change that no action made.
	Faults []string
}

// replay follows the record through its changes. It judges by the rules of a
// lease and trusts no script: a hold ends when its own attempt gives it up, or
// when the lease that the record last promised is over; a grant does not end
// the hold before it. So a grant that comes too early stays visible as an
// overlap.
func replay(changes []change) history {
	var h history
	var last record
	open := -1 // index of the hold that the record names now
	fault := func(c change, text string) {
		h.Faults = append(h.Faults, fmt.Sprintf("%s by %s: %s", c.Action, c.Caller, text))
	}
	for _, c := range changes {
		if c.Before != last {
			fault(c, "the record was changed by something else before")
		}
		if c.After.Fence < c.Before.Fence {
			fault(c, fmt.Sprintf("the token fell from %d to %d", c.Before.Fence, c.After.Fence))
		}
		granted := c.After.Holder != "" &&
			(c.After.Holder != c.Before.Holder || c.After.Fence != c.Before.Fence)
		if granted && c.After.Fence == c.Before.Fence {
			fault(c, fmt.Sprintf("token %d was granted twice", c.After.Fence))
		}
		if open >= 0 && (granted || c.After.Holder == "") {
			h.Holds[open].end(c)
			open = -1
		}
		if granted {
			h.Holds = append(h.Holds, hold{Holder: c.After.Holder, Fence: c.After.Fence, From: c.At})
			open = len(h.Holds) - 1
		}
		if open >= 0 {
			h.Holds[open].Till = c.After.Expiry * 1000
		}
		last = c.After
	}
	return h
}

// end closes a hold that the record names no more after c. Only the holder's
// own giving up ends it at once; otherwise it lasts for as long as promised.
func (h *hold) end(c change) {
	h.Ended = true
	own := c.Caller == h.Holder && (c.Action == "release" || c.Action == "cancel")
	if own && c.At < h.Till {
		h.Till = c.At
		h.Released = true
	}
}

// overlaps counts the holds that began while an earlier one still lasted.
func overlaps(holds []hold) int {
	sorted := slices.Clone(holds)
	slices.SortStableFunc(sorted, func(a, b hold) int { return int(a.From - b.From) })
	n := 0
	var till int64
	for _, h := range sorted {
		if h.From < till {
			n++
		}
		till = max(till, h.Till)
	}
	return n
}

// turn is what a worker tells about one of its holds that it gave back in
// order. Times are of the machine's clock, in ns (see machineClock).
type turn struct {
	Worker int    `json:"worker"`
	Token  uint64 `json:"token"`  // as the library's users see it
	Asked  int64  `json:"asked"`  // Lock was called
	Got    int64  `json:"got"`    // Lock returned
	Freed  int64  `json:"freed"`  // Release was called
	Pushed bool   `json:"pushed"` // the grant came by push
	Lost   bool   `json:"lost"`   // the lease was over before it was given back
}

// handovers answers the latencies, in ns, of the passes from one process to
// the next that the server pushed: from the call of Release in the one to the
// return of Lock in the other. The order is the server's. A pass counts only if
// the next process was waiting before the lock was free, or the latency would
// measure how long nobody wanted the lock; and only after a release in order:
// after a kill or a pause the wait is for the lease to run out.
func handovers(holds []hold, turns []turn) []int64 {
	byFence := make(map[uint64]turn, len(turns))
	for _, t := range turns {
		byFence[t.Token/passes] = t
	}
	var latencies []int64
	for i := 1; i < len(holds); i++ {
		from, ok := byFence[holds[i-1].Fence]
		to, ok2 := byFence[holds[i].Fence]
		if !ok || !ok2 || from.Lost || !holds[i-1].Released || !to.Pushed {
			continue
		}
		if from.Worker != to.Worker && to.Asked < from.Freed && from.Freed < to.Got {
			latencies = append(latencies, to.Got-from.Freed)
		}
	}
	return latencies
}

// passes is how many tokens a process can draw from one of the server's
// (docs/protocol.md, Tokens).
const passes = 1024

// percentile answers the smallest value that at least p percent of the values
// do not exceed (nearest rank), and 0 without values.
func percentile(values []int64, p int) int64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

// lostUpdates says how many updates a counter has swallowed: written holds the
// value of every write that was answered "done", each meant to be one more than
// what was there; final is what the counter says at the end. Every update
// that took effect raised the counter by one, so what is missing is lost. A
// value between 1 and the highest that nobody claims was written by a process
// that died before it could say so, and counts as an update too.
func lostUpdates(written []int64, final int64) int64 {
	distinct := make(map[int64]bool, len(written))
	var highest int64
	for _, v := range written {
		distinct[v] = true
		highest = max(highest, v)
	}
	unclaimed := highest - int64(len(distinct))
	return int64(len(written)) + unclaimed - final
}
