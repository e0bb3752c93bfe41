package yield

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// What is ready goes first. The scheduler takes a goroutine out of its order now and then.
func TestWhatIsReadyGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := 0
		for range 1000 {
			arrived, read := make(chan struct{}), make(chan struct{})
			go func() {
				<-arrived
				close(read)
			}()
			synctest.Wait()
			close(arrived)
			<-All()
			select {
			case <-read:
				first++
			default:
			}
			synctest.Wait()
		}
		assert.AtLeast(t, first, 500, "answers were read first")
	})
}

// The context ends with the one that it stands for, or at the deadline of that one.
func TestTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		ctx, stop := Context(parent)
		defer stop()
		assert.NoError(t, ctx.Err())
		cancel()
		<-ctx.Done()
		assert.Is(t, ctx.Err(), context.Canceled)

		start := time.Now()
		ctx, stop = Context(deadlineOnly{t.Context(), start.Add(time.Second)})
		defer stop()
		child, end := context.WithCancel(ctx)
		defer end()
		at, ok := child.Deadline()
		assert.True(t, ok && at.Equal(start.Add(time.Second)), "the deadline is %v, %v", at, ok)
		<-child.Done()
		assert.Equal(t, time.Since(start), time.Second, "ended after")
		assert.Is(t, ctx.Err(), context.DeadlineExceeded)
		assert.Is(t, child.Err(), context.DeadlineExceeded)
	})
}

// A context that was stopped ends, so that whatever has got it stops waiting.
func TestAStoppedContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := Context(t.Context())
		stop()
		<-ctx.Done()
		assert.Is(t, ctx.Err(), context.Canceled)
	})
}

// deadlineOnly is a context whose Done does not follow its deadline.
type deadlineOnly struct {
	context.Context
	at time.Time
}

func (d deadlineOnly) Deadline() (time.Time, bool) { return d.at, true }

// An answer that has arrived is taken, even if a busy process reads it after the end of its wait.
func TestAnAnswerThatHasArrivedIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan int, 1)
		all = func() <-chan struct{} {
			answers <- 1 // read only now
			return All()
		}
		defer func() { all = All }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		answer, answered := Await(answers, ctx.Done(), nil)
		assert.True(t, answered && answer == 1, "got %v, %v", answer, answered)
	})
}

// Without an answer, a wait ends when it should.
func TestWithoutAnAnswerAWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, ends := range [][2]<-chan struct{}{{ctx.Done(), nil}, {nil, ctx.Done()}} {
			_, answered := Await(make(chan int), ends[0], ends[1])
			assert.False(t, answered, "an answer came from nowhere")
		}
	})
}
