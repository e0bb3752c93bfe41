package rules_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// Rule 7. Each shared holder has a lease of its own: one that asks for less
// shortens nobody's, one that dies leaves alone. The library shows no shared
// locks yet; the protocol has them.
func TestEverySharedHolderHasALeaseOfItsOwn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		store := w.open(t, harness.Login{})
		keys := []string{harness.Key("x")}
		acquire := func(attempt, ttl, want string) string {
			answer := run(t, store, script.Acquire, keys, attempt, ttl, "61000", want, "0", pushes)
			word, _, _ := strings.Cut(answer, " ")
			return word
		}
		assert.MustEqual(t, acquire("a/1", "60000", "s"), "granted", "the first reader")
		assert.MustEqual(t, acquire("b/1", "1", "s"), "granted", "the second reader")
		// The second one's lease ends; the first one's goes on.
		redistest.Await(t, "the short lease is over", func() bool {
			return !strings.Contains(run(t, store, script.Inspect, keys), " b/1 ")
		})
		assert.Equal(t, acquire("c/1", "60000", "x"), "busy", "a writer beside a reader")
		assert.Equal(t, run(t, store, script.Renew, keys, "1000", "60000", "a/1"), "renewed 0",
			"the first reader's renewal")
		assert.Equal(t, run(t, store, script.Renew, keys, "1000", "60000", "b/1"), "renewed -",
			"the dead reader's renewal")
		run(t, store, script.Cancel, keys, "a/1", "1000", pushes)
		assert.Equal(t, acquire("c/1", "60000", "x"), "granted", "a writer after the last reader")

		// Permits: the dead ones' come back, each when its own lease ends.
		keys = []string{harness.Key("y")}
		for _, step := range [][3]string{
			{"a/1", "60000", "granted"}, {"b/1", "1", "granted"}, {"c/1", "60000", "granted"},
		} {
			if step[0] == "c/1" {
				redistest.Await(t, "the permit is back", func() bool {
					return !strings.Contains(run(t, store, script.Inspect, keys), " b/1 ")
				})
			}
			if got := acquire(step[0], step[1], "p:1:2"); got != step[2] {
				t.Errorf("a permit for %s: %s", step[0], got)
			}
		}
		assert.Equal(t, acquire("d/1", "60000", "p:1:2"), "busy", "a third permit of two")
	})
}
