package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// Every mutant can still be made: what it replaces occurs once in its file, and the test that is to catch
// it exists. This is the fast part of the run. It fails as soon as the code has moved away from under a
// mutant.
func TestEveryMutantFindsItsPlaceAndItsTest(t *testing.T) {
	root, err := findRoot()
	assert.Must(t, err)
	names := map[string]bool{}
	for _, m := range mutants {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
		assert.Must(t, err)
		_, err = m.apply(string(text))
		assert.True(t, err == nil, "%s: %v", m.name, err)
		assert.False(t, names[m.name], "%s: its name is not its own", m.name)
		names[m.name] = true
		assert.True(t, hasTest(t, filepath.Join(root, m.tests.module, m.tests.pkg), m.by),
			"%s: %s has no %s", m.name, m.tests.pkg, m.by)
	}
}

func hasTest(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	assert.Must(t, err)
	name, _, _ := strings.Cut(test, "/")
	for _, file := range files {
		text, err := os.ReadFile(file)
		assert.Must(t, err)
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
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

// Only the test that is to catch a mutant runs, and of a subtest's test no other.
func TestATestIsMatchedExactly(t *testing.T) {
	for test, want := range map[string]string{"TestA": "^TestA$", "TestA/B": "^TestA$/^B$"} {
		assert.Equal(t, exactly(test), want, "%s", test)
	}
}
