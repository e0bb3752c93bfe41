package wiretest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/neighbour/wiretest"
)

// Every package with scripts, of a wire or of its own, has a test that knows all of them. The one of neighbour is sent
// by a request of every wire.
func TestNoScriptOfAWireIsUnknown(t *testing.T) {
	root, test := "../../..", regexp.MustCompile(`wiretest\.(TwiceAndLate|CopiesOfCalls)\(`)
	// These make scripts of others for tests, and define none.
	made, others := regexp.MustCompile(`neighbour\.NewScript\(|&script\.Script\{`), []string{
		filepath.Join(root, "internal", "audit"), filepath.Join(root, "internal", "neighbour"),
		filepath.Join(root, "store", "internal", "adaptertest"),
	}
	var found []string
	assert.Must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if dir := filepath.Dir(path); made.Match(text) && !slices.Contains(append(others, found...), dir) {
			found = append(found, dir)
		}
		return err
	}))
	assert.True(t, len(found) >= 3, "packages with scripts: %v", found)
	for _, dir := range found {
		tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		assert.Must(t, err)
		assert.True(t, slices.ContainsFunc(tests, func(path string) bool {
			text, err := os.ReadFile(path)
			return err == nil && test.Match(text)
		}), "no test sends the scripts of %s twice and late", dir)
	}
	assert.Equal(t, strings.Join(wiretest.Scripts(t, "..", "NewScript"), " "), "permissions", "scripts of neighbour")
}
