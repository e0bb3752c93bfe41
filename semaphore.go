// Semaphore: a number of permits.

package holdfast

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Semaphore is a number of permits. Many holders can have some of them at a time. Waiters
// get permits in order of arrival: a waiter for few permits does not overtake one for many.
// If a process dies, its permits are free when its lease ends.
//
// All clients that use a semaphore at the same time must use the same limit, which is the
// number of permits. If a client uses another limit, its error is an [ErrLimit]. While no
// permit is held and nobody waits, the next client sets the limit. [Semaphore.SetLimit]
// changes it at any time. With [ServerLimit] a client takes the limit that the server remembers,
// so that the limit can change while programs run.
type Semaphore struct {
	lock  lock
	limit atomic.Int64 // what this Semaphore sends with its requests
}

// maxLimit keeps the arithmetic exact for clients and servers.
const maxLimit = 1<<31 - 1

// Semaphore names a semaphore with that many permits, see [Client.Mutex]. If limit is below
// 1, the first use returns an [ErrInvalid].
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

// Acquire acquires n permits and returns one lease of all of them. It waits like
// [Mutex.Lock].
//
// The errors are those of [Mutex.Lock]. If the semaphore is in use with another limit, the
// error is an [ErrLimit], also if the limit changes during the wait. If n is below 1 or
// above the limit, the error is an [ErrInvalid]. If ctx belongs to leases of this semaphore
// that leave too few permits, the wait would never end, and the error is [ErrDeadlock]. With
// [ServerLimit] the client does not know the limit, which may also rise meanwhile: such a wait lasts,
// unless [BreakDeadlock] finds it.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	lk, err := s.permits(ctx, n)
	if err != nil {
		return nil, err
	}
	return lk.acquire(ctx, false)
}

// TryAcquire acquires n permits if they are free and nobody waits for permits. Otherwise
// the error is a [*HeldError]. The other errors are those of [Semaphore.Acquire].
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, error) {
	lk, err := s.permits(ctx, n)
	if err != nil {
		return nil, err
	}
	return lk.acquire(ctx, true)
}

// AwaitFree waits until n permits are free and nobody waits for permits, and does not acquire
// them, see [Mutex.AwaitFree]. The other errors are those of [Semaphore.Acquire].
func (s *Semaphore) AwaitFree(ctx context.Context, n int) error {
	lk, err := s.permits(ctx, n)
	if err != nil {
		return err
	}
	return lk.awaitFree(ctx)
}

// Do runs f while it holds n permits, see [Mutex.Do].
func (s *Semaphore) Do(ctx context.Context, n int, f func(ctx context.Context) error) error {
	lk, err := s.permits(ctx, n)
	if err != nil {
		return err
	}
	return lk.do(ctx, f)
}

// TryDo is [Semaphore.Do] if n permits are free and nobody waits for permits, see [Mutex.TryDo].
func (s *Semaphore) TryDo(ctx context.Context, n int, f func(ctx context.Context) error) (ran bool, err error) {
	lk, err := s.permits(ctx, n)
	if err != nil {
		return false, err
	}
	return lk.tryDo(ctx, f)
}

// permits returns the lock for one acquisition of n permits.
func (s *Semaphore) permits(ctx context.Context, n int) (*lock, error) {
	lk, limit := s.lock, int(s.limit.Load())
	most := limit
	if lk.serverLimit {
		most = maxLimit
	}
	switch {
	case lk.err != nil:
		return nil, lk.err
	case ctx == nil:
		return nil, errNoContext
	case n < 1:
		return nil, invalid("the number of permits is %d: ask for at least 1", n)
	case n > most:
		return nil, invalid("the number of permits is %d, and the limit is %d: ask for fewer, or raise the limit",
			n, most)
	}
	m := *lk.params
	m.want, m.limit, m.permits = wire.Permits(n, limit), limit, n
	if lk.serverLimit {
		m.want += wire.ServerLimit
	}
	lk.params = &m
	mine := 0
	for held := leaseOf(ctx); held != nil; held = held.outerLease() {
		if !held.of(lk.client, &lk) || held.ended() != nil {
			continue
		}
		another := held.hold.lock.limit == 0 // kind of lock, with the same record
		if mine += held.hold.permits(); another || mine+n > limit && !lk.serverLimit {
			return nil, held.deadlock()
		}
	}
	return &lk, nil
}

// limitLife is how long the server remembers a limit that SetLimit has set, after the last use.
const limitLife = 30 * 24 * time.Hour

// SetLimit changes the limit on the server and in this Semaphore. While the semaphore is in use,
// clients that use another limit get an [ErrLimit] from then on, unless they take it with
// [ServerLimit]. A higher limit grants waiters in the same step. A lower limit takes no permit away:
// the server grants nothing until enough permits are released. If a waiter wants more permits than
// the new limit, its next poll returns the error.
//
// SetLimit(ctx, 0) drains the semaphore: nobody gets a permit until SetLimit sets another limit, and
// holders keep theirs. Waiters keep their places, and no client gets an [ErrLimit]. This Semaphore keeps
// its old limit. The server remembers a limit, also this one, for 30 days after the last use.
//
// SetLimit may be repeated. After an error this Semaphore keeps its old limit. After an
// [ErrUnknownOutcome] the server may have the new one.
func (s *Semaphore) SetLimit(ctx context.Context, limit int) error {
	lk := &s.lock
	switch {
	case lk.err != nil:
		return lk.err
	case ctx == nil:
		return errNoContext
	}
	if err := checkLimit(limit); err != nil && limit != 0 {
		return err
	}
	if err := lk.client.checkReadable(ctx, lk.name); err != nil {
		return err
	}
	retention := wire.Millis(max(lk.client.cfg.Retention, limitLife))
	args := []string{wire.Number(uint64(limit)), retention, lk.channelPrefix}
	a, err := lk.client.sender.Ask(ctx, script.SetLimit, lk.keys(), args)
	switch {
	case err != nil:
		return wrapChange("changing the limit of", lk.name, err)
	case a.Kind != wire.Set && a.Kind != wire.Idle:
		return wrap("changing the limit of", lk.name, wire.OtherAnswer("set_limit"))
	}
	if limit > 0 {
		s.limit.Store(int64(limit))
	}
	return nil
}

// Available asks the server how many permits nobody holds. It counts with the limit that the
// server knows, or with that of this Semaphore if the server knows none. After SetLimit has
// lowered the limit, more permits may be held than the limit allows; then the number is 0.
//
// The number was true when the server answered. Clients that wait get these permits first, so
// TryAcquire may fail although some are available. The errors are those of [Client.Inspect].
// A quorum refuses Available, as it refuses to acquire permits.
func (s *Semaphore) Available(ctx context.Context) (int, error) {
	lk := &s.lock
	if lk.err != nil {
		return 0, lk.err
	}
	if err := lk.client.checkReadable(ctx, lk.name); err != nil {
		return 0, err
	}
	r, err := lk.client.sender.Record(ctx, lk.keys(), wire.PermitMode)
	if err != nil {
		return 0, wrap("inspecting", lk.name, err)
	}
	free := int(s.limit.Load())
	if r.Limit > 0 || r.Drained {
		free = r.Limit
	}
	for _, h := range r.Holders {
		free -= h.Weight
	}
	return max(free, 0), nil
}
