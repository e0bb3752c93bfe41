package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/bench/figures"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// The tables of the page and the plots are those of the saved figures, and each contains
// a figure.
func TestThePageIsWhatWasMeasured(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	page, err := os.ReadFile(filepath.Join(docs, "benchmarks.md"))
	assert.Must(t, err)
	f, err := figures.Load(filepath.Join(docs, "benchmarks", "figures.json"))
	assert.Must(t, err)
	if filled, err := fill(string(page), f); err != nil || filled != string(page) {
		t.Errorf("docs/benchmarks.md differs from its figures (%v): run make bench-page", err)
	}
	for _, p := range plots {
		svg, err := p.draw(f)
		assert.NoError(t, err)
		kept, err := os.ReadFile(filepath.Join(docs, "benchmarks", p.name+".svg"))
		if err != nil || string(kept) != svg {
			t.Errorf("%s.svg differs from its figures (%v): run make bench-page", p.name, err)
		}
		if !strings.Contains(string(page), "benchmarks/"+p.name+".svg") {
			t.Errorf("the page does not show %s.svg", p.name)
		}
	}
}
