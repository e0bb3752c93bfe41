package screen

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestKeysAreDecoded(t *testing.T) {
	for _, c := range []struct {
		in   string
		over bool
		keys []string
		rest string
	}{
		{"q", false, []string{"q"}, ""},
		{"\x1b[A\x1b[B\x1bOA", false, []string{"up", "down", "up"}, ""},
		{"\x1b[5~\x1b[6~g", false, []string{"pgup", "pgdn", "g"}, ""},
		{"\r\x7f\x03/ä ", false, []string{"enter", "backspace", "ctrl-c", "/", "ä", " "}, ""},
		{"a\x1b", false, []string{"a"}, "\x1b"},    // perhaps the beginning of a key
		{"\x1b", true, []string{"esc"}, ""},        // it was none
		{"\x1bq", false, []string{"esc", "q"}, ""}, // two keys
		{"\x1b[", false, nil, "\x1b["},             // cut by the connection
		{"\x1b[1;5A", false, nil, ""},              // a key that top does not have
		{"\x1b[<35;1;1M", false, nil, ""},          // a mouse
		{"\xc3", false, nil, "\xc3"},               // half a character
		{"\xc3", true, nil, ""},                    // which stays half
		{"\x1b[", true, []string{"esc", "["}, ""},  // two keys, slowly
		{"\x00\x1a\x9b", false, nil, "\x9b"[:0]},   // control characters
		{"\x1b\x1b[A", false, []string{"esc", "up"}, ""},
	} {
		keys, rest := decodeKeys([]byte(c.in), c.over)
		assert.True(t, slices.Equal(keys, c.keys) && string(rest) == c.rest,
			"%q: %q and %q are left, want %q and %q", c.in, keys, rest, c.keys, c.rest)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("\x1b[A\x1b\x1b[5~q"))
	f.Fuzz(func(t *testing.T, in []byte) {
		_, rest := decodeKeys(in, true)
		assert.True(t, len(rest) == 0, "%q: %q is left at the end", in, rest)
	})
}
