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
	err = json.Unmarshal(out.Bytes(), &report)
	assert.MustTrue(t, err == nil && report.Error == "", "%v %v", err, report.Error)
	turns := make(map[uint64]crew.Turn)
	for _, turn := range report.Tally.Turns {
		_, twice := turns[turn.Seq]
		assert.True(t, !twice && turn.Seq != 0, "the number %d does not tell two turns apart", turn.Seq)
		turns[turn.Seq] = turn
	}
	for _, a := range report.Tally.Turns {
		for _, b := range report.Tally.Turns {
			assert.False(t, a.Seq < b.Seq && a.Left > b.Got, "turn %d was not over when turn %d began", a.Seq, b.Seq)
		}
	}
	assert.True(t, len(turns) >= 4, "%d turns, want one of each member at least", len(turns))
}

func TestRefusals(t *testing.T) {
	_, err := open("redis", "127.0.0.1:1")
	assert.True(t, err != nil && strings.Contains(err.Error(), "redis"), "another side's name: %v", err)
	err = run([]string{"serve"})
	assert.True(t, err != nil && strings.Contains(err.Error(), "usage"), "no directory: %v", err)
}
