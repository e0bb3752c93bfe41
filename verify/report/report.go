// Package report says what a run of the fault suite has shown: as text for a
// terminal, as JSON for programs, and as a page for a browser that needs nothing
// from anywhere.
package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/verify/check"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/history"
	"github.com/holdfast-go/holdfast/verify/suite"
	"github.com/holdfast-go/holdfast/verify/workload"
)

// Document is a run in the form in which it is written. Its JSON form is a
// contract: fields may be added, and are never renamed, removed or given another
// type.
type Document struct {
	OK           bool           `json:"ok"`
	Server       string         `json:"server"`
	Setup        history.Setup  `json:"setup"` // of the first round
	Rounds       int            `json:"rounds"`
	Elapsed      time.Duration  `json:"elapsed_ns"`
	Acquisitions int            `json:"acquisitions"`
	Injected     int            `json:"faults_injected"`
	Violations   int            `json:"violations"`
	Checks       []check.Result `json:"checks"`  // summed up over the rounds
	Figures      []Figure       `json:"figures"` // of each round
	Works        []Count        `json:"workloads"`
	Faults       []Count        `json:"faults"`
	Pairs        []Count        `json:"fault_pairs"`            // two at one time
	Missing      []string       `json:"fault_pairs_missing"`    // two that may be at one time, and were not
	Never        []Reason       `json:"fault_pairs_impossible"` // two that may not be, and why
	Paired       int            `json:"faults_paired"`          // that were at one time with another
	Triples      int            `json:"fault_triples"`          // three at one time
	Refused      []Count        `json:"refused"`                // requests that servers refused, by fault
	Left         []Reason       `json:"faults_left_out"`        // what could not be injected here, and why
	Failures     []Count        `json:"failures"`               // acquisitions that came to nothing, by reason
	Ends         []Count        `json:"ends"`                   // of leases
	Losses       int            `json:"losses_signalled"`
	Changes      int            `json:"server_changes"` // that the server told
	Slowest      []Gap          `json:"slowest_recoveries"`
	Broken       []Broken       `json:"broken"` // rounds with violations

	last *check.Run
}

// Thin reports whether the run showed too little, and no other promise was broken. A longer one may show more.
func (d *Document) Thin() bool {
	for _, c := range d.Checks {
		if !c.Passed() && c.Name != "faults-bite" {
			return false
		}
	}
	return !d.OK
}

// Count is a number of something.
type Count struct {
	Name  string `json:"name"`
	About string `json:"about,omitempty"`
	N     int    `json:"n"`
}

// Reason says why something was not.
type Reason struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Gap is a recovery.
type Gap struct {
	check.Gap
	Round int `json:"round"`
}

// Broken is a round with violations, and how to see it again.
type Broken struct {
	Round   int    `json:"round"`
	Command string `json:"command"`
	History string `json:"history"`
	Error   string `json:"error,omitempty"` // it came to no end
}

// Figure is what a check has measured in a round.
type Figure struct {
	Round int    `json:"round"`
	Check string `json:"check"`
	Text  string `json:"text"`
}

// Make sums a run up.
func Make(out *suite.Outcome) *Document {
	d := &Document{
		OK: out.OK, Rounds: len(out.Rounds), Losses: out.Tally.Losses, Changes: out.Tally.Notes,
		Acquisitions: suite.Sum(out.Tally.Acquisitions), Injected: suite.Sum(out.Tally.Faults),
		Works:    counts(out.Tally.Acquisitions, workload.About),
		Faults:   counts(out.Tally.Faults, aboutFault),
		Pairs:    counts(out.Tally.Pairs, nil),
		Failures: counts(out.Tally.Failures, nil), Ends: counts(out.Tally.Ends, nil),
		Slowest: []Gap{}, Broken: []Broken{}, Checks: []check.Result{}, Figures: []Figure{},
		Paired: out.Tally.Paired, Triples: out.Tally.Triples, Refused: counts(out.Tally.Refused, aboutFault),
		Missing: []string{}, Never: []Reason{}, Left: []Reason{},
	}
	for i, r := range out.Rounds {
		if i == 0 {
			d.Setup, d.Server = r.Setup, r.Setup.Server
			d.Left = reasons(r.Left)
			d.pairs(out.Tally.Pairs)
		}
		d.Elapsed += r.Elapsed
		for j, c := range r.Checks {
			if j == len(d.Checks) {
				d.Checks = append(d.Checks, check.Result{Name: c.Name, Promise: c.Promise, Guarantees: c.Guarantees})
			}
			sum := &d.Checks[j]
			sum.Examined += c.Examined
			sum.Excused += c.Excused
			sum.Undecided += c.Undecided
			sum.Violations = append(sum.Violations, c.Violations...)
			if len(out.Rounds) == 1 {
				sum.Figure = c.Figure
			}
			if c.Figure != "" {
				d.Figures = append(d.Figures, Figure{i + 1, c.Name, c.Figure})
			}
			d.Violations += len(c.Violations)
		}
		for _, g := range r.Gaps {
			d.Slowest = append(d.Slowest, Gap{g, i + 1})
		}
		if !r.OK {
			d.Broken = append(d.Broken, Broken{i + 1, r.Setup.Command, r.History, r.Error})
		}
		if r.Run != nil {
			d.last = r.Run
		}
	}
	slices.SortFunc(d.Slowest, func(a, b Gap) int { return cmp.Compare(b.After, a.After) })
	d.Slowest = d.Slowest[:min(len(d.Slowest), 10)]
	return d
}

