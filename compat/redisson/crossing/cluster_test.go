//go:build redisson

package crossing

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// In a Cluster a release is told by SPUBLISH or by PUBLISH, as the setting of both sides says. The lease is
// long, so that only the message can wake the waiter of Redisson.
func TestInAClusterEitherSideWakesTheOther(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Tenant(""))
	for _, pair := range sides()[:2] {
		for _, mode := range []string{"AUTO", "ON", "OFF"} {
			t.Run(fmt.Sprintf("%s, %s and %s", mode, pair[0].name, pair[1].name), func(t *testing.T) {
				settings := Settings{Nodes: c.Addrs(), Sharded: mode}
				w := world{cluster: c, a: run(t, pair[0], settings), b: run(t, pair[1], settings)}
				plain := name()
				for _, n := range []string{plain, "{" + plain + "}:a", "b:{" + plain + "}:c", name(), name()} {
					say(t, "locked", w.a, "1", "lock", "lock", n, long)
					say(t, "busy", w.b, "1", "try", "lock", n, 0, 0)
					waits := w.b.Begin("1", "lock", "lock", n, long)
					w.heard(t, channel(n), 1)
					none(t, waits)
					say(t, "unlocked", w.a, "1", "unlock", "lock", n)
					is(t, "locked", waits)
					say(t, "unlocked", w.b, "1", "unlock", "lock", n)
				}
			})
		}
	}
}
