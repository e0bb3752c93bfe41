package main

import (
	"fmt"
	"io"

	"github.com/holdfast-go/holdfast/verify/suite"
)

// progress shows the progress of a run: at a terminal in one line that it
// updates, else in a line per round, or per step if there is one round only.
type progress struct {
	w    io.Writer
	live bool
	last string
}

func (s *progress) show(p suite.Progress) {
	round, broken, pairs := "", "", ""
	if p.Rounds > 1 {
		round = fmt.Sprintf("round %d of %d, ", p.Round, p.Rounds)
	}
	if p.Missing >= 0 {
		pairs = fmt.Sprintf(", %d pairs missing", p.Missing)
	}
	if p.Violations > 0 {
		broken = fmt.Sprintf(", %d BROKEN PROMISES", p.Violations)
	}
	if p.Failed > 0 {
		broken += fmt.Sprintf(", %d rounds FAILED", p.Failed)
	}
	sum := fmt.Sprintf("%d acquisitions, %d faults", p.Acquisitions, p.Faults)
	switch line := round + p.Step; {
	case s.live:
		_, _ = fmt.Fprintf(s.w, "\r\x1b[K%s: %v, %v left, %s%s %s%s",
			line, p.Elapsed, p.Left, sum, pairs, p.Last, broken)
	case p.Rounds > 1 && round != s.last:
		_, _ = fmt.Fprintf(s.w, "%safter %v, %v left: %s, %d of them in pairs%s%s\n",
			round, p.Elapsed, p.Left, sum, p.Paired, pairs, broken)
		s.last = round
	case p.Rounds <= 1 && line+broken != s.last:
		_, _ = fmt.Fprintln(s.w, line+broken)
		s.last = line + broken
	}
}

func (s *progress) clear() {
	if s.live {
		_, _ = fmt.Fprint(s.w, "\r\x1b[K")
	}
}
