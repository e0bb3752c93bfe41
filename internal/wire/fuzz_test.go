package wire

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// Whatever the name of a lock is: it is refused, or it is one word in one slot, and
// decoding returns it unchanged.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"a", "", "a{b}c", "%41", "100%", "a b\n", "}{", "日本語", "\xff", "holdfast:push:"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		word := Encode(name)
		if CheckName(name) != nil {
			wrong := name == "" || len(name) > MaxName || !utf8.ValidString(name)
			assert.True(t, wrong, "%q is refused", name)
			return
		}
		assert.True(t, !strings.ContainsAny(word, " \t\r\n{}\x00\x7f") && word != "",
			"%q is written as %q", name, word)
		back := Decode(word)
		assert.True(t, back == name, "%q is written as %q and read as %q", name, word, back)
		for _, there := range []string{
			Key("p", name), ChannelPrefix("p", name, true) + "c", PeriodicKey("p", name), Watch("p", name, true),
		} {
			assert.Equal(t, tag(there), word, "%q: the slot of %q is that of", name, there)
		}
	})
}

// No time in an answer is so long that adding to it overflows.
func FuzzTimes(f *testing.F) {
	for _, n := range []uint64{0, 1, 29_984, 3_153_600_000_000, 3_153_600_000_001, 9_223_372_036_854, math.MaxUint64} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n uint64) {
		a, err := Parse("queued 1 " + Number(n) + " 7")
		turn, wrong := ParseRun("early " + Number(n) + " -")
		assert.Equal(t, err == nil, wrong == nil, "%d ms: %v and %v", n, err, wrong)
		for _, d := range []time.Duration{a.Left, turn.Left} {
			assert.True(t, d >= 0 && d <= math.MaxInt64/2, "%d ms are read as %d ns", n, d)
		}
	})
}
