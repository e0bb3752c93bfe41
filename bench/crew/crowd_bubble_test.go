package crew

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// free is a lock that is free as soon as it is opened, and is never held for long.
func free(opened <-chan struct{}) Enter {
	return func(context.Context) (uint64, func(context.Context) error, error) {
		<-opened
		return 1, func(context.Context) error { return nil }, nil
	}
}

// never is a lock that is never granted; it closes asked at the first request.
func never(asked chan<- struct{}) Enter {
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		close(asked)
		<-ctx.Done()
		return 0, nil, ctx.Err()
	}
}

func TestWorkTellsWhoGotWhat(t *testing.T) { synctest.Test(t, workTellsWhoGotWhat) }

func workTellsWhoGotWhat(t *testing.T) {
	asked := make(chan struct{})
	s := Shift{For: 2 * time.Second, Grace: time.Millisecond, Pause: time.Millisecond, Record: true, Sample: true}
	got, err := Work(context.Background(), []Enter{free(asked), never(asked), free(asked)}, s)
	assert.Must(t, err)
	assert.True(t, got.Counts[0] != 0 && got.Counts[1] == 0 && got.Counts[2] != 0 && got.Starved == 1,
		"counts %v, %d starved", got.Counts, got.Starved)
	if n := got.Sum() + got.Late; len(got.Turns) != n || len(got.Samples) != n {
		t.Errorf("%d turns, %d recorded, %d sampled", n, len(got.Turns), len(got.Samples))
	}
	if got.Took != s.For || got.Rate() != float64(got.Sum())/s.For.Seconds() {
		t.Errorf("%v a second in %v", got.Rate(), got.Took)
	}
}

func TestWorkFailsWithItsMember(t *testing.T) {
	broken := errors.New("broken")
	fail := func(context.Context) (uint64, func(context.Context) error, error) { return 0, nil, broken }
	for _, grace := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			_, err := Work(t.Context(), []Enter{fail}, Shift{For: time.Millisecond, Grace: grace})
			assert.True(t, errors.Is(err, broken), "grace %v: %v", grace, err)
		})
	}
}

func TestTalliesAddUp(t *testing.T) {
	one := Tally{Counts: []int{1, 2}, Late: 1, Starved: 1, Worst: 5, Took: time.Second, Mallocs: 3}
	var later, beside Tally
	later.Add(one, true)
	later.Add(one, true)
	assert.False(t, later.Sum() != 6 || later.Took != 2*time.Second || len(later.Counts) != 2 || later.Rate() != 3,
		"the same crowd later: %+v", later)
	beside.Add(one, false)
	beside.Add(one, false)
	assert.True(t, beside.Sum() == 6 && beside.Took == time.Second && len(beside.Counts) == 4 && beside.Starved == 2,
		"another crowd beside it: %+v", beside)
}

func TestServeReportsWhatCannotBeOpened(t *testing.T) {
	in, err := json.Marshal(Job{Side: "x", Clients: 1, Each: 1})
	assert.Must(t, err)
	var out bytes.Buffer
	open := func(string, string) (Client, error) { return nil, errors.New("closed") }
	if err := Serve(bytes.NewReader(in), &out, open); err != nil || !strings.Contains(out.String(), "x: closed") {
		t.Errorf("%v, %s", err, &out)
	}
	assert.True(t, Serve(strings.NewReader("{"), &out, open) != nil, "half a job was served")
}
