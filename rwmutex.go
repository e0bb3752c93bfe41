// RWMutex: many readers or one writer.

package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// RWMutex is a lock that many readers hold together, or one writer alone. Readers and writers
// share one wait queue, in order of arrival. A writer that waits gets the lock before readers
// that come later. Readers that are next to each other in the queue get it together.
//
// The readers of one process share one hold on the server. While the hold is live and
// nobody waits, another reader joins it without a request. The last reader to release it
// releases the hold. Each process has a hold and a lease of its own. If a process dies, its
// readers are gone when its lease ends. The leases of other processes are not shortened.
//
// Its [Mutex] acquires it as the writer: Lock, TryLock, Do and AwaitFree. Under the context of a
// lease of this lock, Lock returns an [ErrDeadlock]. A reader can become the writer with
// [Lease.Upgrade]. AwaitFree waits until there is neither a writer nor a reader. An RWMutex and a
// Mutex with the same name are one lock.
type RWMutex struct {
	*Mutex
	read lock
}

// rwTTLs are the TTLs of readers and writers of one lock; zero for a lock of another kind.
type rwTTLs struct{ read, write time.Duration }

func (l rwTTLs) isSet() bool { return l != rwTTLs{} }

// RWMutex names a read-write lock, see [Client.Mutex].
func (c *Client) RWMutex(name string, options ...RWMutexOption) *RWMutex {
	write, err := choose(c, name, lockOptions{want: wire.Exclusive}, options)
	read := write
	read.want = wire.Shared
	if write.readTTL > 0 {
		read.ttl = write.readTTL
	}
	write.rw = rwTTLs{read: read.ttl, write: write.ttl}
	read.rw = write.rw
	return &RWMutex{Mutex: &Mutex{newLock(c, name, write, err)}, read: newLock(c, name, read, err)}
}

// AwaitReadable waits until a reader would get in: no writer holds the lock or waits for it. It
// does not acquire the lock, see [Mutex.AwaitFree]. Under the context of a lease of this lock that an RWMutex
// has acquired, it returns nil at once.
func (m *RWMutex) AwaitReadable(ctx context.Context) error { return m.read.awaitFree(ctx) }

// RLock acquires the lock as a reader. It waits like [Mutex.Lock], and its errors are the
// same.
//
// Under the context of a lease of this lock, RLock sends no request and does not queue,
// because all waiters wait for that lease anyway. Under a reader's lease, it returns
// another reader's lease that does not depend on the first. Under the writer's lease, it
// returns a lease that ends when the writer's lease ends, unless [Lease.Downgrade] comes
// first.
//
// Readers that share a hold have the same token. It is higher than the token of every
// writer before them, and lower than that of every writer after them. So a resource that
// checks tokens can refuse a writer that comes late. The token gives no order among
// readers.
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) { return m.read.acquire(ctx, false) }

// TryRLock acquires the lock as a reader if that needs no wait: no writer holds the lock or
// waits for it. Otherwise the error is a [*HeldError].
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error) {
	l, err := m.read.acquire(ctx, true)
	return l, m.read.client.nameHolder(ctx, err)
}

// RDo runs f as a reader, see [Mutex.Do].
func (m *RWMutex) RDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.read.do(ctx, f)
}

// TryRDo is [RWMutex.RDo] if a reader gets in without a wait: no writer holds the lock or waits for it. Otherwise f
// does not run, and TryRDo returns false without an error.
func (m *RWMutex) TryRDo(ctx context.Context, f func(ctx context.Context) error) (ran bool, err error) {
	return m.read.tryDo(ctx, f)
}
