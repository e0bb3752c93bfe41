package adapter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/yield"
)

// in returns the Deadline of a request that has d from now on.
func (ds *Deadlines) in(t *testing.T, d time.Duration) *Deadline {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return ds.Of(ctx)
}

func passed(d *Deadline) bool {
	select {
	case <-d.Passed():
		return true
	default:
		return false
	}
}

// A request's deadline passes within the granularity, and not too early.
func TestADeadlinePassesWithinTheGranularity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ds Deadlines
		first := ds.in(t, time.Second)
		assert.Equal(t, ds.in(t, time.Second), first, "requests of the same moment do not share their limit")
		time.Sleep(granularity / 2)
		later := ds.in(t, time.Second)
		time.Sleep(time.Second - granularity/2)
		assert.False(t, passed(first) || passed(later), "a limit passed before its deadline")
		time.Sleep(granularity)
		synctest.Wait()
		assert.True(t, passed(first), "a limit has not passed a grain after its deadline")
		time.Sleep(granularity)
		synctest.Wait()
		assert.True(t, passed(later), "the second has not passed a grain after its deadline")
	})
}

// No timer is left once the requests have ended and Deadlines is stopped. (A timer that fired
// later would close a closed channel, and panic.)
func TestNoTimerOutlivesItsRequestsAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ds Deadlines
		one, same := ds.in(t, time.Second), ds.in(t, time.Second)
		other := ds.in(t, time.Minute)
		one.Leave()
		assert.False(t, passed(one), "a limit ended under a request that waits for it")
		same.Leave()
		assert.True(t, passed(one), "a limit that no request waits for is kept")
		other.Leave()
		assert.False(t, passed(other), "the newest is not kept for the next request")
		assert.Equal(t, ds.in(t, time.Minute), other, "the next request has a timer of its own")
		ds.Stop()
		assert.False(t, passed(other), "the Alarm's end ended a limit under a request")
		other.Leave()
		assert.True(t, passed(other), "the newest is kept though the Alarm has ended")
		idle := ds.in(t, time.Second)
		idle.Leave()
		ds.Stop()
		assert.True(t, passed(idle), "Stop left a timer that no request waits for")
		ds.Stop()
		time.Sleep(time.Hour)
	})
}

// Whatever a request leaves behind with its context sees that the request has ended.
func TestABoundedContextEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ds Deadlines
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		deadline := ds.Of(ctx)
		left, stop := context.WithCancel(Bounded(ctx, deadline))
		defer stop()
		deadline.Leave()
		ds.Stop()
		<-left.Done()
		assert.True(t, left.Err() != nil, "its context is done without an error")
	})
}

// An answer that has arrived is taken, even if a busy process reads it after its deadline.
func TestAnAnswerThatHasArrivedIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan int, 1)
		settled = func() <-chan struct{} {
			done <- 1 // read only now
			return yield.All()
		}
		defer func() { settled = yield.All }()
		var ds Deadlines
		deadline := ds.in(t, time.Second)
		defer deadline.Leave()
		answer, ok := yield.Await(done, nil, deadline.Passed())
		assert.True(t, ok && answer == 1, "got %v, %v", answer, ok)
	})
}

// A context that ends another way ends with its caller's, or when the deadline passes, and serves again only if it
// has not ended.
func TestAnEndingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ds Deadlines
		for name, want := range map[string]error{
			"answered": nil, "cancelled": context.Canceled, "late": context.DeadlineExceeded,
		} {
			parent, cancel := context.WithCancel(t.Context())
			deadline := ds.in(t, time.Second)
			e := ds.Until(parent, deadline)
			_, limited := e.Deadline()
			assert.False(t, limited, "%s: it has a deadline", name)
			assert.NoError(t, e.Err())
			if want == nil {
				e.Stop()
				cancel()
				time.Sleep(2 * time.Second)
				assert.False(t, e.ended.Load(), "it has ended after the answer")
				continue
			}
			time.Sleep(time.Second / 2)
			if errors.Is(want, context.Canceled) {
				cancel()
			}
			<-e.Done()
			assert.Is(t, e.Err(), want)
			e.Stop()
			deadline.Leave()
			cancel()
			next := ds.Until(t.Context(), nil)
			assert.True(t, next != e, "%s: it serves again", name)
			next.Stop()
		}
		ds.Stop()
	})
}

// A request that was left ends when its caller has left, and no sooner.
func TestARequestEndsWhenItsCallerHasLeft(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	ctx := Left(parent, left)
	cancel()
	assert.NoError(t, ctx.Err())
	close(left)
	<-ctx.Done()
	assert.Is(t, ctx.Err(), context.Canceled)
}

// A request without a deadline has no limit.
func TestARequestWithoutADeadlineHasNone(t *testing.T) {
	var ds Deadlines
	d := ds.Of(t.Context())
	assert.True(t, d == nil && d.Passed() == nil, "want no limit, got %v", d)
	d.Leave()
}
