// Package certmagiclock gives any storage of CertMagic the locks of Holdfast. So the machines of a
// cluster obtain each certificate once, in order of arrival, and if one of them crashes, its locks are
// free within their TTL.
//
// CertMagic's locks have no context that ends with a loss. The client logs each loss. Before its next try,
// CertMagic acquires the lock again, through [Storage.RenewLockLease]. Meanwhile there may be two writers.
// According to CertMagic's documentation, its storage must tolerate that.
package certmagiclock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast"
)

// Storage is a storage of CertMagic whose locks are those of a client. Everything else is done by the
// storage inside. It is safe for use by many goroutines.
type Storage struct {
	certmagic.Storage // without its locks

	client  *holdfast.Client
	prefix  string
	options []holdfast.MutexOption

	mu    sync.Mutex        // guards the fields below, and those of the locks; nothing is sent under it
	locks map[string]*entry // the locks that goroutines of this process have or want
}

// entry is a lock of this process. Unlock names a lock and not a lease. So from Lock to Unlock no other
// goroutine of the process has the lock, even if its lease is lost.
type entry struct {
	turn  chan struct{} // full from Lock to Unlock
	users int           // guarded by Storage.mu: goroutines that have or want the turn
	lease *holdfast.Lease
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// New returns a storage. The lock of a name has that name after prefix, such as "certmagic/". All
// machines that share the storage need the same prefix, and no machine may use the locks of the
// storage inside. It does no I/O.
func New(
	storage certmagic.Storage, client *holdfast.Client, prefix string, options ...holdfast.MutexOption,
) *Storage {
	return &Storage{
		Storage: storage, client: client, prefix: prefix, options: options, locks: map[string]*entry{},
	}
}

// String names the storage and its locks, for CertMagic's log.
func (s *Storage) String() string { return fmt.Sprintf("%v with Holdfast locks", s.Storage) }

// Lock acquires the lock of name. It waits in order of arrival until ctx ends. After an error this
// process does not hold the lock. The errors are those of [holdfast.Mutex.Lock].
func (s *Storage) Lock(ctx context.Context, name string) error {
	e := s.enter(name)
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		s.leave(name, e)
		return fmt.Errorf("certmagiclock: lock %q: %w", name, ctx.Err())
	}
	lease, err := s.mutex(name).Lock(ctx)
	return s.locked(name, e, lease, err)
}

// TryLock acquires the lock of name if it is free, and reports whether it did. It does not wait. The
// errors are those of [holdfast.Mutex.TryLock], without the [holdfast.ErrHeld].
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	e := s.enter(name)
	select {
	case e.turn <- struct{}{}:
	default:
		s.leave(name, e)
		return false, nil
	}
	lease, err := s.mutex(name).TryLock(ctx)
	err = s.locked(name, e, lease, err)
	if errors.Is(err, holdfast.ErrHeld) {
		return false, nil
	}
	return err == nil, err
}

func (s *Storage) mutex(name string) *holdfast.Mutex {
	return s.client.Mutex(s.prefix+name, s.options...)
}

func (s *Storage) enter(name string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.locks[name]
	if e == nil {
		e = &entry{turn: make(chan struct{}, 1)}
		s.locks[name] = e
	}
	e.users++
	return e
}

func (s *Storage) leave(name string, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.users--; e.users == 0 {
		delete(s.locks, name)
	}
}

// locked ends a Lock or TryLock that has the turn.
func (s *Storage) locked(name string, e *entry, lease *holdfast.Lease, err error) error {
	if err != nil {
		<-e.turn
		s.leave(name, e)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.lease = lease
	return nil
}

// held returns the lock of name, if this process has it. If taken is set, this process has it no more
// after that, but still has the turn.
func (s *Storage) held(name string, taken bool) (*entry, *holdfast.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.locks[name]
	if e == nil || e.lease == nil {
		return nil, nil
	}
	lease := e.lease
	if taken {
		e.lease = nil
	}
	return e, lease
}

func notLocked(verb, name string) error {
	return fmt.Errorf("certmagiclock: %s %q: %w: this process has not locked it", verb, name, holdfast.ErrNotHeld)
}

// Unlock releases the lock of name. It works although ctx has ended. If the lock was lost, there is
// nothing to release, and the error is nil. It is a [holdfast.ErrNotHeld] if this process has not
// locked name. If the server did not answer, the client repeats the release in the background, the lock
// is free within its TTL, and the error is a [holdfast.ErrUnknownOutcome] or [holdfast.ErrUnreachable].
func (s *Storage) Unlock(ctx context.Context, name string) error {
	e, lease := s.held(name, true)
	if e == nil {
		return notLocked("unlock", name)
	}
	err := lease.Release(ctx)
	<-e.turn
	s.leave(name, e)
	if errors.Is(err, holdfast.ErrNotHeld) {
		return nil
	}
	return err
}

// RenewLockLease returns nil if the lock of name is held. The client renews it without being asked, so
// leaseDuration has no meaning. If the lock was lost, RenewLockLease acquires it again, and waits as
// [Storage.Lock] does. CertMagic calls it before each try to obtain a certificate, and then looks
// whether another machine has obtained it.
//
// CertMagic does not try after an error, and asks again at its next try. It tries for 30 days and does
// not acquire the lock by itself. The errors are those of [holdfast.Mutex.Lock], and a
// [holdfast.ErrNotHeld] if this process has not locked name, or unlocks it meanwhile.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	e, lease := s.held(name, false)
	switch {
	case e == nil:
		return notLocked("renew", name)
	case lease.Err() == nil:
		return nil
	}
	again, err := s.mutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	if !s.replace(e, lease, again) {
		_ = again.Release(ctx) // if it gets no answer, the client repeats it
		return notLocked("renew", name)
	}
	_ = lease.Release(ctx) // nothing is left to release
	return nil
}

// replace puts a lease in the place of a lost one. It reports whether the lost one was still there.
func (s *Storage) replace(e *entry, lost, again *holdfast.Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.lease != lost {
		return false
	}
	e.lease = again
	return true
}