// pairs says which pairs of the run's faults were not there, and which cannot be.
func (d *Document) pairs(met map[string]int) {
	for _, pair := range suite.Possible(d.Setup.Faults) {
		if met[pair] == 0 {
			d.Missing = append(d.Missing, pair)
		}
	}
	d.Never = reasons(suite.Impossible(d.Setup.Faults))
}

func reasons(by map[string]string) []Reason {
	list := []Reason{}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		list = append(list, Reason{name, by[name]})
	}
	return list
}

func counts(by map[string]int, about func(string) string) []Count {
	list := []Count{}
	for name, n := range by {
		c := Count{Name: name, N: n}
		if about != nil {
			c.About = about(name)
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func aboutFault(name string) string {
	for _, f := range fault.All() {
		if f.Name == name {
			return f.About
		}
	}
	return ""
}

// shown is how many violations of one check are written out.
const shown = 5

// Text is the run for a reader at a terminal.
func (d *Document) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("")
	line("%s: %d acquisitions and %d faults in %v, leases of %v, seed %d",
		d.Server, d.Acquisitions, d.Injected, d.Elapsed.Round(time.Second), d.Setup.TTL, d.Setup.Seed)
	line("")
	line("  %-6s %-18s %9s %8s %9s  %s", "", "check", "examined", "excused", "undecided", "promise")
	for _, c := range d.Checks {
		verdict := "ok"
		if !c.Passed() {
			verdict = "BROKEN"
		}
		line("  %-6s %-18s %9d %8d %9d  %s", verdict, c.Name, c.Examined, c.Excused, c.Undecided, c.Promise)
		if c.Figure != "" {
			line("  %53s %s", "", c.Figure)
		}
	}
	line("")
	line("  excused: a promise that does not hold under the fault at that time, such as a flush")
	line("")
	line("  faults: %s", list(d.Faults))
	for _, r := range d.Left {
		line("  left out: %s", r.Why)
	}
	pairs := 0
	for _, c := range d.Pairs {
		pairs += c.N
	}
	line("  simultaneous: %d faults, in %d pairs and %d triples; %d of %d possible pairs occurred",
		d.Paired, pairs, d.Triples, len(d.Pairs), len(d.Pairs)+len(d.Missing))
	line("  refused by servers: %s", list(d.Refused))
	line("  acquisitions: %s", list(d.Works))
	line("  failed acquisitions: %s", list(d.Failures))
	if len(d.Slowest) > 0 {
		g := d.Slowest[0]
		line("  slowest recovery: %v after %s (lock %q)", g.After.Round(time.Millisecond), g.Fault.Name, g.Lock)
	}
	line("")
	if d.OK {
		line("Every promise was kept.")
		return b.String()
	}
	line("%d promises were broken:", d.Violations)
	for _, c := range d.Checks {
		for i, v := range c.Violations {
			if i == shown {
				line("  %s: and %d more", c.Name, len(c.Violations)-shown)
				break
			}
			line("  %s: %s %s", c.Name, v.Lock, v.Text)
		}
	}
	for _, r := range d.Broken {
		if r.Error != "" {
			line("  round %d did not finish: %s", r.Round, r.Error)
		} else {
			line("  history: %s", r.History)
		}
		line("  repeat:  %s", r.Command)
	}
	return b.String()
}

func list(counts []Count) string {
	var words []string
	for _, c := range counts {
		if c.N == 0 {
			continue
		}
		words = append(words, fmt.Sprintf("%s %d", c.Name, c.N))
	}
	return cmp.Or(strings.Join(words, ", "), "none")
}

// fromEvents is the document of one round.
func fromEvents(events []history.Event) *Document {
	round := suite.Judge(events)
	return Make(&suite.Outcome{OK: round.OK, Rounds: []suite.Round{*round}, Tally: round.Tally})
}
