package main

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// Every JSON line of the tool goes through screen.JSON.
func TestNothingElseWritesJSON(t *testing.T) {
	assert.Must(t, fs.WalkDir(os.DirFS("."), ".", func(file string, _ fs.DirEntry, err error) error {
		allowed := strings.HasSuffix(file, "_test.go") || file == "internal/screen/json.go" ||
			strings.HasPrefix(file, "internal/demo/") || strings.HasPrefix(file, "internal/proc/") // between processes
		if err != nil || allowed || !strings.HasSuffix(file, ".go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, call := range []string{"json.NewEncoder(", "json.Marshal", "json.Indent("} {
			assert.False(t, strings.Contains(string(text), call), "%s calls %s", file, call)
		}
		return err
	}))
}
