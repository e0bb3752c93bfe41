//go:build redisson

package crossing

import (
	"fmt"
	"path/filepath"
	"testing"
)

// times is how often each thread goes in. There are six of them, of two processes.
const times = 400

func TestNobodyIsInWithAnother(t *testing.T) {
	crossed(t, func(t *testing.T, a, b side) {
		w := open(t, a, b, Settings{})
		for _, kind := range []string{"lock", "fair", "fenced", "write", "multi"} {
			t.Run(kind, func(t *testing.T) {
				n := name()
				if kind == "multi" {
					n = n + "," + name()
				}
				file := filepath.Join(t.TempDir(), "in")
				if err := NewFile(file); err != nil {
					t.Fatal(err)
				}
				var all []*Answer
				entries := int64(0)
				for i := range 3 {
					for _, p := range []*Process{w.a, w.b} {
						all = append(all, p.Begin(fmt.Sprint(kind, i), "cross", kind, n, times, file))
						entries += times
					}
				}
				if kind == "write" { // readers look that nobody writes
					all = append(all, w.a.Begin("reader", "cross", "read", n, times, file),
						w.b.Begin("reader", "cross", "read", n, times, file))
				}
				for _, answer := range all {
					if met, err := answer.Wait(); err != nil || met != "0" {
						t.Errorf("%s times another was in: %v", met, err)
					}
				}
				if count, err := Count(file); err != nil || count != entries {
					t.Errorf("%d of %d entries are counted: %v", count, entries, err)
				}
			})
		}
	})
}
