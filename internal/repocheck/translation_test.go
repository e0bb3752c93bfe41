package repocheck

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// outline is what a translation shares with its page: headings by their level, code, links that
// lead to a page or a file, and rows of tables.
func outline(text string) (parts []string) {
	fence := false
	code := ""
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```"):
			if fence {
				parts, code = append(parts, code), ""
			}
			fence = !fence
		case fence:
			code += line
		case strings.HasPrefix(line, "#"):
			level, _, _ := strings.Cut(line, " ")
			parts = append(parts, level)
		case strings.HasPrefix(line, "|"):
			parts = append(parts, fmt.Sprint("a row of ", strings.Count(line, "|")-1))
		}
	}
	return parts
}

var linked = regexp.MustCompile(`\]\(([^)#]+)`)

// The Chinese page has the sections, the code, the tables and the links of the English one.
func TestTheTranslationIsComplete(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		assert.Must(t, err)
		return string(text)
	}
	english, chinese := read("README.md"), read("README.zh-CN.md")
	want, got := outline(english), outline(chinese)
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("the pages part after %q: README.md goes on with %q, README.zh-CN.md with %q",
				want[max(0, i-1):i], want[i:min(i+1, len(want))], got[i:min(i+1, len(got))])
		}
	}
	count := map[string]int{}
	for _, found := range linked.FindAllStringSubmatch(english, -1) {
		count[found[1]]++
	}
	for _, found := range linked.FindAllStringSubmatch(chinese, -1) {
		count[found[1]]--
	}
	delete(count, "README.md")       // each page leads
	delete(count, "README.zh-CN.md") // to the other
	for target, n := range count {
		assert.True(t, n == 0, "%s: README.md has %d more links to it than README.zh-CN.md", target, n)
	}
}
