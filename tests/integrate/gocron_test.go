package integrate_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integrate/gocronlock"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// scheduler is a scheduler of gocron, and what it reports.
type scheduler struct {
	gocron.Scheduler
	failed chan error // a job ended with an error
	busy   chan error // a run got no lock
	skips  chan struct{}
}

// IncrementJob hears of each run that ended or was skipped.
func (s *scheduler) IncrementJob(_ uuid.UUID, _ string, _ []string, status gocron.JobStatus) {
	if status == gocron.Skip {
		s.skips <- struct{}{}
	}
}

// RecordJobTiming is of no interest.
func (s *scheduler) RecordJobTiming(time.Time, time.Time, uuid.UUID, string, []string) {}

func newScheduler(t *testing.T, option gocron.SchedulerOption) *scheduler {
	t.Helper()
	s := &scheduler{failed: make(chan error, 9), busy: make(chan error, 9), skips: make(chan struct{}, 9)}
	var err error
	s.Scheduler, err = gocron.NewScheduler(option, gocron.WithMonitor(s))
	assert.MustTrue(t, err == nil, "%v", err)
	t.Cleanup(func() { _ = s.Shutdown() })
	s.Start()
	return s
}

// runOnce schedules one run of the job, now.
func (s *scheduler) runOnce(t *testing.T, name string, f func(ctx context.Context) error) {
	t.Helper()
	_, err := s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(f),
		gocron.WithName(name), gocron.WithEventListeners(
			gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { s.failed <- err }),
			gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { s.busy <- err })))
	assert.Must(t, err)
}

func TestOneOfManyGocronSchedulersRunsAJob(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server)
	ran := make(chan holdfast.LeaseInfo, 9)
	busy := make(chan error, 9)
	for range 4 {
		// The job is over at once. The spread keeps the others out all the same.
		l := gocronlock.NewLocker(newClient(t, server), "cron/", time.Minute)
		s := newScheduler(t, gocron.WithDistributedLocker(l))
		s.busy = busy
		s.runOnce(t, "report", l.Func(func(ctx context.Context) error {
			lease, _ := holdfast.LeaseOf(ctx)
			ran <- lease
			return nil
		}))
	}
	for range 3 {
		assert.Is(t, redistest.Next(t, "a skipped run", busy), holdfast.ErrHeld)
	}
	lease := redistest.Next(t, "the run", ran)
	info, err := client.Inspect(t.Context(), "cron/report")
	assert.True(t, err == nil && len(ran) == 0 && lease.Name == "cron/report" && lease.Token == info.Fence,
		"%d more runs; the run's lease is %+v, and the lock is %+v, %v", len(ran), lease, info, err)
}

// runUntilItsContextEnds returns when a job runs that waits for the end of its context. The job
// sends the cause of that end, and returns the error.
func runUntilItsContextEnds(t *testing.T, failed error) (*scheduler, *holdfast.Client, <-chan error) {
	t.Helper()
	server := redistest.Start(t)
	l := gocronlock.NewLocker(newClient(t, server), "", 0)
	s := newScheduler(t, gocron.WithDistributedLocker(l))
	began, causes := make(chan struct{}), make(chan error, 1)
	s.runOnce(t, "report", l.Func(func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return failed
	}))
	redistest.Next(t, "the run", began)
	return s, newClient(t, server), causes
}

func TestALostLockEndsTheContextOfAGocronJob(t *testing.T) {
	t.Parallel()
	s, client, causes := runUntilItsContextEnds(t, errors.New("not finished"))
	evict(t, client, "report")
	assert.Is(t, redistest.Next(t, "the end of the job's context", causes), holdfast.ErrLost)
	err := redistest.Next(t, "the job's error", s.failed)
	assert.Is(t, err, holdfast.ErrLost)
	assert.True(t, strings.HasPrefix(err.Error(), "not finished"), "the error is %v", err)
}

func TestAShutdownEndsAGocronJobAndReleasesItsLock(t *testing.T) {
	t.Parallel()
	s, client, ended := runUntilItsContextEnds(t, nil)
	assert.NoError(t, s.Shutdown())
	assert.Is(t, redistest.Next(t, "the end of the job", ended), context.Canceled)
	assert.NoError(t, client.Mutex("report").AwaitFree(t.Context()))
}

func TestAGocronJobWithoutALockDoesNotRun(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Start(t))
	locker := gocronlock.NewLocker(client, "", 0)
	s := newScheduler(t, gocron.WithDistributedLocker(gocronlock.NewLocker(client, "", 0)))
	s.runOnce(t, "report", locker.Func(func(context.Context) error { // of another locker
		t.Error("the job ran")
		return nil
	}))
	assert.True(t, redistest.Next(t, "the refusal", s.failed) != nil, "no error")
}

// awaitLeading returns when the elector knows of its leadership: it learns of it beside the observers.
func awaitLeading(e *gocronlock.Elector) {
	for e.IsLeader(context.Background()) != nil {
		runtime.Gosched()
	}
}

func TestTheLeaderOfGocronSchedulersRunsTheJobs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server)
	leaders := make(chan string, 9)
	go func() {
		for leader, err := range client.Election("cron").Observe(t.Context()) {
			if err == nil && leader.Value != "" {
				leaders <- leader.Value
			}
		}
	}()

	first := gocronlock.NewElector(newClient(t, server).Election("cron"), "first")
	firstCtx, stopFirst := context.WithCancel(t.Context())
	firstEnded := make(chan error, 1)
	go func() { firstEnded <- first.Run(firstCtx) }()
	assert.MustEqual(t, redistest.Next(t, "a leader", leaders), "first", "leads")
	awaitLeading(first)
	second := gocronlock.NewElector(newClient(t, server).Election("cron"), "second")
	go func() { _ = second.Run(t.Context()) }()

	ofFirst := newScheduler(t, gocron.WithDistributedElector(first))
	ofSecond := newScheduler(t, gocron.WithDistributedElector(second))
	began, told, finish := make(chan struct{}), make(chan struct{}), make(chan struct{})
	ofFirst.runOnce(t, "report", first.Func(func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		close(told)
		<-finish
		return nil
	}))
	redistest.Next(t, "the leader's run", began)
	ofSecond.runOnce(t, "report", second.Func(func(context.Context) error {
		t.Error("a run beside that of the leader")
		return nil
	}))
	redistest.Next(t, "the skipped run", ofSecond.skips)

	// The leader ends. It tells its job, and resigns after that.
	stopFirst()
	redistest.Next(t, "the end of the job's context", told)
	if leader, err := client.Election("cron").Leader(t.Context()); err != nil || leader.Value != "first" {
		t.Errorf("while the job still works, %q leads, %v", leader.Value, err)
	}
	close(finish)
	assert.NoError(t, redistest.Next(t, "the end of Run", firstEnded))
	assert.Equal(t, redistest.Next(t, "the next leader", leaders), "second", "leads")
	ran := make(chan struct{})
	awaitLeading(second)
	ofSecond.runOnce(t, "late", second.Func(func(context.Context) error { close(ran); return nil }))
	redistest.Next(t, "the run of the next leader", ran)
}
