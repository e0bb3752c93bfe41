package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
)

// Kinds of lock other than the mutex, by their names in jobs.
const (
	kindWrite    = "write"    // RWMutex, for writing
	kindRead     = "read"     // RWMutex, for reading
	kindReads95  = "reads-95" // RWMutex, 95 of 100 times for reading
	kindSem8     = "sem-8"    // Semaphore of 8 permits, one each
	kindAll3     = "all-3"    // three mutexes at once
	kindElection = "election" // a leadership, from Campaign to Release
	kindEvery    = "every"    // a run of a job whose period has not had one
)

var kinds = []string{kindWrite, kindRead, kindReads95, kindSem8, kindAll3, kindElection, kindEvery}

// enterKind enters a lock of that kind.
func enterKind(c *holdfast.Client, kind, name string) (crew.Enter, error) {
	switch kind {
	case kindWrite:
		return enterLease(c.RWMutex(name).Lock), nil
	case kindRead:
		return enterLease(c.RWMutex(name).RLock), nil
	case kindReads95:
		return enterReads(c.RWMutex(name)), nil
	case kindSem8:
		s := c.Semaphore(name, 8)
		return enterLease(func(ctx context.Context) (*holdfast.Lease, error) { return s.Acquire(ctx, 1) }), nil
	case kindAll3:
		return enterAll(c.MultiMutex([]string{name + "/1", name + "/2", name + "/3"})), nil
	case kindElection:
		return enterLead(c.Election(name)), nil
	case kindEvery:
		return enterEvery(c, name), nil
	}
	return nil, fmt.Errorf("bench: no kind of lock is called %q", kind)
}

func enterLease(take func(context.Context) (*holdfast.Lease, error)) crew.Enter {
	return func(ctx context.Context) (uint64, func(context.Context) error, error) { return entered(take(ctx)) }
}

// enterReads reads most of the time.
func enterReads(m *holdfast.RWMutex) crew.Enter {
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		if rand.IntN(100) < 95 { //nolint:gosec // who writes is no secret
			return entered(m.RLock(ctx))
		}
		return entered(m.Lock(ctx))
	}
}

func enterAll(m *holdfast.MultiMutex) crew.Enter {
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		l, err := m.Lock(ctx)
		if err != nil {
			return 0, nil, err
		}
		return l.Token(l.Names()[0]), l.Release, nil
	}
}

func enterLead(e *holdfast.Election) crew.Enter {
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		l, err := e.Campaign(ctx, "127.0.0.1:8080")
		if err != nil {
			return 0, nil, err
		}
		return l.Token(), l.Release, nil
	}
}

var jobs atomic.Uint64

// enterEvery runs a job with a new name each time, because the next period of an old job
// would not begin in time. Its Enter is the whole run.
func enterEvery(c *holdfast.Client, name string) crew.Enter {
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		job := c.Periodic(name+"/"+strconv.FormatUint(jobs.Add(1), 10), time.Minute)
		turn, err := job.Do(ctx, func(context.Context) error { return nil })
		if err == nil && !turn.Ran {
			err = errTaken
		}
		return turn.Token, func(context.Context) error { return nil }, err
	}
}
