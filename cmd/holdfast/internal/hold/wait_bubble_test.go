package hold

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/memstore"
)

// Over a quorum, wait asks once a second, and yet no longer than --wait says.
func TestAWaitOverAQuorumEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := holdfast.New(memstore.New(), holdfast.Config{})
		assert.Must(t, err)
		defer c.Close(context.Background())
		l, err := c.Mutex("nightly").TryLock(t.Context())
		assert.Must(t, err)
		for _, wait := range []time.Duration{0, 300 * time.Millisecond, 1500 * time.Millisecond} {
			o := &runOptions{names: []string{"nightly"}, wait: commandline.Span(wait), limited: true}
			began := time.Now()
			assert.Is(t, o.pollFree(t.Context(), c), holdfast.ErrHeld)
			assert.Equal(t, time.Since(began), wait, "the time")
		}
		assert.Must(t, l.Release(t.Context()))
	})
}
