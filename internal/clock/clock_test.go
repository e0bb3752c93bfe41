package clock

import (
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestNowNeverGoesBack(t *testing.T) {
	last := Now()
	for range 100_000 {
		n := Now()
		assert.MustTrue(t, n >= last, "clock went back from %v to %v", last, n)
		last = n
	}
}

func TestNowRunsAtTheRateOfTheMachine(t *testing.T) {
	// Both clocks measure the same busy interval. The outer one must measure at least as
	// much as the inner one.
	outer := Now()
	inner := time.Now()
	for time.Since(inner) < 5*time.Millisecond {
		runtime.Gosched()
	}
	elapsed := time.Since(inner)
	got := Now() - outer
	assert.MustTrue(t, got >= elapsed, "clock advanced %v while at least %v passed", got, elapsed)
}

func TestFallbackNeverGoesBackEither(t *testing.T) {
	last := fallback()
	for range 10_000 {
		n := fallback()
		if n < last-time.Millisecond { // wall steps of NTP may show here, never more
			t.Fatalf("fallback went back from %v to %v", last, n)
		}
		last = max(last, n)
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
