package memstore_test

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
)

// A reader of a script finds its twin by the name: memstore/NAME.go is the twin of
// script/NAME.lua.
func TestEveryScriptHasATwin(t *testing.T) {
	for _, action := range script.All() {
		_, err := os.Stat(action.Name + ".go")
		assert.True(t, err == nil, "%s has no twin of its name", action.Name)
	}
}
