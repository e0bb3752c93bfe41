package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/bench/figures"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// The tables of the pages and the plots are those of the saved figures, and each contains
// a figure.
func TestThePagesAreWhatWasMeasured(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	for name, b := range map[string]book{"benchmarks.md": pick(false), "scaling.md": pick(true)} {
		page, err := os.ReadFile(filepath.Join(docs, name))
		assert.Must(t, err)
		f, err := figures.Load(filepath.Join(docs, "benchmarks", b.figures))
		assert.Must(t, err)
		if filled, err := fill(string(page), f); err != nil || filled != string(page) {
			t.Errorf("docs/%s differs from its figures (%v): run make bench-page", name, err)
		}
		svgs, err := b.plots(f)
		assert.NoError(t, err)
		for plot, svg := range svgs {
			kept, err := os.ReadFile(filepath.Join(docs, "benchmarks", plot+".svg"))
			assert.True(t, err == nil && string(kept) == svg,
				"%s.svg differs from its figures (%v): run make bench-page", plot, err)
			assert.True(t, strings.Contains(string(page), "benchmarks/"+plot+".svg"),
				"docs/%s does not show %s.svg", name, plot)
		}
	}
}
