// Package locker adapts a [holdfast.Mutex] to [sync.Locker], for code that accepts no other lock.
//
// A sync.Locker has no context and no errors, so it cannot signal that its lock is lost. A callback of the
// program receives the loss. If you can change the code, use the Mutex itself: Do ends the context of the
// work when the lock is lost.
package locker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast"
)

// Locker is a [sync.Locker] over a mutex. Use one Locker for each lock in a process. Its goroutines
// exclude each other even after a loss, because Unlock cannot say whose lock it ends.
type Locker struct {
	mutex  *holdfast.Mutex
	failed func(err error)

	// local is full from Lock to Unlock. So Unlock never releases the lease of another
	// goroutine. It is not a sync.Mutex, because a goroutine that waits for one stops the time
	// of a synctest bubble.
	local chan struct{}
	lease *holdfast.Lease // guarded by local; nil if nobody holds the lock
}

var _ sync.Locker = (*Locker)(nil)

// New returns a Locker over m. It does no I/O.
//
// failed is called with the error, and must not be nil:
//
//   - The lease is lost between Lock and Unlock. err is a [*holdfast.LostError], or
//     [holdfast.ErrClosed]. The call comes at the trust deadline at the latest, from a goroutine of
//     its own. The code under the lock still runs, and does not know. Stop it, or end the process:
//     log.Fatal is a good function for many programs.
//   - Lock cannot get the lock. err is that of [holdfast.Mutex.Lock]. The call comes from the
//     goroutine of Lock. If failed returns, Lock panics with err: it never returns without the lock.
func New(m *holdfast.Mutex, failed func(err error)) *Locker {
	if m == nil || failed == nil {
		panic("BUG: locker.New needs a mutex, and a function to call on a loss")
	}
	return &Locker{mutex: m, failed: failed, local: make(chan struct{}, 1)}
}

// Lock acquires the lock. It waits as [holdfast.Mutex.Lock] does with a context that never ends: in
// order of arrival, and for a server that is away. With the options MaxWait, Tries and BreakDeadlock
// the wait may fail, see [New].
func (l *Locker) Lock() {
	l.local <- struct{}{}
	lease, err := l.mutex.Lock(context.Background())
	if err != nil {
		<-l.local
		l.failed(err)
		panic(fmt.Errorf("locker: Lock must not return without the lock: %w", err))
	}
	l.lease = lease
	ctx := lease.Context()
	context.AfterFunc(ctx, func() {
		if err := context.Cause(ctx); !errors.Is(err, holdfast.ErrReleased) {
			l.failed(err)
		}
	})
}

// Unlock releases the lock. It panics if the Locker is not locked. If the server does not answer, the
// client repeats the release in the background, and the lock is free within its TTL. If the lease was
// lost, there is nothing to release, and the function of [New] has been told.
func (l *Locker) Unlock() {
	lease := l.lease
	if lease == nil {
		panic("BUG: locker: Unlock of a Locker that is not locked")
	}
	l.lease = nil
	_ = lease.Release(context.Background())
	<-l.local
}
