package repocheck

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// Exported names of a package that the glossary explains: types, functions, errors and
// single constants. A method, a field, a constructor New and a constant of a type belong to
// the row of their type. The variables of package script are named like their files.
var exportedName = regexp.MustCompile(`(?m)^(?:type|func|const|var) ([A-Z]\w*)|^\t(Err\w+) += `)

// TestTheGlossaryHasEveryName compares docs/glossary.md with the record of the public API.
func TestTheGlossaryHasEveryName(t *testing.T) {
	page := readTree(t)["docs/glossary.md"]
	found := 0
	for _, dir := range imported {
		record, err := os.ReadFile(apiRecord(dir))
		assert.Must(t, err)
		prefix := path.Base(dir) + "."
		if dir == "." {
			prefix = ""
		}
		for _, m := range exportedName.FindAllStringSubmatch(string(record), -1) {
			name := m[1] + m[2]
			if name == "New" {
				continue
			}
			found++
			assert.True(t, strings.Contains(page, "`"+prefix+name+"`"),
				"docs/glossary.md has no row for %s%s", prefix, name)
		}
	}
	assert.True(t, found != 0, "the record of the API has no names: what was read?")
}
