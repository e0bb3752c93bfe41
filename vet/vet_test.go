package vet_test

import (
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/holdfast-go/holdfast/vet"
)

// Each analyzer has a directory of its name in testdata, with what it must find and what it
// must not. A golden file has the code with its fixes.
func TestEachMistakeIsFoundAndNothingElse(t *testing.T) {
	for _, a := range vet.Analyzers {
		t.Run(a.Name, func(t *testing.T) {
			results := analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), a, a.Name)
			for _, r := range results {
				for _, d := range r.Action.Diagnostics {
					if d.Category != a.Name {
						t.Errorf("category of %q: %q; want %q", d.Message, d.Category, a.Name)
					}
				}
			}
		})
	}
}

func TestTheAnalyzersAreValid(t *testing.T) {
	if err := analysis.Validate(vet.Analyzers); err != nil {
		t.Error(err)
	}
}
