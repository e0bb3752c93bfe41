//go:build redisson

package crossing

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// In a Cluster a release is told by SPUBLISH or by PUBLISH, as the setting of both sides says. The lease is
// long, so that only the message can wake the waiter of Redisson. Names with and without a hash tag are
// on several nodes.
func TestInAClusterEitherSideWakesTheOther(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Tenant(""))
	for _, pair := range sides()[:2] {
		for _, mode := range []string{"AUTO", "ON", "OFF"} {
			t.Run(fmt.Sprintf("%s, %s and %s", mode, pair[0].name, pair[1].name), func(t *testing.T) {
				settings := Settings{Nodes: c.Addrs(), Sharded: mode}
				w := world{cluster: c, a: run(t, pair[0], settings), b: run(t, pair[1], settings)}
				for _, kind := range lossy {
					plain := name()
					for _, n := range []string{plain, "{" + plain + "}:a", "b:{" + plain + "}:c", name(), name()} {
						w.hands(t, kind, n)
					}
				}
			})
		}
	}
}

// hands gives a lock from the first side to the second: a reader's to a writer.
func (w world) hands(t *testing.T, kind, n string) {
	t.Helper()
	if kind == "permits" {
		say(t, "true", w.a, "0", "permits", n, 1)
		if answer, err := wait(t, w.b.Begin("0", "permits", n, 1)); err != nil {
			t.Fatal(answer, err)
		}
	}
	acquire, release, acquired := commands(kind, n, -1)
	try, _, _ := commands(opposite(kind), n, 0)
	other, otherRelease, _ := commands(opposite(kind), n, -1)
	say(t, acquired, w.a, "1", acquire...)
	say(t, "busy", w.b, "1", try...)
	waits := w.b.Begin("1", other...)
	w.heardOf(t, kind, n)
	none(t, waits)
	if answer, err := wait(t, w.a.Begin("1", release...)); err != nil || answer == "not-held" {
		t.Fatal(answer, err)
	}
	is(t, acquired, waits)
	if answer, err := wait(t, w.b.Begin("1", otherRelease...)); err != nil || answer == "not-held" {
		t.Fatal(answer, err)
	}
}
