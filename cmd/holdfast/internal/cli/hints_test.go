package cli

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestTheClosestFlagIsNamed(t *testing.T) {
	names := []string{"nonblock", "wait", "on-lost", "on-lost-exec", "ttl", "max-run", "once-per"}
	for written, want := range map[string]string{
		"nonblok": "nonblock", "wiat": "wait", "on-loss": "on-lost", "max_run": "max-run", "once": "once-per",
		"tll": "ttl", "colour": "", "x": "",
	} {
		assert.Equal(t, closest(written, slices.Clone(names)), want, "%s", written)
	}
}

func TestWordsAreQuotedForAShell(t *testing.T) {
	const want = `a '' 'b c' 'it'\''s' '$x' --k=v/1,2`
	assert.Equal(t, Quote("a", "", "b c", "it's", "$x", "--k=v/1,2"), want, "quote")
}
