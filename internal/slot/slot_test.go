package slot_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/slot"
)

// The server computes the slot of a key.
func TestSlotsAreTheServers(t *testing.T) {
	s := redistest.Start(t, redistest.Args("--cluster-enabled", "yes"), redistest.BusPort())
	c := s.Dial(t)
	for _, key := range []string{
		"", "x", "123456789", "holdfast:{invoice/42}", "holdfast:push:{invoice/42}:client", "a{b}c{d}", "{}x", "{}{x}",
		"a}{b}", "{open", "}{", "ümläut {世界}", "nul\x00{\x00}\xff",
	} {
		got, want := int64(slot.Of(key)), c.Do(t, "CLUSTER", "KEYSLOT", key)
		assert.True(t, got == want, "slot of %q: %d, want %v", key, got, want)
	}
	if slot.Of("holdfast:{a}") != slot.Of("holdfast:push:{a}:b") || slot.Group("x{a}") != slot.Group("{a}") {
		t.Error("a hash tag does not hold its keys together")
	}
}
