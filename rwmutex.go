// RWMutex: many readers or one writer.

package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// RWMutex is a lock that any number of readers hold together, or one writer
// alone. Readers and writers stand in one line, in order of arrival: a writer
// that waits is let in before readers that come later, and readers that wait
// behind one another are let in together.
//
// The readers of one process share one hold on the server: while it is live and
// nobody waits, one more reader joins it without the network, and the last one
// out releases it. Every hold has a lease of its own: the readers of a process
// that dies are gone when its lease ends, and nobody else's lease is shortened.
//
// Like [Mutex] it is a name and options, and has no state. An RWMutex and a
// Mutex of one name are one lock, which the Mutex takes as a writer.
type RWMutex struct{ write, read lock }

// leases are those of readers and writers of one lock.
type leases struct{ read, write time.Duration }

func (l leases) any() bool { return l != leases{} }

// RWMutex names a read-write lock, see [Client.Mutex].
func (c *Client) RWMutex(name string, options ...RWMutexOption) *RWMutex {
	write, err := choose(c, name, lockOptions{want: wire.Exclusive}, options)
	read := write
	read.want = wire.Shared
	if write.read > 0 {
		read.ttl = write.read
	}
	write.rw = leases{read: read.ttl, write: write.ttl}
	read.rw = write.rw
	return &RWMutex{write: newLock(c, name, write, err), read: newLock(c, name, read, err)}
}

// Name is the lock's name.
func (m *RWMutex) Name() string { return m.write.name }

// Lock waits for the lock as its only holder, see [Mutex.Lock]. Under the
// context of a lease of this lock it is refused as an [ErrDeadlock]; a reader
// becomes the writer by [Lease.Upgrade].
func (m *RWMutex) Lock(ctx context.Context) (*Lease, error) { return m.write.acquire(ctx) }

// TryLock takes the lock as its only holder if it is free, see [Mutex.TryLock].
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error) { return m.write.tryAcquire(ctx) }

// Do runs f as the writer, see [Mutex.Do].
func (m *RWMutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.write.do(ctx, f)
}

// RLock waits for the lock as a reader. The errors are those of [Mutex.Lock].
//
// Under the context of a lease of this lock it enters again, without the
// network, and whoever waits: they wait for that lease. Under a reader's lease
// it gives one more, in every way like the first. Under the writer's it gives a lease that
// ends when the writer's does, unless [Lease.Downgrade] comes before.
//
// Readers that share a hold have one token, which is higher than that of every
// writer before them and lower than that of every writer after them: a resource that
// checks tokens can refuse what was written by a writer that came late. Among
// readers it says nothing.
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) { return m.read.acquire(ctx) }

// TryRLock takes the lock as a reader if that can be done at once: not beside a
// writer, nor past one that waits. The error is a [*HeldError] if it can not.
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error) { return m.read.tryAcquire(ctx) }

// RDo runs f as a reader, see [Mutex.Do].
func (m *RWMutex) RDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.read.do(ctx, f)
}
