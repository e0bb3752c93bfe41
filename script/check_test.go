package script_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

// A replica may not know of a release yet, nor of the next grant. So it refuses a check, also over a connection
// from the time when it was the primary. inspect, which is for people, it answers. Guarantee: G39.
func TestAReplicaRefusesACheck(t *testing.T) {
	conn := redistest.Start(t).Dial(t)
	granted := fmt.Sprint(conn.Do(t, "EVAL", script.Acquire.Text, 1, "c:{a}", "c/1=", 30000, 90000, "x", 0, "c:push:"))
	token := strings.Fields(granted)[1]
	check := func() any { return conn.Do(t, "EVAL", script.Check.Text, 1, "c:{a}", token) }
	assert.Equal(t, check(), any("live"), "at the primary")
	conn.Do(t, "REPLICAOF", "127.0.0.1", 1)
	refused, _ := check().(redistest.Error)
	assert.True(t, strings.HasPrefix(string(refused), "READONLY "), "at a replica: %q", refused)
	seen := fmt.Sprint(conn.Do(t, "EVAL", script.Inspect.Text, 1, "c:{a}"))
	assert.True(t, strings.HasPrefix(seen, "lock "), "inspect at a replica: %q", seen)
}

// A full server answers a check. Guarantee: G14 G39.
func TestAFullServerAnswersACheck(t *testing.T) {
	conn := redistest.Start(t).Dial(t)
	conn.Do(t, "CONFIG", "SET", "maxmemory", 1)
	assert.Equal(t, conn.Do(t, "EVAL", script.Check.Text, 1, "c:{a}", 5), any("free"), "a check")
}
