package backoff_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/backoff"
)

func TestPausesDoubleUpToTheLongest(t *testing.T) {
	e := backoff.Default
	for _, test := range []struct {
		failures int
		spread   float64
		want     time.Duration
	}{
		{0, 1, 10 * time.Millisecond},
		{0, 0, 5 * time.Millisecond},
		{1, 1, 20 * time.Millisecond},
		{3, 0.5, 60 * time.Millisecond},
		{6, 1, 640 * time.Millisecond},
		{7, 1, time.Second},
		{7, 0, 500 * time.Millisecond},
		{1 << 40, 1, time.Second},
	} {
		assert.Equal(t, e.After(test.failures, test.spread), test.want,
			"after %d failures, spread %v", test.failures, test.spread)
	}
}
