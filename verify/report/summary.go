package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/suite"
)

// total is the rounds of one topology in sum, or of all.
type total struct {
	rounds, acquisitions, faults, paired, triples, losses, violations, explained, failed int

	elapsed time.Duration
	kinds   map[string]int
	refused map[string]int
	pairs   map[string]int
	drawn   []string // the kinds of faults that were drawn from

	recoveries []int64 // ms, in order
	examined   map[string]int
	excused    map[string]int
}

// sum adds up the rounds that are wanted.
func sum(record []Entry, wanted func(Entry) bool) *total {
	t := &total{
		kinds: make(map[string]int), refused: make(map[string]int), pairs: make(map[string]int),
		examined: make(map[string]int), excused: make(map[string]int),
	}
	for _, e := range record {
		if !wanted(e) {
			continue
		}
		if e.Error != "" {
			t.failed++
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
			&t.examined: e.Examined, &t.excused: e.Excused,
		} {
			for name, n := range from {
				(*into)[name] += n
			}
		}
		t.recoveries = append(t.recoveries, e.Recoveries...)
		for _, name := range e.Possible {
			if !slices.Contains(t.drawn, name) {
				t.drawn = append(t.drawn, name)
			}
		}
	}
	slices.Sort(t.recoveries)
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

// of wants the rounds of a topology.
func of(topology string) func(Entry) bool {
	return func(e Entry) bool { return e.Topology == topology }
}

func every(Entry) bool { return true }

// Summary is a record as a page in Markdown.
func Summary(record []Entry) string {
	var b strings.Builder
	b.WriteString("# The record\n\n`holdfast verify --summary` prints this page from the recorded rounds. " +
		"verify/README.md says what a round is.\n\n" +
		"`make verify RECORD=bin/rounds.jsonl DURATION=60m` adds rounds. To repeat one round, run " +
		"`holdfast verify --topology NAME --seed SEED` with the flags of `scripts/verify.sh`. " +
		"Minutes are the sum over all rounds; the topologies run at the same time.\n\n" +
		"| topology | rounds, minutes | acquisitions | a second | faults | a minute" +
		" | with another fault | with two others | possible pairs that occurred" +
		" | rounds with violations | explained |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, topology := range fault.Topologies() {
		if t := sum(record, of(topology)); t.rounds > 0 {
			b.WriteString(t.row(topology))
		}
	}
	all := sum(record, every)
	b.WriteString(all.row("in all"))
	b.WriteString(tally("fault", "times", all.kinds) + tally("fault", "requests that servers refused", all.refused))
	if all.failed > 0 {
		fmt.Fprintf(&b, "\nRounds that did not end, which count for nothing: %d.\n", all.failed)
	}
	for _, e := range record {
		if len(e.Violations) > 0 {
			fmt.Fprintf(&b, "\n- %s, %s, seed %d. **%s**\n  - %s.\n", e.At.Format(time.DateOnly), e.Topology, e.Seed,
				orOpen(e.Explained), strings.Join(e.Violations, ".\n  - "))
		}
	}
	b.WriteString(servers(record) + recoveries(record) + all.checks())
	b.WriteString("\n## Pairs\n\nHow often two faults were active at the same time. A column has the number of its " +
		"row. A dot: never yet. A letter: the pair is impossible, and the reason is below the table.\n")
	for _, topology := range fault.Topologies() {
		if t := sum(record, of(topology)); t.rounds > 0 {
			fmt.Fprintf(&b, "\n### %s\n\n%s", topology, Matrix(t.drawn, t.pairs))
		}
	}
	return b.String()
}

// tally is a table of how often things happened, the most frequent first.
func tally(what, times string, by map[string]int) string {
	if len(by) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n| %s | %s |\n|---|---|\n", what, times)
	for _, c := range counts(by, nil) {
		fmt.Fprintf(&b, "| %s | %d |\n", c.Name, c.N)
	}
	return b.String()
}

// servers is what each version of a server, and of the library, was tried with.
func servers(record []Entry) string {
	type kind struct{ server, version string }
	kindOf := func(e Entry) kind {
		_, server, _ := strings.Cut(e.Server, ", ") // behind the topology
		return kind{server, e.Version}
	}
	var kinds []kind
	for _, e := range record {
		if k := kindOf(e); e.Error == "" && !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	var text strings.Builder
	text.WriteString("\n## Servers\n\n" +
		"| server | library | rounds | acquisitions | faults | rounds with violations |\n" +
		"|---|---|---|---|---|---|\n")
	for _, k := range kinds {
		t := sum(record, func(e Entry) bool { return kindOf(e) == k })
		fmt.Fprintf(&text, "| %s | %s | %d | %d | %d | %d |\n",
			k.server, k.version, t.rounds, t.acquisitions, t.faults, t.violations+t.explained)
	}
	return text.String()
}

// recoveries is how long locks stood still after faults.
func recoveries(record []Entry) string {
	var text strings.Builder
	text.WriteString("\n## Recovery\n\nThe time from the end of a fault until each contended lock was granted again. " +
		"It leaves out faults that another fault followed before that.\n\n" +
		"| topology | faults | p50 | p99 | longest |\n|---|---|---|---|---|\n")
	for _, topology := range fault.Topologies() {
		took := sum(record, of(topology)).recoveries
		if len(took) == 0 {
			continue
		}
		at := func(percent int) int64 { return took[max((len(took)*percent+99)/100, 1)-1] } // nearest rank
		fmt.Fprintf(&text, "| %s | %d | %d ms | %d ms | %d ms |\n", topology, len(took), at(50), at(99), at(100))
	}
	return text.String()
}

// checks is what was checked.
func (t *total) checks() string {
	var text strings.Builder
	text.WriteString("\n## Checks\n\nExcused are findings that the library does not promise to avoid under the " +
		"active fault: see verify/README.md.\n\n| check | examined | excused |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(t.examined)) {
		fmt.Fprintf(&text, "| %s | %d | %d |\n", name, t.examined[name], t.excused[name])
	}
	return text.String()
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
