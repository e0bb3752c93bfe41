// Package figures reads the output of go test -bench, and saves it.
package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

// Figures are the results of a run, or of several.
type Figures struct {
	// About is the description of the run, by key: the machine, the versions, the load.
	// It keeps every different value.
	About map[string][]string `json:"about"`

	// Samples has every value, by benchmark and metric:
	// "Versus/pair/etcd" and "x-p50", without the number of cores.
	Samples map[string]map[string][]float64 `json:"samples"`
}

// New returns empty figures.
func New() *Figures {
	return &Figures{About: make(map[string][]string), Samples: make(map[string]map[string][]float64)}
}

// Read adds the output of a run. It ignores lines that are no results. A line that looks
// like a result and cannot be read is an error.
func (f *Figures) Read(r io.Reader, file string) error {
	in := benchfmt.NewReader(r, file)
	for in.Scan() {
		switch line := in.Result().(type) {
		case *benchfmt.Result:
			f.add(line)
		case *benchfmt.SyntaxError:
			return fmt.Errorf("%w: is the output of go test -bench whole?", line)
		}
	}
	return in.Err()
}

func (f *Figures) add(r *benchfmt.Result) {
	for _, c := range r.Config {
		value := string(c.Value)
		if c.File && !slices.Contains(f.About[c.Key], value) {
			f.About[c.Key] = append(f.About[c.Key], value)
		}
	}
	base, parts := r.Name.Parts()
	var full strings.Builder
	full.Write(base)
	for _, part := range parts {
		if !strings.HasPrefix(string(part), "-") { // the number of cores
			full.Write(part)
		}
	}
	name := full.String()
	metrics := f.Samples[name]
	if metrics == nil {
		metrics = make(map[string][]float64)
		f.Samples[name] = metrics
	}
	for _, v := range r.Values {
		if v.OrigUnit != "" {
			v.Value, v.Unit = v.OrigValue, v.OrigUnit
		}
		// If a rival was never granted, the ratio is not a number.
		if !math.IsInf(v.Value, 0) && !math.IsNaN(v.Value) {
			metrics[v.Unit] = append(metrics[v.Unit], v.Value)
		}
	}
}

// Median is the median of a metric's values, and false if there are none.
func (f *Figures) Median(benchmark, metric string) (float64, bool) {
	values := f.Samples[benchmark][metric]
	if len(values) == 0 {
		return 0, false
	}
	s := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	return benchmath.AssumeNothing.Summary(s, 0.95).Center, true
}

// Load reads saved figures.
func Load(file string) (*Figures, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f := New()
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return f, nil
}

// Save writes the figures to a file.
func (f *Figures) Save(file string) error {
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644) //nolint:gosec // committed, for everybody to read
}

// Keep adds the benchmarks of older figures that these figures do not have.
func (f *Figures) Keep(old *Figures) {
	for name, metrics := range old.Samples {
		if f.Samples[name] == nil {
			f.Samples[name] = metrics
		}
	}
	for key, values := range old.About {
		for _, value := range values {
			if !slices.Contains(f.About[key], value) {
				f.About[key] = append(f.About[key], value)
			}
		}
	}
}

// Names are the benchmarks, in order.
func (f *Figures) Names() []string { return slices.Sorted(maps.Keys(f.Samples)) }
