package suite

import (
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/history"
)

// pairName is what a pair of faults is called.
func pairName(a, b string) string { return min(a, b) + "+" + max(a, b) }

// meet reports whether two faults were active at the same time.
func meet(a, b history.FaultSpan) bool { return a.From <= b.Till && b.From <= a.Till }

// pairsOf counts the pairs that were active at the same time.
func pairsOf(spans []history.FaultSpan) map[string]int {
	pairs := make(map[string]int)
	for i, a := range spans {
		for _, b := range spans[:i] {
			if meet(a, b) {
				pairs[pairName(a.Name, b.Name)]++
			}
		}
	}
	return pairs
}

// together counts the faults that met another, and the threes that were about at one
// time: spans that meet pairwise have an instant in common.
func together(spans []history.FaultSpan) (paired, triples int) {
	for i, a := range spans {
		met := false
		for j, b := range spans {
			if i == j || !meet(a, b) {
				continue
			}
			met = true
			for _, c := range spans[:min(i, j)] {
				if i > j && meet(a, c) && meet(b, c) {
					triples++
				}
			}
		}
		if met {
			paired++
		}
	}
	return paired, triples
}

// Possible lists the pairs of some faults that may be active at the same time.
func Possible(faults []string) []string {
	var pairs []string
	each(faults, func(a, b fault.Fault) {
		if fault.Apart(a, b) == "" {
			pairs = append(pairs, pairName(a.Name, b.Name))
		}
	})
	return pairs
}

// Impossible says why the other pairs may not.
func Impossible(faults []string) map[string]string {
	pairs := make(map[string]string)
	each(faults, func(a, b fault.Fault) {
		if why := fault.Apart(a, b); why != "" {
			pairs[pairName(a.Name, b.Name)] = why
		}
	})
	return pairs
}

// each goes through all pairs of some faults, each with itself as well.
func each(names []string, do func(a, b fault.Fault)) {
	faults, err := fault.Named(names)
	if err != nil {
		return // a history of another version has others
	}
	for i, a := range faults {
		for _, b := range faults[i:] {
			do(a, b)
		}
	}
}
