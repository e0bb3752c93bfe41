package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every mutant can still be made: what it replaces stands once in its file. It is the fast
// part of the run, and fails as soon as the code has moved away from under a mutant.
func TestEveryMutantFindsItsPlace(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range mutants {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.apply(string(text)); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if names[m.name] || len(m.by) == 0 {
			t.Errorf("%s: its name is not its own, or no check is to catch it", m.name)
		}
		names[m.name] = true
	}
	if len(mutants) < 20 {
		t.Errorf("there are %d mutants", len(mutants))
	}
}

// The table in the documentation is of the mutants that there are.
func TestTheTableHasEveryMutant(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "track-record", "mutations.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if !strings.Contains(string(page), "\n| "+m.name+" | `"+m.file+"` | ") {
			t.Errorf("%q is not in the table: run make mutation", m.name)
		}
	}
	if n := strings.Count(string(page), "\n| ") - 1; n != len(mutants) {
		t.Errorf("the table has %d mutants, there are %d: run make mutation", n, len(mutants))
	}
}

// A place that is not there, or is there twice, is no mutant.
func TestAMutantWithoutItsPlaceIsRefused(t *testing.T) {
	for _, text := range []string{"", "a a", "b"} {
		m := mutant{name: "m", file: "f", old: "a", mut: "c"}
		if got, err := m.apply(text); err == nil {
			t.Errorf("%q became %q", text, got)
		}
	}
	if _, err := (mutant{old: "a", mut: "a"}).apply("a"); err == nil {
		t.Error("a mutant that changes nothing is accepted")
	}
}

// The first test that failed is found in what go test says, also if it hung.
func TestTheTestThatFailedIsFound(t *testing.T) {
	for out, want := range map[string]string{
		"=== x\n--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/1 (0.1s)\nFAIL\n":                  "TestA",
		"panic: test timed out after 4m0s\n\trunning tests:\n\t\tTestB/0 (3m59s)\n":            "TestB/0",
		"panic: deadlock: all goroutines in bubble are blocked\n--- FAIL: TestC/x_1 (0.00s)\n": "TestC/x_1",
	} {
		found := failure.FindStringSubmatch(out)
		if found == nil || found[1] != want {
			t.Errorf("in %q: %v, want %s", out, found, want)
		}
	}
}
