//go:build redisson

package crossing

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
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
				assert.Must(t, NewFile(file))
				var readers []*Answer
				if kind == "write" { // readers look that nobody writes
					for _, p := range []*Process{w.a, w.b} {
						readers = append(readers, p.Begin("reader", "cross", "read", n, times, file))
					}
				}
				entriesOf(t, file, 6*times, func(i int) *Answer {
					return []*Process{w.a, w.b}[i%2].Begin(fmt.Sprint(kind, i), "cross", kind, n, times, file)
				}, readers...)
			})
		}
	})
}

// entriesOf starts six threads, and fails the test if somebody met another, or if an entry is missing.
func entriesOf(t *testing.T, file string, entries int64, begin func(i int) *Answer, more ...*Answer) {
	t.Helper()
	all := more
	for i := range 6 {
		all = append(all, begin(i))
	}
	for _, answer := range all {
		if met, err := answer.Wait(); err != nil || met != "0" {
			t.Errorf("%s times another was in: %v", met, err)
		}
	}
	if count, err := Count(file); err != nil || count != entries {
		t.Errorf("%d of %d entries are counted: %v", count, entries, err)
	}
}
