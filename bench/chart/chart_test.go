package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/bench/figures"
	"github.com/holdfast-go/holdfast/internal/assert"
)

func invented() *figures.Figures {
	f := figures.New()
	f.Samples = map[string]map[string][]float64{
		"Versus/fight-1x16/holdfast-goredis": {"acq/s": {90_000, 100_000, 250_000}},
		"Versus/fight-4x4/holdfast-goredis":  {"acq/s": {50_000}, "jain": {0.98}},
		"Versus/fight-4x4/etcd":              {"acq/s": {150}},
		"ScaleHeld/1000":                     {"B/lease": {1005}},
	}
	f.About["cpu"] = []string{"one"}
	return f
}

func mustBeXML(t *testing.T, svg string) {
	t.Helper()
	for in := xml.NewDecoder(strings.NewReader(svg)); ; {
		_, err := in.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		assert.Must(t, err)
	}
}

func TestDrawIsXMLWithADotForEachValue(t *testing.T) {
	p := plot{name: "p", title: "a < b", metric: "acq/s", points: []point{{"fight-1x16", "x"},
		{"fight-4x4", "y"}}}
	svg, err := p.draw(invented())
	assert.Must(t, err)
	mustBeXML(t, svg)
	for _, want := range []string{"holdfast-goredis: 100k", "holdfast-goredis: 50k", "etcd: 150"} {
		assert.True(t, strings.Contains(svg, "<title>"+want+"</title>"), "no dot has the title %q", want)
	}
	assert.Equal(t, strings.Count(svg, "<title>"), 3, "dots for three values")
	assert.True(t, assert.Err((plot{name: "p", metric: "none"}).draw(invented())) != nil,
		"a plot of nothing was drawn")
}

func TestScale(t *testing.T) {
	s := plot{}.scale([]mark{{values: []float64{150, -1, 90_000}}})
	if s.low != 100 || s.high != 100_000 || len(s.ticks()) != 4 {
		t.Errorf("scale of 150 to 90,000: %+v with %d ticks", s, len(s.ticks()))
	}
	if s.y(100) != top+plotTall || s.y(100_000) != top || s.y(1000) <= s.y(10_000) {
		t.Errorf("heights: %v %v %v %v", s.y(100), s.y(1000), s.y(10_000), s.y(100_000))
	}
}

func TestFill(t *testing.T) {
	got, err := fill("a\n<!-- contended -->\nforgotten\n<!-- end -->\nb <!-- about --><!-- end -->\n", invented())
	assert.Must(t, err)
	for _, want := range []string{
		"| holdfast-goredis | 100k | – | – | – | 50k | – | 0.98 | – | – |\n",
		"| etcd | – | – | – | – | 150 |", "- cpu: one\n",
	} {
		assert.True(t, strings.Contains(got, want), "no %q in\n%s", want, got)
	}
	if strings.Contains(got, "forgotten") || !strings.HasPrefix(got, "a\n") || strings.Contains(got, "redsync") {
		t.Errorf("what was there, or nobody measured, is in\n%s", got)
	}
	for _, bad := range []string{"<!-- contended -->", "<!-- nothing -->\n<!-- end -->"} {
		assert.True(t, assert.Err(fill(bad, invented())) != nil, "%q was filled", bad)
	}
	again, err := fill(got, invented())
	assert.True(t, err == nil && again == got, "a second time makes a difference, or an error: %v", err)
}

func TestGatherKeeps(t *testing.T) {
	dir := t.TempDir()
	results, kept := filepath.Join(dir, "r.txt"), filepath.Join(dir, "figures.json")
	line := "load: 1\nBenchmarkVersus/pair/etcd-2 1 0.5 x-p50\n"
	assert.Must(t, os.WriteFile(results, []byte(line), 0o600))
	first, err := gather(kept, []string{results})
	assert.Must(t, err)
	again, err := gather(kept, nil)
	assert.True(t, err == nil && len(again.Samples) == 1 && len(first.Samples) == 1,
		"want one sample both times, got %v, %v, %v", first, again, err)
	assert.True(t, assert.Err(gather(kept, []string{filepath.Join(dir, "none")})) != nil,
		"a file that is not there was read")
}

