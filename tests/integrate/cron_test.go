package integrate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integrate/cronlock"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// once is a schedule with one run, soon after the scheduler first asks: on a busy machine it may start late.
type once struct{ asked bool }

func (o *once) Next(after time.Time) time.Time {
	if o.asked {
		return time.Time{} // never
	}
	o.asked = true
	return after.Add(10 * time.Millisecond)
}

// reports is what a wrapper logs.
type reports struct {
	infos chan string
	errs  chan error
}

func newReports() reports { return reports{make(chan string, 99), make(chan error, 99)} }

func (r reports) Info(msg string, _ ...any)           { r.infos <- msg }
func (r reports) Error(err error, _ string, _ ...any) { r.errs <- err }

// runCron runs the job once, by a scheduler of its own.
func runCron(t *testing.T, job cron.Job, chain ...cron.JobWrapper) {
	t.Helper()
	c := cron.New()
	c.Schedule(new(once), cron.NewChain(chain...).Then(job))
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
}

func TestOneOfManyCronsRunsAJob(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	logger := newReports()
	ran, finish := make(chan struct{}, 9), make(chan struct{})
	for range 4 {
		single := cronlock.Single(t.Context(), newClient(t, server).Mutex("report"), logger)
		runCron(t, cronlock.Func(func(context.Context) error {
			ran <- struct{}{}
			<-finish
			return nil
		}), single)
	}
	redistest.Next(t, "the run", ran)
	for range 3 {
		assert.Equal(t, redistest.Next(t, "a skipped run", logger.infos), "skip", "logged")
	}
	close(finish)
	assert.NoError(t, newClient(t, server).Mutex("report").AwaitFree(t.Context()))
	assert.True(t, len(ran) == 0 && len(logger.errs) == 0, "%d more runs, %d errors", len(ran), len(logger.errs))
}

func TestALostLockEndsTheContextOfACronJob(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, logger := newClient(t, server), newReports()
	began, causes := make(chan struct{}), make(chan error, 1)
	runCron(t, cronlock.Func(func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil
	}), cronlock.Single(t.Context(), newClient(t, server).Mutex("report"), logger))
	redistest.Next(t, "the run", began)
	evict(t, client, "report")
	assert.Is(t, redistest.Next(t, "the end of the job's context", causes), holdfast.ErrLost)
	assert.Is(t, redistest.Next(t, "the log", logger.errs), holdfast.ErrNotHeld)
}

func TestAContextEndsACronJobThatReleasesItsLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx, stop := context.WithCancel(t.Context())
	began, causes := make(chan struct{}), make(chan error, 1)
	runCron(t, cronlock.Func(func(ctx context.Context) error {
		close(began)
		select {
		case <-ctx.Done():
		case <-t.Context().Done(): // otherwise a failed test would wait for the job
		}
		causes <- context.Cause(ctx)
		return nil
	}), cronlock.Single(ctx, newClient(t, server).Mutex("report"), newReports()))
	redistest.Next(t, "the run", began)
	stop()
	assert.Is(t, redistest.Next(t, "the end of the job's context", causes), context.Canceled)
	assert.NoError(t, newClient(t, server).Mutex("report").AwaitFree(t.Context()))
}

func TestAPanicOfACronJobReleasesItsLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	logger, panics := newReports(), newReports()
	runCron(t, cron.FuncJob(func() { panic("a bug") }), cron.Recover(panics),
		cronlock.Single(t.Context(), newClient(t, server).Mutex("report"), logger))
	err := redistest.Next(t, "the panic", panics.errs)
	assert.True(t, fmt.Sprint(err) == "a bug", "the panic is %v", err)
	wantFree(t, newClient(t, server), "report")
}

func TestACronJobRunsOnceInAPeriod(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	logger := newReports()
	ran := make(chan uint64, 9)
	for range 4 {
		runCron(t, cronlock.Func(func(ctx context.Context) error {
			lease, _ := holdfast.LeaseOf(ctx)
			ran <- lease.Token
			return errors.New("a failed run counts too")
		}), cronlock.Once(t.Context(), newClient(t, server).Periodic("report", time.Hour), logger))
	}
	for range 3 {
		redistest.Next(t, "a skipped run", logger.infos)
	}
	token := redistest.Next(t, "the run", ran)
	assert.True(t, token != 0 && len(ran) == 0, "token %d, and %d more runs", token, len(ran))
	err := redistest.Next(t, "the error of the run", logger.errs)
	assert.True(t, err.Error() == "a failed run counts too", "logged %v", err)
}

func TestAServerThatIsAwaySkipsTheRunsOfCronJobs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, logger := newClient(t, server), newReports()
	server.Kill()
	job := cron.FuncJob(func() { t.Error("the job ran") })
	runCron(t, job, cronlock.Single(t.Context(), client.Mutex("report"), logger))
	runCron(t, job, cronlock.Once(t.Context(), client.Periodic("report", time.Hour), logger))
	for range 2 {
		assert.True(t, redistest.Next(t, "the log", logger.errs) != nil, "logged no error")
	}
}
