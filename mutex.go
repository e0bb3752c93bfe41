// Mutex: one holder at a time.

package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// Mutex is a lock with one holder at a time. A Mutex is only a name and options. It has no
// state, so a program may create one for each use, or share one between goroutines. Waiters
// get the lock in order of arrival. The goroutines of one process have one position in the
// wait queue at a time.
type Mutex struct{ lock lock }

// Mutex names a lock. The name has 1 to 512 bytes of UTF-8. Mutex does no I/O. If the name
// or an option is invalid, the first use returns an [ErrInvalid].
func (c *Client) Mutex(name string, options ...MutexOption) *Mutex {
	chosen, err := choose(c, name, lockOptions{want: wire.Exclusive, canReenter: true}, options)
	return &Mutex{newLock(c, name, chosen, err)}
}

// Name returns the lock's name.
func (m *Mutex) Name() string { return m.lock.name }

// Lock acquires the lock and returns the lease.
//
// If the lock is held, Lock waits in order of arrival, until ctx ends or the limit of
// [MaxWait] passes. With [Tries], Lock tries that often and does not wait in the queue. If
// the server is unreachable or its refusal is transient, Lock keeps trying for the same
// time.
//
// After an error the caller holds nothing and is no longer in the wait queue. If the server
// may have granted the lock, the library releases it in the background.
//
// The error is that of ctx if ctx ended first. It is a [*HeldError] after the wait limit, and a
// [*ServerError] if the server's refusal is permanent. It is [ErrDeadlock] if ctx belongs to a
// lease of this lock and neither [Reentrant] nor [Owner] allows the re-entry. It is an
// [ErrLost] if the grant arrived after its lease was over, and an [ErrNotAcked] with
// [WaitReplicas] or [WaitAOF]. It may also be [ErrClosed], [ErrInvalid] or [ErrUnreachable].
// Any other error is an [ErrUnknownOutcome].
//
// ctx bounds only the wait. The lease does not end with it, see [Lease.Release].
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) { return m.lock.acquire(ctx, false) }

// TryLock acquires the lock if it is free. It does not wait, but for the answer of the server to itself or to
// another call of this process that asks for the lock. If the lock is held, the error is a [*HeldError]. If
// the server does not answer, the error is an [ErrUnreachable] or an [ErrUnknownOutcome]. The other errors are
// those of [Mutex.Lock].
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	l, err := m.lock.acquire(ctx, true)
	return l, m.lock.client.nameHolder(ctx, err)
}

// Do runs f while it holds the lock. The context of f is a child of ctx, and it also ends
// when the lease is lost. f should return then. Do releases the lock when f returns or
// panics.
//
// If nothing went wrong with the lease, the error is f's own. Otherwise the error joins
// both. If it is an [ErrNotHeld], the lock was lost before f ended. If the lock could not
// be acquired, f did not run and the error is that of [Mutex.Lock].
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.lock.do(ctx, f)
}

// TryDo is [Mutex.Do] if the lock is free. If it is held, f does not run, and TryDo returns false without an error: a
// job that another process runs already is skipped. It does not wait.
func (m *Mutex) TryDo(ctx context.Context, f func(ctx context.Context) error) (ran bool, err error) {
	return m.lock.tryDo(ctx, f)
}

// AwaitFree waits until the lock is free, and does not acquire it. When it returns nil, there was
// a moment since the call began at which [Mutex.TryLock] would have succeeded. Somebody may
// have the lock by now. To work under the lock, use [Mutex.Lock].
//
// AwaitFree takes no position in the wait queue, so it delays nobody. While the lock passes
// from waiter to waiter, it is not free. The release that frees the lock wakes AwaitFree by a
// push. If a holder dies, or if a push is lost, AwaitFree asks the server when the lease may
// have ended. With [Owner], the lock is free when the last holder under that name has released
// it.
//
// AwaitFree ends like [Mutex.Lock]: with the error of ctx, with a [*HeldError] when the limit of
// [MaxWait] has passed, or with [ErrClosed]. While the server is away, it keeps trying. It makes
// one request if the lock is free, and [Tries] has no effect. Under the context of a lease of
// this lock, the error is an [ErrDeadlock]. A quorum refuses AwaitFree.
func (m *Mutex) AwaitFree(ctx context.Context) error { return m.lock.awaitFree(ctx) }
