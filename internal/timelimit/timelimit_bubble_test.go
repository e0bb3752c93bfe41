package timelimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/timelimit"
)

func TestALimitShortensAndNeverLengthens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.True(t, timelimit.Within(soon, time.Minute) == soon, "the caller's deadline was lengthened")
		limited := timelimit.Within(t.Context(), time.Second)
		at, ok := limited.Deadline()
		if !ok || time.Until(at) != time.Second || limited.Err() != nil || limited.Done() != t.Context().Done() {
			t.Errorf("ends in %v: %v", time.Until(at), limited.Err())
		}
		lasting := timelimit.Lasting(soon)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Is(t, limited.Err(), context.DeadlineExceeded)
		assert.True(t, lasting.Done() == nil && lasting.Err() != nil, "a deadline that was ahead: %v", lasting.Err())
		free := timelimit.Lasting(soon)
		assert.True(t, free.Done() == nil && free.Err() == nil, "a context that has ended: %v", free.Err())
		background := context.Background()
		assert.True(t, timelimit.Lasting(background) == background, "a context without an end was wrapped")
		cancelled, stop := context.WithCancel(t.Context())
		stop()
		assert.Is(t, timelimit.Within(cancelled, time.Minute).Err(), context.Canceled)
	})
}

// late is a context whose deadline has passed, and whose timer has not run yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

func TestADeadlineThatHasPassedBoundsNothing(t *testing.T) {
	for _, ctx := range []context.Context{late{t.Context()}, late{context.Background()}} {
		free := timelimit.Lasting(ctx)
		if _, bounded := free.Deadline(); bounded || free.Err() != nil {
			t.Errorf("%v: %v", bounded, free.Err())
		}
	}
}
