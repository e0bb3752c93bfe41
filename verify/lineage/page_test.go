package lineage_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

var (
	linked   = regexp.MustCompile("\\[`(Test\\w+)`\\]\\(\\.\\./verify/lineage/(\\w+_test\\.go)\\)")
	declared = regexp.MustCompile(`(?m)^func (Test[A-Z]\w+)\(t \*testing\.T\)`)
)

// The page and the tests name each other: each test on the page is in the file
// that the link leads to, and none is missing there.
func TestThePageNamesEveryTest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "lineage.md"))
	assert.Must(t, err)
	files, err := filepath.Glob("*_test.go")
	assert.Must(t, err)
	there := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		assert.Must(t, err)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "TestMain" && file != "page_test.go" {
				there[m[1]] = file
			}
		}
	}
	for _, m := range linked.FindAllStringSubmatch(string(page), -1) {
		assert.True(t, there[m[1]] == m[2], "the page says that %s is in %s", m[1], m[2])
		delete(there, m[1])
	}
	for name, file := range there {
		t.Errorf("the page does not name %s of %s", name, file)
	}
}

var (
	block    = regexp.MustCompile("(?s)```go\n(.*?)\n```")
	drawing  = regexp.MustCompile(`picture: "([\w-]+)"`)
	embedded = regexp.MustCompile(`\(images/lineage-([\w-]+)\.svg\)`)
)

// The code on the page is the code that the tests run. Its pictures are those that the
// tests compare, and no others are left over.
func TestThePageShowsWhatTheTestsRun(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "lineage.md"))
	assert.Must(t, err)
	files, err := filepath.Glob("*_test.go")
	assert.Must(t, err)
	var code strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		assert.Must(t, err)
		code.Write(text)
	}
	for _, m := range block.FindAllStringSubmatch(string(page), -1) {
		for part := range strings.SplitSeq(m[1], "\n\n") {
			assert.True(t, strings.Contains(code.String(), part+"\n"), "no test runs this code of the page:\n%s", part)
		}
	}
	names := func(pattern *regexp.Regexp, text string) []string {
		var found []string
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
		slices.Sort(found)
		return found
	}
	drawn := names(drawing, code.String())
	shown := names(embedded, string(page))
	assert.True(t, slices.Equal(shown, drawn), "the page shows the pictures %v, and the tests draw %v", shown, drawn)
	var there []string
	pictures, err := filepath.Glob(filepath.Join("..", "..", "docs", "images", "lineage-*.svg"))
	assert.Must(t, err)
	for _, file := range pictures {
		there = append(there, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "lineage-"), ".svg"))
	}
	slices.Sort(there)
	assert.True(t, slices.Equal(there, drawn), "there are pictures of %v, and the tests draw %v", there, drawn)
}
