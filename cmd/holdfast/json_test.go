package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// Every JSON line of the tool goes through screen.JSON.
func TestNothingElseWritesJSON(t *testing.T) {
	files, err := filepath.Glob("*.go")
	assert.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		assert.NoError(t, err)
		allowed := strings.HasSuffix(file, "_test.go")
		for _, call := range []string{"json.NewEncoder(", "json.Marshal", "json.Indent("} {
			assert.True(t, allowed || !strings.Contains(string(text), call), "%s calls %s", file, call)
		}
	}
}
