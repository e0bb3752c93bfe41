package observe_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// sources are the Go files of the library, without tests, by their paths.
func sources(t *testing.T, dirs ...string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(repository, dir), func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && dir == "." && name != repository:
				return fs.SkipDir // the root without what is below it
			case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			text, err := os.ReadFile(name)
			all.Write(text)
			return err
		})
		assert.Must(t, err)
	}
	return all.String()
}

// section is the part of the page under a heading.
func section(t *testing.T, title string) string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, "docs", "observability.md"), "\n## "+title+"\n")
	assert.MustTrue(t, found, "docs/observability.md has no section %s", title)
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// Every line of the log on the page is one that the library writes, and every warning and
// error of the library is on the page.
func TestThePageHasTheLinesOfTheLog(t *testing.T) {
	code, page := sources(t, "."), section(t, "Log lines")
	rows := regexp.MustCompile("(?m)^\\| (?:Error|Warn|Debug) \\| `([^`]+)` \\|").FindAllStringSubmatch(page, -1)
	assert.MustTrue(t, len(rows) >= 5, "the page has %d lines", len(rows))
	for _, row := range rows {
		assert.True(t, strings.Contains(code, `"holdfast: `+row[1]), "the library does not write %q", row[1])
	}
	calls := regexp.MustCompile(`\.(?:Debug|Info|Warn|Error)\("holdfast: ([^":]+)`).FindAllStringSubmatch(code, -1)
	assert.MustTrue(t, len(calls) >= 4, "the library has %d calls of a logger", len(calls))
	for _, call := range calls {
		found := false
		for _, row := range rows {
			found = found || strings.HasPrefix(call[1], row[1]) || strings.HasPrefix(row[1], call[1])
		}
		assert.True(t, found, "docs/observability.md does not have the line %q", call[1])
	}
}

// Every label of a goroutine is on the page.
func TestThePageHasTheLabelsOfGoroutines(t *testing.T) {
	page := section(t, "Profiles")
	labels := regexp.MustCompile(`label\.New\("([^"]+)"\)`).
		FindAllStringSubmatch(sources(t, ".", "internal", "memstore", "quorum", "store"), -1)
	assert.MustTrue(t, len(labels) >= 10, "the library has %d labels", len(labels))
	for _, l := range labels {
		name, of, _ := strings.Cut(l[1], ": ")
		if of != "" {
			name += ": …"
		}
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/observability.md does not explain the label %q", l[1])
		}
	}
}
