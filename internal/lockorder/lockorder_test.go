package lockorder

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

const page = `
| mutex | guards | locked under it |
|---|---|---|
| ` + "`a.A`" + ` | the one, not ` + "`c.C`" + ` | ` + "`b.B`, `c.C`" + ` |
| ` + "`b.B`" + ` | the other | – |
`

func TestTheTableNamesWhatMayBeLocked(t *testing.T) {
	for _, e := range []struct {
		page string
		seen []Edge
		want string
	}{
		{page, []Edge{{"a.A", "b.B"}, {"a.A", "c.C"}}, ""},
		{page, []Edge{{"b.B", "a.A"}}, "a.A is locked under b.B"},
		{page + "| `b.B` | | `c.C` |\n| `c.C` | | `a.A` |\n", nil, "a circle: a.A → b.B → c.C → a.A"},
		{page, []Edge{{"b.B", "b.B"}}, "b.B is locked under b.B"},
		{page + "| `b.B` | | `b.B` |\n", []Edge{{"b.B", "b.B"}}, ""},
	} {
		assert.Equal(t, strings.Join(Differences(e.page, e.seen), "; "), e.want, "differences")
	}
}
