//go:build lockorder && amd64

package lockorder

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

type (
	outer       struct{ mu Mutex[outer] }
	inner       struct{ mu Mutex[inner] }
	list[T any] struct{ mu Mutex[list[T]] }
)

func TestTheOrderIsRecorded(t *testing.T) {
	var a outer
	var b inner
	var c list[int]
	a.mu.Lock()
	b.mu.Lock()
	a.mu.Unlock()
	assert.True(t, c.mu.TryLock(), "free")
	other := make(chan struct{})
	go func() { // holds nothing
		a.mu.Lock()
		a.mu.Unlock()
		close(other)
	}()
	<-other
	c.mu.Unlock()
	c.mu.Lock()
	c.mu.Unlock()
	b.mu.Unlock()
	seen := Seen()
	assert.Equal(t, len(seen), 2, "edges")
	for _, want := range []Edge{{"lockorder.outer", "lockorder.inner"}, {"lockorder.inner", "lockorder.list"}} {
		assert.True(t, slices.Contains(seen, want), "%v is not in %v", want, seen)
	}
}
