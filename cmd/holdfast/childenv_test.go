package main

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/waitsfor"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// What the runs around this one hold is read from the chain: of this server and prefix only, and
// whatever the names are. A word of an older holdfast, without a client, is no such hold.
func TestTheHoldsOfOuterRuns(t *testing.T) {
	const here, there = "redis://h:1", "redis://h:2"
	odd := "a b}{#@=%\n日本"
	words := []string{
		link(here, wire.Key("p", odd), ""), clientOf("c1"),
		link(here, wire.Key("p", "y"), "an owner"), clientOf("c2"),
		link(there, wire.Key("p", "z"), ""), clientOf("c3"),
		link(here, wire.Key("q", "z"), ""), clientOf("c4"),
		link(here, wire.Key("p", "old"), ""),
		link(here, wire.Key("p", "last"), ""), clientOf("c5"),
	}
	want := []waitsfor.Outer{{Lock: odd, Client: "c1"}, {Lock: "y", Client: "c2"}, {Lock: "last", Client: "c5"}}
	chain := strings.Join(words, " ")
	assert.EqualSlices(t, outerHolds(chain, here, "p"), want, "outerHolds")
	for _, chain := range []string{"", "=", "x", "= =", link(here, wire.Key("p", "a"), "") + " ="} {
		got := outerHolds(chain, here, "p")
		assert.True(t, got == nil, "%q: %q", chain, got)
	}
	if !within(chain, here, wire.Key("p", "old"), "") || !within(chain, here, wire.Key("p", odd), "") ||
		within(chain, here, wire.Key("p", "z"), "") || within(chain, here, wire.Key("p", "y"), "an owner") {
		t.Error("a lock of an outer run is not found, or another one is")
	}
}
