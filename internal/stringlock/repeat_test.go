package stringlock

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/neighbour"
	"github.com/holdfast-go/holdfast/internal/neighbour/wiretest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Every script, twice and late. A string key remembers neither a release nor an eviction. So a copy does harm, and no
// store sends one.
func TestACopyOfARequestDoesNoHarm(t *testing.T) {
	wiretest.TwiceAndLate(t, []wiretest.Wire{{
		Name: "string key", Mode: neighbour.Exclusive,
		Open: func(s store.Store) neighbour.Wire {
			n := NewNodes([]store.Store{s})
			t.Cleanup(n.Close)
			return NewWire(n, "somebody's lock")
		},
		Harm: map[string]string{
			"acquire, after a release":             "takes it",
			"acquire a held lock, after a release": "takes it",
			// The store takes these for its own first copy, while its lease could not be over.
			"release, at once":            `answers "expired", not "released"`,
			"cancel, at once":             `answers "expired", not "released"`,
			"evict, at once":              `answers "free", not "evicted"`,
			"evict, after a newer holder": "frees it",
			"evict, instead of the first, after a newer holder": "frees it",
		},
	}}, map[string]*script.Script{
		"acquireScript": acquireScript, "releaseScript": releaseScript, "extendScript": extendScript,
		"readScript": readScript, "evictScript": evictScript,
	}, wiretest.Scripts(t, ".", "load"))
}
