package check_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/verify/check"
)

// The table of what holds where names every check there is, and no other.
func TestTheTableOfGuaranteesNamesEveryCheck(t *testing.T) {
	page, err := os.ReadFile("../../docs/guarantees.md")
	assert.Must(t, err)
	_, table, _ := strings.Cut(string(page), "## What holds where")
	table, _, _ = strings.Cut(table, "\n## ")
	named := make(map[string]bool)
	for _, m := range regexp.MustCompile("`([a-z]+(?:-[a-z]+)*)`").FindAllStringSubmatch(table, -1) {
		named[m[1]] = true
	}
	delete(named, "everysec") // a way to keep a log
	for _, res := range check.All(check.Index(nil, nil)) {
		assert.True(t, named[res.Name], "%s is not in the table", res.Name)
		delete(named, res.Name)
	}
	assert.Equal(t, len(named), 0, "the table names checks that there are not: %v", named)
}
