package screen

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// What does not print is escaped, and a program reads the value as it was.
func TestJSONShowsOnlyWhatPrints(t *testing.T) {
	odd := "a\x1b[2J\x7f\u009b2J\u2028\u202e\u2066\u200b\u00ad\U000e0041\ufeff\"\\<é日🔒\t"
	got, err := JSON(map[string]string{"name": odd})
	assert.NoError(t, err)
	line := strings.TrimSuffix(string(got), "\n")
	for _, r := range line {
		assert.True(t, unicode.IsPrint(r), "%U is in %s", r, line)
	}
	for _, shown := range []string{"é日🔒", `\u009b`, `\u202e`, `\u007f`, `\udb40\udc41`} {
		assert.Contains(t, line, shown)
	}
	var back map[string]string
	assert.Must(t, json.Unmarshal(got, &back))
	assert.Equal(t, back["name"], odd, "the value")
}
