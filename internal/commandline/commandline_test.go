package commandline_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/commandline"
)

func TestALengthOfTimeIsSecondsUnlessItSaysOtherwise(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "5": 5 * time.Second, "2.5": 2500 * time.Millisecond, ".5": 500 * time.Millisecond,
		"500ms": 500 * time.Millisecond, "1h30m": 90 * time.Minute,
		"1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "7d": 7 * 24 * time.Hour,
	} {
		var got commandline.Span
		err := got.Set(text)
		assert.True(t, err == nil && time.Duration(got) == want, "%s: %v, %v, want %v", text, got, err, want)
	}
	for _, text := range []string{"", "soon", "5x", "-1", "-1s", "NaN", "Inf", "1e99", "1 s",
		"d", "-1d", "1dx", "1d2", "1dd", "1h1d", "NaNd", "Infd", "1e99d", "99999999d",
	} {
		var got commandline.Span
		assert.True(t, got.Set(text) != nil, "%q is taken for %v", text, got)
	}
}
