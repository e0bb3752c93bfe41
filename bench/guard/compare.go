package main

import (
	"fmt"
	"slices"

	"golang.org/x/perf/benchmath"

	"github.com/holdfast-go/holdfast/bench/figures"
)

// better says for each ratio whether higher (1) or lower (-1) is better. Other ratios are
// only for people.
var better = map[string]int{"x-raw-p50": -1, "x-mutex-p50": -1, "x-raw-rate": 1}

const (
	// alpha is the probability to report noise as a loss. There are about ten ratios, so
	// at most one run in a hundred has a false alarm; loss makes it rarer.
	alpha = 0.001

	// loss is how much worse a median must be. Two machines, and two links of the same
	// program, already differ by less than that.
	loss = 0.25
)

// verdict is the result for one ratio.
type verdict struct {
	benchmark, metric string
	was, is, p        float64
	worse             float64 // as a fraction of the recorded value; negative: better
}

func (v verdict) lost() bool { return v.p < alpha && v.worse > loss }

func (v verdict) String() string {
	word := "ok"
	switch {
	case v.lost():
		word = "LOST"
	case v.p < alpha && v.worse < -loss:
		word = "won"
	}
	return fmt.Sprintf("%-4s %-36s %-12s %7.2f -> %7.2f  p=%.4f", word, v.benchmark, v.metric, v.was, v.is, v.p)
}

// compare judges every recorded ratio. A ratio that was not measured is an error, because
// a missing benchmark guards nothing.
func compare(recorded, now *figures.Figures) ([]verdict, error) {
	var all []verdict
	for _, name := range recorded.Names() {
		for _, metric := range []string{"x-raw-p50", "x-mutex-p50", "x-raw-rate"} {
			old := recorded.Samples[name][metric]
			if len(old) == 0 {
				continue
			}
			values := now.Samples[name][metric]
			if len(values) == 0 {
				return nil, fmt.Errorf("%s has no %s any more: record again if that is meant", name, metric)
			}
			all = append(all, judge(name, metric, old, values))
		}
	}
	return all, nil
}

// judge compares two samples as benchstat does, by the Mann-Whitney U test. The test
// assumes no distribution.
func judge(name, metric string, old, values []float64) verdict {
	was := benchmath.NewSample(slices.Clone(old), &benchmath.DefaultThresholds)
	is := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	v := verdict{benchmark: name, metric: metric, p: benchmath.AssumeNothing.Compare(was, is).P}
	v.was = benchmath.AssumeNothing.Summary(was, 0.95).Center
	v.is = benchmath.AssumeNothing.Summary(is, 0.95).Center
	if better[metric] < 0 {
		v.worse = v.is/v.was - 1
	} else {
		v.worse = v.was/v.is - 1
	}
	return v
}
