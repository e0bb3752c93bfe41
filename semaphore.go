// Semaphore: a number of permits.

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/waitqueue"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Semaphore is a number of permits that many hold at a time, each some of them.
// Waiters are served in order of arrival: one that wants many permits is not
// overtaken by those who want few. The permits of a process that dies come back
// when their lease ends.
//
// All who use a semaphore at a time must agree on the number of permits, its limit:
// who asks by another one is told by a [*LimitError]. Nobody is held to a limit while
// no permit is held and nobody waits. It changes on purpose by [Semaphore.SetLimit].
type Semaphore struct {
	lock  lock
	limit atomic.Int64
}

// maxLimit keeps the arithmetic of all parties exact.
const maxLimit = 1<<31 - 1

// Semaphore names a semaphore with so many permits, see [Client.Mutex]. A limit
// under 1 is reported by the first use, as an [ErrInvalid].
func (c *Client) Semaphore(name string, limit int, options ...SemaphoreOption) *Semaphore {
	chosen, err := choose(c, name, lockOptions{want: wire.Permits(1, limit)}, options)
	s := &Semaphore{lock: newLock(c, name, chosen, cmp.Or(err, checkLimit(limit)))}
	s.limit.Store(int64(limit))
	return s
}

func checkLimit(limit int) error {
	if limit < 1 || limit > maxLimit {
		return invalid("the limit is %d: a semaphore has from 1 to %d permits", limit, maxLimit)
	}
	return nil
}

// Name is the semaphore's name.
func (s *Semaphore) Name() string { return s.lock.name }

// Limit is the number of permits by which this Semaphore asks.
func (s *Semaphore) Limit() int { return int(s.limit.Load()) }

// Acquire waits for n permits and returns the lease of all of them. The errors
// are those of [Mutex.Lock], and a [*LimitError] if the semaphore is in use with
// another limit, also if the limit is changed while it waits. Fewer than one permit or more
// than the limit are an [ErrInvalid]. If ctx belongs to leases of this semaphore that
// leave too few permits, waiting for those would never end: [ErrDeadlock].
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	t, err := s.permits(ctx, n)
	if err != nil {
		return nil, err
	}
	return t.acquire(ctx)
}

// TryAcquire takes n permits if they are free and nobody waits for some. The
// error is a [*HeldError] if not; the others are those of [Semaphore.Acquire].
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, error) {
	t, err := s.permits(ctx, n)
	if err != nil {
		return nil, err
	}
	return t.tryAcquire(ctx)
}

// Do runs f while it holds n permits, see [Mutex.Do].
func (s *Semaphore) Do(ctx context.Context, n int, f func(ctx context.Context) error) error {
	t, err := s.permits(ctx, n)
	if err != nil {
		return err
	}
	return t.do(ctx, f)
}

// permits are the terms of one acquisition.
func (s *Semaphore) permits(ctx context.Context, n int) (*lock, error) {
	t, limit := s.lock, s.Limit()
	switch {
	case t.err != nil:
		return nil, t.err
	case ctx == nil:
		return nil, errNoContext
	case n < 1:
		return nil, invalid("%d permits are asked for: ask for at least 1", n)
	case n > limit:
		return nil, invalid("%d permits are asked for, and there are %d: ask for fewer, or raise the limit", n, limit)
	}
	m := *t.params
	m.want, m.limit, m.weight = wire.Permits(n, limit), limit, n
	t.params = &m
	mine := 0
	for held := leaseOf(ctx); held != nil; held = held.outerLease() {
		if held.of(t.client, &t) && held.ended() == nil {
			if mine += held.hold.lock.weight; mine+n > limit {
				return nil, held.deadlock()
			}
		}
	}
	return &t, nil
}

// SetLimit changes the number of permits, on the server if the semaphore is in
// use and for this Semaphore; others that ask by the old number are told so by
// a [*LimitError] from then on. A higher limit lets waiters in, in the same step. A lower
// one takes no permit away: nobody is let in until enough have come back, and
// who waits for more than there are is told with its next look.
//
// It can be repeated: after an error this Semaphore asks by the old limit, and
// after an [ErrUnknownOutcome] the server may have the new one.
func (s *Semaphore) SetLimit(ctx context.Context, limit int) error {
	t := &s.lock
	switch {
	case t.err != nil:
		return t.err
	case ctx == nil:
		return errNoContext
	}
	if err := checkLimit(limit); err != nil {
		return err
	}
	if err := checkReadable(ctx, t.client, t.name); err != nil {
		return err
	}
	args := []string{wire.Number(uint64(limit)), t.client.retention, t.base}
	a, err := t.client.sender.Ask(ctx, script.SetLimit, t.keys(), args)
	switch {
	case err != nil:
		return wrap("limit of", t.name, err)
	case a.Kind != wire.Set && a.Kind != wire.Idle:
		return wrap("limit of", t.name, wire.BadAnswer("another kind to limit"))
	}
	s.limit.Store(int64(limit))
	return nil
}

// acquirePermits takes permits. Each acquisition has a hold of its own, but one
// goroutine at a time waits at the server for those of this process: so a
// process stands in the line there as one, and serves its goroutines in order.
// Who only tries is not held up by that, and cannot overtake: the server lets
// nobody past its line.
func (s *lock) acquirePermits(ctx, parent context.Context, try bool) (*Lease, Wake, error) {
	c := s.client
	if try || c.cfg.MaxLocalHandOvers < 0 {
		return s.takePermits(ctx, parent, try)
	}
	if !c.queue.Busy(s.key(), waitqueue.Permits) {
		// Nobody of this process waits: perhaps nobody need.
		l, w, err := s.takePermits(ctx, parent, true)
		if !errors.Is(err, ErrHeld) && !wavering(err) {
			return l, w, err
		}
	}
	turn, err := c.queue.Enter(ctx, s.key(), waitqueue.Permits, s, false)
	if err != nil {
		return nil, WakeNone, err
	}
	l, w, err := s.takePermits(ctx, parent, false)
	turn.Leave()
	return l, w, err
}

func (s *lock) takePermits(ctx, parent context.Context, try bool) (*Lease, Wake, error) {
	h, w, err := s.runAttempt(ctx, try)
	if err != nil {
		return nil, w, err
	}
	if l := h.newLease(parent); l != nil {
		return l, w, nil
	}
	return nil, w, h.endReason()
}
