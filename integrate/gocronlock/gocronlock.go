// Package gocronlock connects Holdfast to gocron v2, so that one of several schedulers performs
// each run of a job: by a lock for each run ([Locker]), or by a leader that runs all jobs
// ([Elector]).
//
// gocron gives a job its context before it asks for a lock, so the lock alone cannot end that context.
// Wrap the job by [Locker.Func] or [Elector.Func]: its context then ends when the lock is lost.
package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
)

// Locker is a [gocron.Locker]. A run whose lock is held elsewhere is skipped. It is safe for use by
// many schedulers and goroutines.
type Locker struct {
	client  *holdfast.Client
	prefix  string
	options []holdfast.MutexOption

	mu   sync.Mutex               // guards runs; nothing is sent under it
	runs map[context.Context]*run // by the context of the job, until Unlock
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a locker. The lock of a job has the job's name after prefix, so give each job a
// name by gocron.WithName. It does no I/O. If an argument is invalid, each run is skipped with an
// [holdfast.ErrInvalid], see gocron.AfterLockError.
//
// The schedulers do not begin a run at the same instant. spread is the shortest time for which
// the lock of a run stays held, even if the job ends earlier: otherwise a scheduler whose clock
// is behind runs the job once more. Choose more than the clocks differ, and less than the
// shortest time between two runs. With 0, a lock is free when its job ends. See
// [holdfast.MinHold].
func NewLocker(
	client *holdfast.Client, prefix string, spread time.Duration, options ...holdfast.MutexOption,
) *Locker {
	if spread != 0 {
		options = append(slices.Clip(options), holdfast.MinHold(spread))
	}
	return &Locker{client: client, prefix: prefix, options: options, runs: map[context.Context]*run{}}
}

// run is one run of a job, and the lock of that run.
type run struct {
	locker  *Locker
	ctx     context.Context // of the job
	lease   *holdfast.Lease
	claimed bool // guarded by the locker's mu: a Func works under the lease
}

// Lock acquires the lock of a run. It does not wait: the error is that of [holdfast.Mutex.TryLock],
// and the scheduler skips the run. gocron calls it.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, err := l.client.Mutex(l.prefix+key, l.options...).TryLock(ctx)
	if err != nil {
		return nil, err
	}
	r := &run{locker: l, ctx: ctx, lease: lease}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[ctx] = r
	return r, nil
}

// Unlock releases the lock of the run. It works although ctx has ended.
func (r *run) Unlock(ctx context.Context) error {
	l := r.locker
	l.mu.Lock()
	if l.runs[r.ctx] == r {
		delete(l.runs, r.ctx)
	}
	l.mu.Unlock()
	return r.lease.Release(ctx)
}

// errNoRun: the function was not started by a scheduler with this locker.
var errNoRun = errors.New("gocronlock: the job got no lock from this locker, so it did not run")

// Func returns a job for gocron.NewTask that runs f under the lock of its run. The context of f is
// that of the job, and it also ends when the lock is lost. f should return then, because another
// scheduler may start the next run. [holdfast.LeaseOf] of the context says the fencing token.
//
// If the scheduler has not asked this locker for the run, the job returns an error and f does not
// run. If the lock was lost before f ended, the error joins f's error and a [*holdfast.LostError].
func (l *Locker) Func(f func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		r := l.claim(ctx)
		if r == nil {
			return errNoRun
		}
		return under(ctx, r.lease.Context(), r.lease.Err, f)
	}
}

// claim returns the run to which the context of a job belongs. Each run is claimed once: if a job
// lost its lock and the scheduler began its next run, they never work under the same lock.
func (l *Locker) claim(ctx context.Context) *run {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.runs[ctx]
	if r == nil || r.claimed {
		return nil
	}
	r.claimed = true
	return r
}

// under runs f with a context that ends with ctx, and with own, the context of the lock. lost says
// whether the lock was lost.
func under(ctx, own context.Context, lost func() error, f func(ctx context.Context) error) error {
	both, cancel := context.WithCancelCause(own)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer stop()
	err := f(both)
	if gone := lost(); gone != nil {
		return errors.Join(err, fmt.Errorf("gocronlock: the job outlived its lock: %w", gone))
	}
	return err
}