// A part that is measured again replaces its old figures, and no others.
func TestGatherAdds(t *testing.T) {
	dir := t.TempDir()
	results, kept := filepath.Join(dir, "r.txt"), filepath.Join(dir, "curves.json")
	for _, text := range []string{
		"load: 1\nBenchmarkCurves/locks/10-2 1 5 new-µs\nBenchmarkCurves/locks/100-2 1 5 new-µs\n",
		"load: 2\nBenchmarkCurves/locks/10-2 1 7 new-µs\n",
	} {
		assert.Must(t, os.WriteFile(results, []byte(text), 0o600))
		_, err := gather(kept, []string{results})
		assert.Must(t, err)
	}
	f, err := figures.Load(kept)
	assert.Must(t, err)
	got := points(f, line{"locks", "new-µs", "new"})
	if want := []at{{10, 7}, {100, 5}}; !slices.Equal(got, want) || len(f.About["load"]) != 2 {
		t.Errorf("%v of loads %v, want %v of two", got, f.About["load"], want)
	}
}

func TestPerDecade(t *testing.T) {
	for want, list := range map[float64][]at{
		1:  {{1, 5}, {100, 5}},
		10: {{1, 3}, {10, 40}, {100, 300}},
		2:  {{10, 3}, {1000, 12}},
	} {
		if got := perDecade(list); got < want*0.999 || got > want*1.001 {
			t.Errorf("%v grow %v times in a decade, want %v", list, got, want)
		}
	}
}

func TestASheetIsXMLWithEveryPoint(t *testing.T) {
	f := figures.New()
	f.Samples = map[string]map[string][]float64{
		"Curves/locks/10":    {"a-µs": {8}, "b-µs": {80}},
		"Curves/locks/1000":  {"a-µs": {9}, "b-µs": {800}, "a-calls": {3}},
		"Curves/locks/other": {"a-µs": {1}},
	}
	p := panel{"a < b", "server µs of a pair", []line{{"locks", "a-µs", "a"}, {"locks", "b-µs", "b & c"}}}
	svg, err := drawSheet(f, []panel{p})
	assert.Must(t, err)
	mustBeXML(t, svg)
	for _, want := range []string{"<title>a, 10: 8</title>", "<title>b &amp; c, 1k: 800</title>", ">a 9</text>"} {
		assert.True(t, strings.Contains(svg, want), "no %s", want)
	}
	assert.Equal(t, strings.Count(svg, "<circle"), 4, "points for four values")
	assert.True(t, assert.Err(drawSheet(f, []panel{{"none", "", []line{{"locks", "a-calls", "a"}}}})) != nil,
		"a panel of one size was drawn")
}

func TestASoakIsDrawnBesideItsFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "soak.csv")
	assert.Must(t, os.WriteFile(file, []byte("seconds,phase,goroutines,heap,server,keys\n"+
		"6,start,7,1048576,2097152,0\n60,load,90,3145728,2097152,40\n120,load,80,2097152,-1,40\n"), 0o600))
	assert.Must(t, saveSoak(file, "an hour & more"))
	svg, err := os.ReadFile(filepath.Join(dir, "soak.svg"))
	assert.Must(t, err)
	mustBeXML(t, string(svg))
	assert.Equal(t, strings.Count(string(svg), "<polyline"), len(gauges), "a line for each gauge")
	assert.True(t, strings.Contains(string(svg), "an hour &amp; more"), "the title is missing")
	assert.Must(t, os.WriteFile(file, []byte("seconds,phase\n6,start\n7,load\n"), 0o600))
	assert.True(t, saveSoak(file, "") != nil, "a file without gauges was drawn")
}
