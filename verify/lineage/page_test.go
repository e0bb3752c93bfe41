package lineage_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	linked   = regexp.MustCompile("\\[`(Test\\w+)`\\]\\(\\.\\./verify/lineage/(\\w+_test\\.go)\\)")
	declared = regexp.MustCompile(`(?m)^func (Test[A-Z]\w+)\(t \*testing\.T\)`)
)

// The page and the tests name each other: each test on the page is in the file
// that the link leads to, and none is missing there.
func TestThePageNamesEveryTest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "lineage.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "TestMain" && m[1] != t.Name() {
				there[m[1]] = file
			}
		}
	}
	for _, m := range linked.FindAllStringSubmatch(string(page), -1) {
		if there[m[1]] != m[2] {
			t.Errorf("the page says that %s is in %s", m[1], m[2])
		}
		delete(there, m[1])
	}
	for name, file := range there {
		t.Errorf("the page does not name %s of %s", name, file)
	}
}
