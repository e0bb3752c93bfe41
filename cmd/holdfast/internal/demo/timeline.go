package demo

import (
	"fmt"
	"slices"
	"strings"
)

// glyphs are the marks of the timeline.
type glyphs struct {
	idle, holds, dead, stopped, killed, refused rune
}

var (
	unicodeGlyphs = glyphs{idle: '·', holds: '█', dead: '░', stopped: '‖', killed: '✗', refused: '!'}
	asciiGlyphs   = glyphs{idle: '.', holds: '#', dead: '~', stopped: '=', killed: 'X', refused: '!'}
)

// span is a stretch of server time in µs, its end not included.
type span struct{ From, Till int64 }

func (s span) covers(at int64) bool { return s.From <= at && at < s.Till }

// row is what the timeline shows of one worker.
type row struct {
	Name    string
	Holds   []span
	Stopped []span
	Killed  []int64
	Refused []int64
}

// maxRows keeps the timeline on one screen. The workers that are killed and
// paused are among the first.
const maxRows = 16

// timeline draws who held the lock from one server time to another, a row for
// each worker. A column is one look at the server, in the middle of its time
// slice: holds are much shorter than a slice, so a column that showed
// everything in it would show every worker, and hide what matters, that at one
// instant there is one holder. Marks of events stand in whichever column they
// fall.
func timeline(rows []row, from, till int64, width int, g glyphs) string {
	hidden := 0
	if len(rows) > maxRows {
		rows, hidden = rows[:maxRows], len(rows)-maxRows
	}
	label := 0
	for _, r := range rows {
		label = max(label, len(r.Name))
	}
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "  %-*s  ", label, r.Name)
		for col := range width {
			first, next := slice(from, till, width, col), slice(from, till, width, col+1)
			b.WriteRune(r.cell(span{first, next}, g))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "  %-*s  %s\n", label, "", axis(till-from, width))
	if hidden > 0 {
		fmt.Fprintf(&b, "  (%d more workers not shown)\n", hidden)
	}
	return b.String()
}

// slice answers where a column begins.
func slice(from, till int64, width, col int) int64 {
	return from + (till-from)*int64(col)/int64(width)
}

func (r row) cell(column span, g glyphs) rune {
	if slices.ContainsFunc(r.Killed, column.covers) {
		return g.killed
	}
	if slices.ContainsFunc(r.Refused, column.covers) {
		return g.refused
	}
	middle := (column.From + column.Till) / 2
	for _, s := range r.Stopped {
		if s.covers(middle) {
			return g.stopped
		}
	}
	for _, s := range r.Holds {
		if !s.covers(middle) {
			continue
		}
		// A hold that began before a kill is not the living worker's.
		for _, at := range r.Killed {
			if s.From < at && at <= middle {
				return g.dead
			}
		}
		return g.holds
	}
	return g.idle
}

// axis writes the seconds under the columns where they begin, as far apart as
// they need to be to stay readable.
func axis(length int64, width int) string {
	const gap = 8 // columns between two figures, at least
	step := int64(1_000_000)
	for _, s := range []int64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600} {
		step = s * 1_000_000
		if step*int64(width) >= gap*length {
			break
		}
	}
	line := make([]byte, 0, width+8)
	for at := int64(0); at < length; at += step {
		col := int(at * int64(width) / length)
		figure := fmt.Sprintf("%ds", at/1_000_000)
		if col+len(figure) > width {
			break
		}
		for len(line) < col {
			line = append(line, ' ')
		}
		line = append(line, figure...)
	}
	return string(line)
}
