package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/suite"
)

// total is the rounds of one topology in sum, or of all.
type total struct {
	rounds, acquisitions, faults, paired, triples, losses, violations, explained int

	elapsed time.Duration
	kinds   map[string]int
	refused map[string]int
	pairs   map[string]int
	drawn   []string // the kinds of faults that were drawn from
}

func sum(record []Entry, topology string) *total {
	t := &total{kinds: make(map[string]int), refused: make(map[string]int), pairs: make(map[string]int)}
	for _, e := range record {
		if topology != "" && e.Topology != topology {
			continue
		}
		t.rounds++
		t.elapsed += e.Elapsed
		t.acquisitions += suite.Sum(e.Acquisitions)
		t.faults += suite.Sum(e.Faults)
		t.paired += e.Paired
		t.triples += e.Triples
		t.losses += e.Losses
		switch {
		case len(e.Violations) > 0 && e.Explained == "":
			t.violations++
		case len(e.Violations) > 0:
			t.explained++
		}
		for into, from := range map[*map[string]int]map[string]int{
			&t.kinds: e.Faults, &t.refused: e.Refused, &t.pairs: e.Pairs,
		} {
			for name, n := range from {
				(*into)[name] += n
			}
		}
		for _, name := range e.Possible {
			if !slices.Contains(t.drawn, name) {
				t.drawn = append(t.drawn, name)
			}
		}
	}
	// In the order in which they are listed everywhere.
	order := make(map[string]int)
	for i, f := range fault.All() {
		order[f.Name] = i + 1
	}
	t.drawn = slices.DeleteFunc(t.drawn, func(name string) bool { return order[name] == 0 })
	slices.SortFunc(t.drawn, func(a, b string) int { return order[a] - order[b] })
	return t
}

func (t *total) row(name string) string {
	minutes := t.elapsed.Minutes()
	perSecond, perMinute := 0.0, 0.0
	if minutes > 0 {
		perSecond, perMinute = float64(t.acquisitions)/t.elapsed.Seconds(), float64(t.faults)/minutes
	}
	possible, met := suite.Possible(t.drawn), 0
	for _, pair := range possible {
		if t.pairs[pair] > 0 {
			met++
		}
	}
	cells := fmt.Sprintf("%d of %d", met, len(possible))
	if name == "in all" {
		cells = ""
	}
	return fmt.Sprintf("| %s | %d, %.0f | %d | %.0f | %d | %.0f | %d | %d | %s | %d | %d |\n",
		name, t.rounds, minutes, t.acquisitions, perSecond, t.faults, perMinute, t.paired, t.triples,
		cells, t.violations, t.explained)
}

// Summary is a record as a page in Markdown.
func Summary(record []Entry) string {
	var b strings.Builder
	b.WriteString("# The record\n\nWritten by `holdfast verify --summary`, of rounds that were added one by one.\n\n" +
		"| topology | rounds, minutes | acquisitions | a second | faults | a minute" +
		" | at one time with another | threes | possible pairs that were there" +
		" | rounds with violations | explained |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, topology := range fault.Topologies() {
		if t := sum(record, topology); t.rounds > 0 {
			b.WriteString(t.row(topology))
		}
	}
	all := sum(record, "")
	b.WriteString(all.row("in all"))
	fmt.Fprintf(&b, "\nFaults by kind: %s.\n", list(counts(all.kinds, nil)))
	fmt.Fprintf(&b, "\nRequests that servers refused, by fault: %s.\n", list(counts(all.refused, nil)))
	for _, e := range record {
		if len(e.Violations) > 0 {
			fmt.Fprintf(&b, "\n- %s, %s, seed %d: %s. **%s**\n", e.At.Format(time.DateOnly), e.Topology, e.Seed,
				strings.Join(e.Violations, "; "), orOpen(e.Explained))
		}
	}
	b.WriteString("\n## Pairs\n\nHow often two faults were about at one time. The columns are the rows' numbers. " +
		"A dot: never yet. A letter: it cannot be, see below the table.\n")
	for _, topology := range fault.Topologies() {
		if t := sum(record, topology); t.rounds > 0 {
			fmt.Fprintf(&b, "\n### %s\n\n%s", topology, Matrix(t.drawn, t.pairs))
		}
	}
	return b.String()
}

func orOpen(explained string) string {
	if explained == "" {
		return "open"
	}
	return explained
}

// Matrix is a table of the pairs of some faults, in Markdown.
func Matrix(faults []string, pairs map[string]int) string {
	rows, letters := grid(faults, pairs)
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String() + "\n" + letters + "\n"
}

// grid is that table, and what its letters mean.
func grid(faults []string, pairs map[string]int) (rows [][]string, letters string) {
	never := suite.Impossible(faults)
	var reasons []string
	head := []string{""}
	for i := range faults {
		head = append(head, fmt.Sprint(i+1))
	}
	rows = append(rows, head)
	for i, a := range faults {
		row := []string{fmt.Sprintf("%d %s", i+1, a)}
		for _, b := range faults[:i+1] {
			pair := min(a, b) + "+" + max(a, b)
			cell := fmt.Sprint(pairs[pair])
			if why := never[pair]; why != "" {
				at := slices.Index(reasons, why)
				if at < 0 {
					at, reasons = len(reasons), append(reasons, why)
				}
				cell = string(rune('a' + at))
			} else if pairs[pair] == 0 {
				cell = "·"
			}
			row = append(row, cell)
		}
		rows = append(rows, append(row, make([]string, len(faults)-i-1)...))
	}
	for i, why := range reasons {
		letters += fmt.Sprintf("(%c) %s. ", 'a'+i, why)
	}
	return rows, strings.TrimSpace(letters)
}
