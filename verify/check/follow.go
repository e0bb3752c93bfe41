package check

import "slices"

// reading is what a server's clock said, in ns of the events' clock if it had never been
// moved, and when that was heard of.
type reading struct{ at, heard int64 }

// guess is one of the times that a reading may have been made: after a step of the clock,
// or before the first.
type guess struct {
	step  int // -1 before the first
	was   int64
	back  int64 // by how much time would have gone back on the best way here, in sum
	late  int64 // how late it would all have been heard, in sum
	after int   // the guess before it on that way
}

// follow says what the clock was ahead of the truth at each of the readings of one server,
// which are in its order. Behind a clock that was set back each time comes twice, and one
// reading does not say which it was. All of them do: in the truth time does not go back
// from one reading to the next. Only where that leaves a choice, the times count that are
// nearest to the hearing: on a busy machine something is heard a while after it was.
func (c clock) follow(all []reading) []int64 {
	ahead := make([]int64, len(all))
	var open [][]guess // those of the readings that are not decided yet
	var last []guess
	for i, reading := range all {
		now := c.guesses(reading)
		for g := range now {
			now[g].from(last, reading)
		}
		open, last = append(open, now), now
		if len(now) > 1 && i+1 < len(all) {
			continue
		}
		best := 0
		for g := range now {
			if now[g].better(now[best].back, now[best].late) {
				best = g
			}
		}
		for j, guesses := range slices.Backward(open) {
			g := guesses[best]
			ahead[i-(len(open)-1-j)] = c.at(g.step)
			best = g.after
		}
		// From here on there is one way: what it has cost is behind.
		last = []guess{{step: now[0].step, was: now[0].was}}
		open = open[:0]
	}
	return ahead
}

// from finds the best way to a guess.
func (g *guess) from(last []guess, r reading) {
	back, late, found := int64(0), int64(0), len(last) == 0
	for i, l := range last {
		b, n := l.back+max(l.was-g.was, 0), l.late
		if l.step > g.step {
			b += int64(1) << 40 // a step is not undone
		}
		if !found || b < back || b == back && n < late {
			back, late, g.after, found = b, n, i, true
		}
	}
	g.back, g.late = back, late+distance(g.was, r.heard)
}

func (g *guess) better(back, late int64) bool {
	return g.back < back || g.back == back && g.late < late
}

// guesses lists the times that a reading may have been made; at least one.
func (c clock) guesses(r reading) []guess {
	var list []guess
	for step := -1; step < len(c); step++ {
		was := r.at - c.at(step)
		begun := step < 0 || was >= c[step].At-around
		over := step+1 < len(c) && was > c[step+1].At+around
		if begun && !over && was <= r.heard+around {
			list = append(list, guess{step: step, was: was})
		}
	}
	if list != nil {
		return list
	}
	ahead := c.ahead(r.at, r.heard)
	step := -1
	for i, s := range c {
		if s.Ahead == ahead && s.At <= r.heard {
			step = i
		}
	}
	return []guess{{step: step, was: r.at - c.at(step)}}
}

// at is what the clock is ahead of the truth after a step.
func (c clock) at(step int) int64 {
	if step < 0 {
		return 0
	}
	return c[step].Ahead
}
