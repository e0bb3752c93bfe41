package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// Every mutant can still be made: what it replaces occurs once in its file. It is the fast
// part of the run, and fails as soon as the code has moved away from under a mutant.
func TestEveryMutantFindsItsPlace(t *testing.T) {
	root, err := findRoot()
	assert.Must(t, err)
	names := map[string]bool{}
	for _, m := range mutants {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
		assert.Must(t, err)
		_, err = m.apply(string(text))
		assert.True(t, err == nil, "%s: %v", m.name, err)
		assert.True(t, !names[m.name] && len(m.by) != 0,
			"%s: its name is not its own, or no check is to catch it", m.name)
		names[m.name] = true
	}
	assert.AtLeast(t, len(mutants), 150, "mutants")
}

// The table in the documentation is of the mutants that there are.
func TestTheTableHasEveryMutant(t *testing.T) {
	root, err := findRoot()
	assert.Must(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "track-record", "mutations.md"))
	assert.Must(t, err)
	for _, m := range mutants {
		assert.True(t, strings.Contains(string(page), "\n| "+m.name+" | `"+m.file+"` | "),
			"%q is not in the table: run make mutation", m.name)
	}
	n := strings.Count(string(page), "\n| ") - 1
	assert.True(t, n == len(mutants), "the table has %d mutants, there are %d: run make mutation", n, len(mutants))
}

// A place that is not there, or is there twice, is no mutant.
func TestAMutantWithoutItsPlaceIsRefused(t *testing.T) {
	for _, text := range []string{"", "a a", "b"} {
		m := mutant{name: "m", file: "f", old: "a", mut: "c"}
		got, err := m.apply(text)
		assert.True(t, err != nil, "%q became %q", text, got)
	}
	assert.True(t, assert.Err((mutant{old: "a", mut: "a"}).apply("a")) != nil,
		"a mutant that changes nothing is accepted")
}

// The first test that failed is found in what go test says; a check that hangs has found
// nothing.
func TestTheTestThatFailedIsFound(t *testing.T) {
	for out, want := range map[string]string{
		"=== x\n--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/1 (0.1s)\nFAIL\n":                  "TestA",
		"panic: deadlock: all goroutines in bubble are blocked\n--- FAIL: TestC/x_1 (0.00s)\n": "TestC",
	} {
		found := failure.FindStringSubmatch(out)
		assert.True(t, found != nil && found[1] == want, "in %q: %v, want %s", out, found, want)
	}
	crashed := "panic: nil\n\ngoroutine 7 [running]:\nx.Of(...)\n\t/x/x.go:1\nx_test.TestD.func1()\n"
	found := crash.FindStringSubmatch(crashed)
	assert.True(t, found != nil && found[1] == "TestD", "in %q: %v", crashed, found)
	const hung = "panic: test timed out after 4m0s\n\trunning tests:\n\t\tTestB/0 (3m59s)\n"
	assert.True(t, !failure.MatchString(hung) && hang.MatchString(hung),
		"%q is a mutant that hung, not a test that failed", hung)
}

// The test that noticed a mutant last time is asked first, and by itself.
func TestWhatNoticedAMutantLastTimeIsAskedFirst(t *testing.T) {
	by := []check{{"a", ".", []string{"-run=X|Y", "./a"}}, {"b", ".", []string{"./b"}}}
	for last, want := range map[caught]string{
		{"a", "TestY"}: "[{a . [-run=^TestY$ ./a]}]",
		{"b", "TestZ"}: "[{b . [-run=^TestZ$ ./b]}]",
		{"c", "TestY"}: "[]",
		{}:             "[]",
	} {
		assert.Equal(t, fmt.Sprint(again(by, last)), want, "%v", last)
	}
	assert.Equal(t, by[0].args[0], "-run=X|Y", "the check itself was changed")
}

// What is written is read again, and what was not tried keeps its row.
func TestThePageIsReadAsItIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	first, second := mutants[0], mutants[1]
	for _, v := range []verdict{
		{first, caught{"unit tests", "TestA"}}, {second, caught{"oracle", "TestB"}},
		{mutants[2], caught{"oracle", "TestB"}}, {second, caught{"oracle", "TestC"}}, {mutants[2], caught{}},
	} {
		assert.Must(t, writePage(path, v))
	}
	got, want := readPage(path), map[string]caught{
		first.name: {"unit tests", "TestA"}, second.name: {"oracle", "TestC"},
	}
	assert.True(t, maps.Equal(got, want), "read %v, want %v", got, want)
}
