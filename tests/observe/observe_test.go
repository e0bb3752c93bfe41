package observe_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// What happened on a real server is in the scrape, by both observers.
func TestAScrapeOfARealRun(t *testing.T) {
	for name := range observers {
		t.Run(name, func(t *testing.T) {
			s := scrape(t, name)
			for _, line := range []string{
				`holdfast_acquire_duration_seconds_count{holdfast_group="invoice",holdfast_mode="exclusive",` +
					`holdfast_outcome="granted",holdfast_waited="true"} 1`,
				`holdfast_acquire_duration_seconds_count{holdfast_group="page",holdfast_mode="shared",` +
					`holdfast_outcome="granted",holdfast_waited="false"} 1`,
				`holdfast_hold_duration_seconds_count{holdfast_end="lost",holdfast_group="invoice",` +
					`holdfast_mode="exclusive"} 1`,
				`holdfast_lost_total{holdfast_group="invoice",holdfast_mode="exclusive",holdfast_reason="evicted"} 1`,
				`holdfast_lost_total{holdfast_group="pool",holdfast_mode="permits",holdfast_reason="evicted"} 0`,
				`holdfast_wakeups_total{holdfast_cause="push",holdfast_group="invoice",holdfast_mode="exclusive"} 1`,
				`holdfast_held{holdfast_group="invoice",holdfast_mode="exclusive"} 0`,
				`holdfast_waiting{holdfast_group="invoice",holdfast_mode="exclusive"} 0`,
			} {
				assert.True(t, strings.Contains(s.text, line+"\n"), "the scrape has no line %s", line)
			}
			if !regexp.MustCompile(`(?m)^holdfast_request_duration_seconds_count\{holdfast_outcome="answered",` +
				`holdfast_script="release"\} [1-9]`).MatchString(s.text) {
				t.Error("no release is counted")
			}
			if t.Failed() {
				t.Log(s.text)
			}
		})
	}
}

// Both observers have the same metrics with the same labels: a dashboard fits both.
func TestBothObserversHaveTheSameNames(t *testing.T) {
	a, b := scrape(t, "prom"), scrape(t, "otel")
	for _, name := range slices.Sorted(maps.Keys(a.names)) {
		assert.True(t, maps.Equal(a.names[name], b.names[name]),
			"%s has the labels %v in prom, and %v in otel", name, a.names[name], b.names[name])
	}
	for name := range b.names {
		assert.True(t, a.names[name] != nil, "%s is only in otel", name)
	}
	assert.AtLeast(t, len(a.names), 15, "names were compared")
}
