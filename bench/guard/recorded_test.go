package main

import (
	"testing"

	"github.com/holdfast-go/holdfast/bench/figures"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// The record has enough samples to find a loss.
func TestRecorded(t *testing.T) {
	f, err := figures.Load("../recorded.json")
	assert.Must(t, err)
	verdicts, err := compare(f, f)
	assert.True(t, err == nil && len(verdicts) >= 8,
		"%d ratios are recorded, want 8 or more: %v", len(verdicts), err)
	for _, name := range f.Names() {
		for metric, values := range f.Samples[name] {
			assert.True(t, len(values) >= toRecord,
				"%s: %s has %d samples, want %d", name, metric, len(values), toRecord)
		}
	}
}
