package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// The members of a crowd get the lock one after the other, each at least once, and the
// numbers rise.
func TestCrowdOnAServer(t *testing.T) {
	s, err := serve(t.TempDir())
	assert.Must(t, err)
	defer s.Close()
	in, err := json.Marshal(crew.Job{
		Side: "etcd", Addr: s.Clients[0].Addr().String(), Name: "lock", Clients: 2, Each: 2,
		Shift: crew.Shift{For: 2 * time.Second, Record: true},
	})
	assert.Must(t, err)
	var out bytes.Buffer
	assert.Must(t, crew.Serve(bytes.NewReader(in), &out, open))
	var report struct {
		Tally crew.Tally
		Error string
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.Error != "" {
		t.Fatal(err, report.Error)
	}
	turns := make(map[uint64]crew.Turn)
	for _, turn := range report.Tally.Turns {
		if _, twice := turns[turn.Seq]; twice || turn.Seq == 0 {
			t.Errorf("the number %d does not tell two turns apart", turn.Seq)
		}
		turns[turn.Seq] = turn
	}
	for _, a := range report.Tally.Turns {
		for _, b := range report.Tally.Turns {
			if a.Seq < b.Seq && a.Left > b.Got {
				t.Errorf("turn %d was not over when turn %d began", a.Seq, b.Seq)
			}
		}
	}
	assert.True(t, len(turns) >= 4, "%d turns, want one of each member at least", len(turns))
}

func TestRefusals(t *testing.T) {
	if _, err := open("redis", "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "redis") {
		t.Errorf("another side's name: %v", err)
	}
	if err := run([]string{"serve"}); err == nil || !strings.Contains(err.Error(), "usage") {
		t.Errorf("no directory: %v", err)
	}
}
