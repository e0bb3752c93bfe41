package neighbour

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// The server itself sees to it that a repeatable script of a wire changes nothing, whenever a copy arrives.
func TestOnlyAScriptThatCannotWriteIsRepeatedOnAWire(t *testing.T) {
	assert.True(t, NewScript("inspect", Repeats, "#!lua flags=no-writes\nreturn 'free'").Repeats, "it may be repeated")
	assert.False(t, NewScript("inspect", Once, "#!lua flags=no-writes\nreturn 'free'").Repeats, "it may not")
	for _, text := range []string{"return 'free'", "#!lua\nreturn 'free'", "#!lua flags=allow-oom\nreturn 'free'"} {
		func() {
			defer func() { assert.True(t, recover() != nil, "%q was accepted", text) }()
			NewScript("inspect", Repeats, text)
		}()
	}
}
