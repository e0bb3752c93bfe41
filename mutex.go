// Mutex, and what the server says of it.

package holdfast

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// Mutex is a lock that one owner holds at a time. It is a name and options:
// it has no state that two goroutines could overwrite, may be made anew for
// each use, and shared by any number of goroutines. Waiters are served in
// order of arrival; the goroutines of one process wait as one.
type Mutex struct{ lock lock }

// Mutex names a lock: 1 to 512 bytes of UTF-8. It does no I/O. A name or an
// option that cannot work is reported by the first use, as an [ErrInvalid].
func (c *Client) Mutex(name string, options ...MutexOption) *Mutex {
	chosen, err := choose(c, name, lockOptions{want: wire.Exclusive}, options)
	return &Mutex{newLock(c, name, chosen, err)}
}

// Name is the lock's name.
func (m *Mutex) Name() string { return m.lock.name }

// Lock waits for the lock and returns the lease. It waits in order of arrival,
// until ctx ends or the limit of [MaxWait] passes; or it tries as often as [Tries] says.
// While the server is away, or refuses in a way that will pass, it goes on trying
// for as long.
//
// On failure nothing is held and no place in the line is kept: the error is
// ctx's if it ended first, a [*HeldError] after the limit, a [*ServerError] if
// the server refused for good, [ErrDeadlock] if ctx belongs to a lease of this lock and
// neither [Reentrant] nor [Owner] lets it in again, [ErrClosed], [ErrInvalid],
// and else an [ErrUnknownOutcome]. What may have been granted is given
// back in the background.
//
// ctx ends the waiting only, not the lease.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) { return m.lock.acquire(ctx) }

// TryLock takes the lock if it is free, and does not wait: the error is a
// [*HeldError] if it is not, and an [ErrUnreachable] or an [ErrUnknownOutcome] if
// the server is away. The other errors are those of [Mutex.Lock].
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) { return m.lock.tryAcquire(ctx) }

// Do runs f under the lock. The context that f is given is ctx's child, and is
// also done when the lease is lost; f should return then. The lock is released
// when f returns or panics.
//
// The error is f's own if nothing went wrong with the lease; else it joins both: if it is an
// [ErrNotHeld], f did not have the lock to its end. If the lock could not be
// taken, f did not run and the error is that of [Mutex.Lock].
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.lock.do(ctx, f)
}

// Key is the name of the lock's record on the server.
func (m *Mutex) Key() string { return m.lock.key() }

// IsHeld asks the server whether anybody holds the lock. It may be over when
// the answer arrives: never decide by it whether to work. Its errors are those
// of [Client.Inspect].
func (m *Mutex) IsHeld(ctx context.Context) (bool, error) {
	h, err := m.Holder(ctx)
	return h != nil, err
}

// Holder asks the server who holds the lock, and answers nil if nobody does.
// Its errors are those of [Client.Inspect].
func (m *Mutex) Holder(ctx context.Context) (*Holder, error) {
	if m.lock.err != nil {
		return nil, m.lock.err
	}
	s, err := m.lock.client.Inspect(ctx, m.lock.name)
	if err != nil || !s.Held() {
		return nil, err
	}
	return &s.Holders[0], nil
}

// HoldCount asks the server how often the caller holds the lock: with [Owner],
// how many leases are in under that name, in whatever process; without, how
// many are in the stay that ctx belongs to. Leases that entered again under a
// context are known to their process only, and counted where ctx belongs to
// them.
//
// It is 0 if nobody holds the lock; if another does, the error is an
// [ErrHeldByOther]. The other errors are those of [Client.Inspect].
func (m *Mutex) HoldCount(ctx context.Context) (int, error) {
	t := &m.lock
	if t.err != nil {
		return 0, t.err
	}
	if err := checkReadable(ctx, t.client, t.name); err != nil {
		return 0, err
	}
	r, err := t.client.sender.Record(ctx, t.keys())
	if err != nil {
		return 0, wrap("inspection of", t.name, err)
	}
	if len(r.Holders) == 0 {
		return 0, nil
	}
	mine, n := t.heldBy(ctx), 0
	for _, h := range r.Holders {
		if t.owner != "" && h.Owner != "" && wire.Owner(h.Owner) == t.owner {
			n = h.Entries
		}
		if mine != nil && t.owner == "" && h.Attempt == mine.hold.attempt {
			n = 1
		}
	}
	if n == 0 {
		return 0, notYours(t.name, r.Holders[0])
	}
	if mine != nil && mine.hold.lock.owner == t.owner {
		n += mine.holdCount() - 1
	}
	return n, nil
}

// notYours says who has a lock that the caller has not.
func notYours(name string, h wire.HolderLine) error {
	return fmt.Errorf("%w: %q is held by %s", ErrHeldByOther, name, ownerName(h.Owner, h.Attempt))
}
