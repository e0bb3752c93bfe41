package order

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestStableIsAStableSort(t *testing.T) {
	type pair struct{ key, place int }
	for n := range 100 {
		list := make([]pair, n)
		for i := range list {
			list[i] = pair{rand.IntN(n/3 + 1), i}
		}
		want := slices.Clone(list)
		slices.SortStableFunc(want, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
		Stable(list, func(a, b *pair) int { return cmp.Compare(a.key, b.key) })
		assert.MustTrue(t, slices.Equal(list, want), "%v, want %v", list, want)
	}
}
