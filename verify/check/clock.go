package check

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/audit"
	"github.com/holdfast-go/holdfast/verify/history"
	"github.com/holdfast-go/holdfast/verify/workload"
)

// clock is how a server's clock was moved, or those of all servers: steps in their
// order.
type clock []history.Step

// of is the clock of one server; of all if it is not known which, as where there is one.
func (c clock) of(server string) clock {
	if server == "" || !slices.ContainsFunc(c, func(s history.Step) bool { return s.Server != server }) {
		return c
	}
	return slices.DeleteFunc(slices.Clone(c), func(s history.Step) bool { return s.Server != server })
}

// extremes says what the clock that is furthest behind was ahead of the truth at an
// instant, and most what any had been until then.
func (c clock) extremes(at int64) (least, most int64) {
	now := make(map[string]int64)
	for _, s := range c {
		if s.At <= at {
			now[s.Server], most = s.Ahead, max(most, s.Ahead)
		}
	}
	for _, ahead := range now {
		least = min(least, ahead)
	}
	if len(now) == 1 { // there is no other that could have stood still
		for _, ahead := range now {
			least = ahead
		}
	}
	return least, most
}

func clockOf(faults []history.FaultSpan) clock {
	var c clock
	for _, f := range faults {
		c = append(c, f.Steps...)
	}
	slices.SortFunc(c, func(a, b history.Step) int { return cmp.Compare(a.At, b.At) })
	return c
}

// around is how far from a step what was done in the same moment may be said to
// be: a server's idea of the time is as old as the command that it is at.
const around = int64(20_000_000)

// ahead says what the clock was ahead of the truth when it said at, which was
// heard of no earlier than it happened. Of the times that this could have
// been, the one counts that is nearest to the hearing.
func (c clock) ahead(at, heard int64) (ahead int64) {
	best := distance(at, heard)
	if len(c) > 0 && at > c[0].At+around {
		best = 1<<63 - 1
	}
	for i, s := range c {
		was := at - s.Ahead
		over := i+1 < len(c) && was > c[i+1].At+around
		if was >= s.At-around && !over && distance(was, heard) < best {
			best, ahead = distance(was, heard), s.Ahead
		}
	}
	return ahead
}

// setForward reports whether a server's clock was set forward between two instants, over
// the ends of records that nobody holds: they are forgotten as if the server had been killed.
func (c clock) setForward(from, till int64) bool {
	ahead := make(map[string]int64)
	for _, s := range c {
		if s.Ahead-ahead[s.Server] > int64(workload.Retention) && from <= s.At && s.At <= till {
			return true
		}
		ahead[s.Server] = s.Ahead
	}
	return false
}

// spread is how far the clocks of the servers went, or were apart, between two instants. No lease of that time has
// ended earlier than by so much. others says that there are servers whose clocks nobody has moved.
func (c clock) spread(from, till int64, others bool) time.Duration {
	ahead := make(map[string]int64)
	for _, s := range c {
		if s.At <= from {
			ahead[s.Server] = s.Ahead
		}
	}
	all := slices.Collect(maps.Values(ahead))
	for _, s := range c {
		if s.At > from && s.At <= till {
			all = append(all, ahead[s.Server], s.Ahead)
		}
	}
	if others || len(all) == 0 {
		all = append(all, 0)
	}
	return time.Duration(slices.Max(all) - slices.Min(all))
}

// readings are what the server's clock may have said to the script that a note is of. The
// script reads the clock once, and the note once more: the clock may have been set in between.
func (r *Run) readings(n audit.Note) []int64 {
	list, ahead := []int64{n.Clock()}, int64(0)
	for _, s := range r.clock.of(n.Server) {
		if at := r.machine(n.At); s.At-around <= at && at <= s.At+unsaid {
			list = append(list, n.At+ahead/1000)
		}
		ahead = s.Ahead
	}
	return list
}

// setBack reports whether a server's clock was behind at an instant what it, or one that
// served before it, had once been.
func (r *Run) setBack(at int64) bool {
	if len(r.clock) == 0 || at < r.clock[0].At-around {
		return false
	}
	least, _ := r.clock.extremes(at)
	before, _ := r.clock.extremes(at - around)
	after, most := r.clock.extremes(at + around)
	return min(least, before, after) < most
}

// till is when a lease is over that a note says is due, by a clock that is never
// moved. What a step leaves out is over with the step; what it repeats lasts.
func (r *Run) till(due int64, n audit.Note) int64 {
	till, ahead := due-n.Ahead, int64(0)
	for _, s := range r.clock.of(n.Server) {
		switch step := (s.At + r.Setup.Skew) / 1000; {
		case step > n.At && step < till:
			till = max(due-s.Ahead/1000, step)
		case step <= n.At && n.At-step <= unsaid/1000: // due may be by the time before, see readings
			till = max(till, min(due-ahead/1000, step))
		}
		ahead = s.Ahead
	}
	return till
}

// behind reports whether a hold's token had run ahead of the clock of the server
// that granted the next, when that grant was asked for. Of a quorum: ahead of every
// right clock, which it may be if servers whose clocks are ahead were needed for a
// majority, and a server has lost its memory since.
func (r *Run) behind(h, next *Hold, asked int64) bool {
	us := int64(h.Token / 1024)
	if r.mute() {
		forgot := func(f history.FaultSpan) bool { return f.Blind && f.From < next.At && h.Asked < f.Till }
		return us >= (asked+r.Setup.Skew)/1000 &&
			(slices.ContainsFunc(r.Faults, forgot) || r.clock.setForward(h.Asked, next.At))
	}
	least, _ := r.clock.extremes(asked)
	back := r.setBack(asked) || r.setBack(next.At)
	for _, s := range r.clock { // it may have been behind only in between
		if s.At > asked && s.At <= next.At {
			least, back = min(least, s.Ahead), back || r.setBack(s.At)
		}
	}
	now := asked + r.Setup.Skew + least
	return back && us >= now/1000
}

func distance(a, b int64) int64 { return max(a-b, b-a) }
