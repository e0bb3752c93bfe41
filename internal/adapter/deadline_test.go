package adapter

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestLingering(t *testing.T) {
	at := time.Now().Add(time.Hour)
	parent, cancel := context.WithDeadline(t.Context(), at)
	left := make(chan struct{})
	ctx := Lingering(parent, left)
	if deadline, ok := ctx.Deadline(); !ok || !deadline.Equal(at.Add(LingerTime)) {
		t.Errorf("the deadline is %v after the caller's, %v", deadline.Sub(at), ok)
	}
	cancel()
	assert.NoError(t, ctx.Err())
	close(left)
	<-ctx.Done()
	assert.Is(t, ctx.Err(), context.Canceled)
	deadline, ok := Lingering(context.Background(), left).Deadline()
	assert.True(t, !ok, "a caller without a deadline got %v", deadline)
}

// A new client is steady sooner than one of whose requests one got no answer.
func TestSteady(t *testing.T) {
	var s Steady
	for _, enough := range []int{enoughAtFirst, enoughAgain, enoughAgain} {
		for range enough - 1 {
			s.Note(true)
		}
		assert.False(t, s.Reached(), "steady before %d answers", enough)
		s.Note(true)
		assert.True(t, s.Reached(), "not steady after %d answers", enough)
		for range enoughAgain { // more answers than enough do not count
			s.Note(true)
		}
		s.Note(false)
		assert.False(t, s.Reached(), "steady after a request without an answer")
	}
}
