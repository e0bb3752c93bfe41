package neighbours

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// A short run of each neighbour whose locks are strings. The long ones are make fleet.
func TestFleetsOfStringLocks(t *testing.T) {
	for _, name := range []string{"redsync", "redsync-five", "redislock"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, err := Named(name)
			assert.Must(t, err)
			report, err := Both(t.Context(), n, Options{
				TTL: time.Second, Duration: 5 * time.Second, Seed: 5,
				Clients: 2, Threads: 2, Locks: []string{"l1", "l2"},
				Faults: []string{"stop", "kill", "cut", "reply-lost", "server-kill"}, Tell: func(string, ...any) {},
			})
			assert.Must(t, err)
			if bad := report.Bad(); len(bad) > 0 {
				var b strings.Builder
				_ = report.Write(&b)
				t.Errorf("%v\n%s", bad, b.String())
			}
		})
	}
}
