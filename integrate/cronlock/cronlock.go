// Package cronlock has wrappers for jobs of robfig/cron whose schedule runs in several processes. With [Single], at
// most one process runs a job at a time. With [Once], a job runs at most once in a period.
package cronlock

import (
	"context"
	"errors"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
)

// Func is a job that is told of a loss: the wrappers of this package give it a context. The wrapper
// must be the last one of its chain, next to the job. Without a wrapper, the context never ends.
type Func func(ctx context.Context) error

// Run calls f with a context that never ends. cron calls it for a job without a wrapper of this
// package.
func (f Func) Run() { _ = f(context.Background()) }

// Single returns a wrapper: a job runs while it holds the lock. If the lock is held, here or in
// another process, the run is skipped. Each job needs a lock of its own.
//
// A [Func] gets a context that ends when the lock is lost or ctx ends. Any other job runs to its end
// without the lock then, and logger hears of it. It also hears of skipped runs, and of the errors of a
// Func.
//
// The clocks of machines differ. Without [holdfast.MinHold], a machine whose clock is behind runs a
// short job once more. With it, the lock stays held for that time. [Once] needs no such care.
func Single(ctx context.Context, m *holdfast.Mutex, logger cron.Logger) cron.JobWrapper {
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			lease, err := m.TryLock(ctx)
			switch {
			case errors.Is(err, holdfast.ErrHeld):
				logger.Info("skip", "lock", m.Name(), "why", err.Error())
				return
			case err != nil:
				logger.Error(err, "skip", "lock", m.Name())
				return
			}
			err = hold(ctx, lease, job)
			if err != nil {
				logger.Error(err, "run", "lock", m.Name())
			}
		})
	}
}

// hold runs the job under the lease, and releases it, also after a panic.
func hold(ctx context.Context, lease *holdfast.Lease, job cron.Job) (err error) {
	own := lease.Context()
	both, cancel := context.WithCancelCause(own)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		err = errors.Join(err, lease.Release(ctx))
		cancel(nil)
	}()
	return run(both, job)
}

// Once returns a wrapper: a job runs at most once in each period of the [holdfast.Periodic], over all
// processes. The server's clock counts the periods, so the clocks of the machines do not matter, and the
// mark of a period outlives the process. If the period has its run already, the run is skipped.
//
// Choose a period that is shorter than the time between two runs of the schedule, and longer than the
// clocks differ: half of the time, for example. With a period as long as the schedule's, the machine
// whose clock is ahead comes too early, and nobody else may come later.
//
// A [Func] gets a context that ends when the lease of the run is lost or ctx ends. logger
// receives the same messages as with [Single].
func Once(ctx context.Context, p *holdfast.Periodic, logger cron.Logger) cron.JobWrapper {
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			result, err := p.Do(ctx, func(ctx context.Context) error { return run(ctx, job) })
			switch {
			case err != nil && result.Ran:
				logger.Error(err, "run", "job", p.Name())
			case err != nil:
				logger.Error(err, "skip", "job", p.Name())
			case !result.Ran:
				logger.Info("skip", "job", p.Name(), "next", result.Next)
			}
		})
	}
}

// run runs the job. The context reaches a Func only.
func run(ctx context.Context, job cron.Job) error {
	if f, ok := job.(Func); ok {
		return f(ctx)
	}
	job.Run()
	return nil
}
