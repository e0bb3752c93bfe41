package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// Mutex is a lock that one owner holds at a time. It is a name and options:
// it has no state that two goroutines could overwrite, may be made anew for
// each use, and shared by any number of goroutines. Waiters are served in
// order of arrival; the goroutines of one process wait as one.
type Mutex struct{ terms terms }

// Mutex names a lock: 1 to 512 bytes of UTF-8. It does no I/O. A name or an
// option that cannot work is reported by the first use, as an [ErrInvalid].
func (c *Client) Mutex(name string, options ...MutexOption) *Mutex {
	chosen, err := choose(c, name, choice{want: wire.Exclusive}, options)
	return &Mutex{c.terms(name, chosen, err)}
}

// Name is the lock's name.
func (m *Mutex) Name() string { return m.terms.name }

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
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) { return m.terms.lock(ctx) }

// TryLock takes the lock if it is free, and does not wait: the error is a
// [*HeldError] if it is not, and an [ErrUnreachable] or an [ErrUnknownOutcome] if
// the server is away. The other errors are those of [Mutex.Lock].
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) { return m.terms.try(ctx) }

// Do runs f under the lock. The context that f is given is ctx's child, and is
// also done when the lease is lost; f should return then. The lock is released
// when f returns or panics.
//
// The error is f's own if nothing went wrong with the lease; else it joins both: if it is an
// [ErrNotHeld], f did not have the lock to its end. If the lock could not be
// taken, f did not run and the error is that of [Mutex.Lock].
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.terms.do(ctx, f)
}
