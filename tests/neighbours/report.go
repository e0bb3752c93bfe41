package neighbours

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is what the same faults did to the two fleets.
type Report struct {
	Neighbour Neighbour
	Options   Options
	Mixed     Result // every other process is ours
	Alone     Result // the original alone
}

// Bad lists what the original alone would not have: the reasons why a run has failed.
func (r Report) Bad() (bad []string) {
	ours, original := r.Neighbour.Ours.Name, r.Neighbour.Original.Name
	if n := r.Mixed.Of(ours, Overstayed); n > 0 {
		bad = append(bad, fmt.Sprintf("%s overstayed %d times", ours, n))
	}
	if n := r.Mixed.Of(ours, Unaccounted); n > 0 {
		bad = append(bad, fmt.Sprintf("%s was in with another %d times", ours, n))
	}
	taken := r.Mixed.Of(ours, Taken) + r.Mixed.Of(original, Taken)
	if n := r.Alone.Of(original, Taken); taken > n {
		bad = append(bad, fmt.Sprintf("a lock was taken from its holder %d times, by the original alone %d times",
			taken, n))
	}
	if n := len(r.Mixed.Doubles); n > len(r.Alone.Doubles) {
		bad = append(bad, fmt.Sprintf("two holders are in one key, %d times: %s", n, r.Mixed.Doubles[0]))
	}
	for _, run := range []Result{r.Mixed, r.Alone} {
		bad = append(bad, run.Ended...)
	}
	for _, library := range []string{ours, original} {
		if r.Mixed.Holds[library] == 0 {
			bad = append(bad, library+" never got a lock")
		}
	}
	return bad
}

// Write writes the report for people.
func (r Report) Write(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(cells ...any) {
		for i, cell := range cells {
			cells[i] = fmt.Sprint(cell)
		}
		line := strings.TrimSuffix(strings.Repeat("%s\t", len(cells)), "\t") + "\n"
		_, _ = fmt.Fprintf(t, line, cells...) // Flush tells
	}
	row("fleet", "library", "holds", "lost", "overstayed", "taken", "unaccounted", "faults")
	for _, fleet := range []struct {
		name string
		run  Result
	}{{"mixed", r.Mixed}, {"alone", r.Alone}} {
		faults := 0
		for _, n := range fleet.run.Faults {
			faults += n
		}
		libraries := []string{r.Neighbour.Original.Name, r.Neighbour.Ours.Name}
		for _, library := range slices.Compact(libraries) {
			if fleet.run.Holds[library] == 0 {
				continue
			}
			row(fleet.name, library, fleet.run.Holds[library], fleet.run.Lost[library],
				fleet.run.Of(library, Overstayed), fleet.run.Of(library, Taken),
				fleet.run.Of(library, Unaccounted), faults)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.details(out)
}

// details writes what happened, most of it with how often.
func (r Report) details(out io.Writer) error {
	for _, fleet := range []struct {
		name string
		run  Result
	}{{"mixed", r.Mixed}, {"alone", r.Alone}} {
		during := make(map[string]int)
		for _, v := range fleet.run.Violations {
			during[fmt.Sprintf("%s: %s, then %s, during %s", v.By.Library+" "+string(v.Reason), v.First.Library,
				v.Second.Library, strings.Join(v.Faults, "+"))]++
		}
		for _, counts := range []map[string]int{fleet.run.Faults, during, fleet.run.Notes} {
			for _, name := range most(counts, 20) {
				if _, err := fmt.Fprintf(out, "%s: %d × %s\n", fleet.name, counts[name], name); err != nil {
					return err
				}
			}
		}
	}
	for _, bad := range r.Bad() {
		if _, err := fmt.Fprintln(out, "FAILED:", bad); err != nil {
			return err
		}
	}
	return nil
}
