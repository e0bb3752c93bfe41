package report_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/verify/check"
	"github.com/holdfast-go/holdfast/verify/history"
	"github.com/holdfast-go/holdfast/verify/report"
	"github.com/holdfast-go/holdfast/verify/suite"
)

// A record is added to run by run, and its sum is that of all of them.
func TestARecordIsContinued(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record.jsonl")
	if record, err := report.ReadRecord(file); err != nil || len(record) > 0 {
		t.Fatalf("a record that is not there: %v, %v", record, err)
	}
	round := suite.Round{
		Setup: history.Setup{Topology: "sentinel", Server: "sentinel, redis 9", Seed: 7,
			Faults: []string{"kill", "cut", "server-pause", "busy"}},
		Elapsed: time.Minute, Recoveries: []time.Duration{3 * time.Second, 20 * time.Millisecond},
		Tally: suite.Tally{
			Acquisitions: map[string]int{"mutex": 600}, Faults: map[string]int{"kill": 2, "cut": 1}, Paired: 2,
			Pairs: map[string]int{"cut+kill": 1}, Refused: map[string]int{"busy": 30},
		},
	}
	for range 2 {
		assert.Must(t, report.Append(file, report.NewEntry(round, "v1", time.Unix(0, 0))))
	}
	round.Checks = []check.Result{{Name: "order", Examined: 8, Excused: 2,
		Violations: []check.Finding{{Lock: "l", Text: "it was not"}}}}
	assert.Must(t, report.Append(file, report.NewEntry(round, "v1", time.Unix(0, 0))))
	ended := suite.Round{Setup: history.Setup{Topology: "sentinel"}, Error: "no server starts"}
	assert.Must(t, report.Append(file, report.NewEntry(ended, "v1", time.Unix(0, 0))))
	record, err := report.ReadRecord(file)
	assert.MustTrue(t, err == nil && len(record) == 4, "%d rounds, %v", len(record), err)
	met := report.Met(record, "sentinel")
	assert.True(t, met["cut+kill"] == 3 && len(report.Met(record, "cluster")) == 0, "got %v", met)
	page := report.Summary(record)
	for _, want := range []string{
		"| sentinel | 3, 3 | 1800 | 10 | 9 | 3 | 6 | 0 | 1 of 7 | 1 | 0 |",
		"seed 7. **open**\n  - order: l it was not", "| busy | 90 |", "| 2 cut | 3 |", "(b) one of them makes",
		"| redis 9 | v1 | 3 | 1800 | 9 | 1 |", "| sentinel | 6 | 20 ms | 3000 ms | 3000 ms |", "| order | 8 | 2 |",
		"which count for nothing: 1.",
	} {
		assert.Contains(t, page, want)
	}
}
