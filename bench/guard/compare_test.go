package main

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/bench/figures"
	"github.com/holdfast-go/holdfast/internal/assert"
)

func one(metric string, values ...float64) *figures.Figures {
	f := figures.New()
	f.Samples["Pair"] = map[string][]float64{metric: values}
	return f
}

func TestCompare(t *testing.T) {
	latency := []float64{1.50, 1.51, 1.52, 1.53, 1.54, 1.55, 1.56, 1.57}
	for _, c := range []struct {
		name, metric string
		was, is      []float64
		want         string
	}{
		{"same", "x-raw-p50", latency, latency, "ok"},
		{"a latency that rose", "x-raw-p50", latency, []float64{2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7}, "LOST"},
		{"a latency that fell", "x-raw-p50", latency, []float64{1.0, 1.1, 1.12, 1.13, 1.14, 1.15, 1.16, 1.17}, "won"},
		{"a little worse", "x-raw-p50", latency, []float64{1.60, 1.61, 1.62, 1.63, 1.64, 1.65, 1.66, 1.67}, "ok"},
		{"a rate that fell", "x-raw-rate", []float64{9, 9.1, 9.2, 9.3, 9.4, 9.5, 9.6, 9.7},
			[]float64{5, 5.1, 5.2, 5.3, 5.4, 5.5, 5.6, 5.7}, "LOST"},
		{"a rate that rose", "x-raw-rate", []float64{5, 5.1, 5.2, 5.3, 5.4, 5.5, 5.6, 5.7},
			[]float64{9, 9.1, 9.2, 9.3, 9.4, 9.5, 9.6, 9.7}, "won"},
		{"much worse at times", "x-raw-p50", latency, []float64{1.50, 1.51, 1.52, 1.9, 2, 2.1, 2.2, 2.3}, "ok"},
	} {
		verdicts, err := compare(one(c.metric, c.was...), one(c.metric, c.is...))
		assert.MustTrue(t, err == nil && len(verdicts) == 1, "%s: %v, %v", c.name, verdicts, err)
		got := verdicts[0].String()
		assert.True(t, strings.HasPrefix(got, c.want), "%s: %q, want %s", c.name, got, c.want)
	}
}

func TestABenchmarkThatIsGone(t *testing.T) {
	if _, err := compare(one("x-raw-p50", 1, 2), figures.New()); err == nil || !strings.Contains(err.Error(), "Pair") {
		t.Errorf("a recorded ratio that is not measured any more: %v", err)
	}
}
