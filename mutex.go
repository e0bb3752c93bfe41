// Mutex, and the server's answers about it.

package holdfast

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
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
// ctx bounds only the wait. The lease does not end with it.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) { return m.lock.acquire(ctx, false) }

// TryLock acquires the lock if it is free. It does not wait. If the lock is held, the error
// is a [*HeldError]. If the server does not answer, the error is an [ErrUnreachable] or an
// [ErrUnknownOutcome]. The other errors are those of [Mutex.Lock].
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) { return m.lock.acquire(ctx, true) }

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

// Key returns the name of the lock's record on the server.
func (m *Mutex) Key() string { return m.lock.key() }

// IsHeld asks the server whether the lock is held. The answer may be out of date when it
// arrives, so do not use it to decide whether to work. The errors are those of
// [Client.Inspect].
func (m *Mutex) IsHeld(ctx context.Context) (bool, error) {
	h, err := m.Holder(ctx)
	return h != nil, err
}

// Holder asks the server which holder the lock has. It returns nil if the lock is free. The
// errors are those of [Client.Inspect].
func (m *Mutex) Holder(ctx context.Context) (*Holder, error) {
	if m.lock.err != nil {
		return nil, m.lock.err
	}
	c := m.lock.client
	if err := checkReadable(ctx, c, m.lock.name); err != nil {
		return nil, err
	}
	info, err := readLock(ctx, c, m.lock.name, newRegistrations(0), anyHolder, wire.HoldersOnly)
	if err != nil || !info.Held() {
		return nil, err
	}
	return &info.Holders[0], nil
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

// freeWatch is the state of one AwaitFree.
type freeWatch struct {
	*lock
	retries retries

	free  chan struct{} // full: the server has said that the lock was free
	ask   chan struct{} // full: there is something to ask
	stop  func()        // ends the subscription; nil: there is none
	alone bool          // the server permits no subscription

	// birth is the record that the server has answered for. Databases of one server share their
	// channels, so the news of a lock may be that of its namesake.
	birth atomic.Value
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (lk *lock) awaitFree(parent context.Context) error {
	c := lk.client
	switch {
	case lk.err != nil:
		return lk.err
	case parent == nil:
		return errNoContext
	case parent.Err() != nil:
		return fmt.Errorf("holdfast: lock %q: %w", lk.name, parent.Err())
	}
	if held := lk.heldBy(parent); held != nil && lk.limit == 0 {
		if lk.want == wire.Shared {
			return nil // under any lease of this lock, a reader gets in at once
		}
		return held.deadlock()
	}
	if !c.life.BeginCall() {
		return fmt.Errorf("holdfast: lock %q: %w", lk.name, ErrClosed)
	}
	defer c.life.EndCall()
	ctx := parent
	if lk.maxWait > 0 {
		limited, cancel := bounded(parent, lk.maxWait)
		defer cancel()
		ctx = limited
	}
	f := &freeWatch{
		lock: lk, retries: retries{c: c, lock: lk, try: lk.maxWait == 0},
		free: make(chan struct{}, 1), ask: make(chan struct{}, 1),
	}
	err := f.await(ctx)
	if f.stop != nil {
		f.stop()
	}
	//nolint:errorlint // only the bare errors: every wrapped error has the lock's name already
	if err == ctx.Err() && err != nil || err == ErrClosed {
		err = fmt.Errorf("holdfast: lock %q: %w", lk.name, err)
	}
	return lk.asHeldError(ctx, parent, err)
}

// await asks until the lock is free, and waits for news in between.
func (f *freeWatch) await(ctx context.Context) error {
	c := f.client
	if err := f.retries.prepare(ctx, f.lock); err != nil {
		return err
	}
	for {
		a, err := f.request(ctx)
		switch {
		case err != nil && !f.retries.pauseAfter(ctx, err):
			return f.retries.finalError(ctx, err)
		case err != nil && len(f.free) > 0: // the push came all the same
			return nil
		case err != nil:
			continue
		case a.Kind == wire.Free:
			return nil
		case a.Kind == wire.Conflict:
			return &LimitError{Name: f.name, InUse: a.Count, Asked: f.limit}
		case a.Kind != wire.Busy:
			return wrap("lock", f.name, wire.OtherAnswer("await_free"))
		case f.maxWait == 0:
			return &HeldError{Name: f.name, Remaining: a.Left}
		}
		f.retries.last, f.retries.failures = nil, 0
		f.birth.Store(a.Holder)
		if f.subscribe(ctx) {
			continue // what happened before the subscription was not pushed
		}
		timer := time.NewTimer(f.pollAfter(a.Left))
		over := true
		select {
		case <-f.free:
		case <-f.ask:
			over = false
		case <-timer.C:
			over = false
		case <-ctx.Done():
			err = ctx.Err()
		case <-c.life.Closing():
			err = ErrClosed
		}
		timer.Stop()
		if over {
			return err
		}
	}
}

// request asks the server whether the lock is free. If there is a subscription, the server
// notes that somebody watches. A try would get the lock if it is free.
func (f *freeWatch) request(ctx context.Context) (wire.Answer, error) {
	watches := "0"
	if f.stop != nil {
		watches = "1"
	}
	return f.client.sender.Ask(ctx, script.AwaitFree, f.keys(),
		[]string{f.want, watches, f.client.retention, f.channelPrefix})
}

// subscribe makes the subscription. It reports false if there is one already, or if it is not
// possible. After an error that may pass, it is tried again after the next poll.
func (f *freeWatch) subscribe(ctx context.Context) bool {
	c := f.client
	if f.stop != nil || f.alone {
		return false
	}
	brief, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	stop, err := c.store.Listen(brief, wire.Watch(c.cfg.Prefix, f.name, c.sharded), store.Listener{
		Message: f.heard, Resumed: func() { signal(f.ask) },
	})
	if err != nil {
		err = request.InTime(ctx, err)
		f.alone = request.Definite(err) && !request.Transient(err)
		if f.alone {
			f.reportPushUnavailable(err)
		}
		return false
	}
	f.stop = stop
	return true
}

// heard takes a push. It must not block.
func (f *freeWatch) heard(payload string) {
	news, ok := wire.ParseFree(payload)
	switch {
	case !ok || news.Birth != f.birth.Load():
		signal(f.ask)
	case news.Mode == "" || news.Mode == wire.Shared && f.want == wire.Shared,
		news.Mode == wire.PermitMode && f.limit == news.Limit && news.Used+f.permits <= f.limit:
		signal(f.free)
	}
}

// pollAfter returns how long to wait for a push before the next request.
func (f *freeWatch) pollAfter(left time.Duration) time.Duration {
	if f.stop == nil || left == 0 || f.client.pushing.mute.Load() {
		return leasetime.PollWithoutPush(left, f.ttl, f.client.chance())
	}
	return leasetime.PollAfter(left, 1, f.ttl, f.client.chance())
}

// HoldCount asks the server how often the caller holds the lock.
//
// With [Owner], it counts the leases under that name in all processes. Without [Owner], it
// counts the leases of the hold that ctx belongs to. The server does not know the leases of
// a re-entry under a context. HoldCount adds them only if ctx belongs to them.
//
// The count is 0 if nobody holds the lock. If only others hold it, the error is an
// [ErrHeldByOther]. The other errors are those of [Client.Inspect].
func (m *Mutex) HoldCount(ctx context.Context) (int, error) {
	lk := &m.lock
	if lk.err != nil {
		return 0, lk.err
	}
	if err := checkReadable(ctx, lk.client, lk.name); err != nil {
		return 0, err
	}
	r, err := lk.client.sender.RecordUntil(ctx, lk.keys(), anyHolder)
	if err != nil {
		return 0, wrap("inspecting", lk.name, err)
	}
	if len(r.Holders) == 0 {
		return 0, nil
	}
	mine, n := lk.heldBy(ctx), 0
	for _, h := range r.Holders {
		if lk.owner != "" && h.Owner != "" && wire.Owner(h.Owner) == lk.owner {
			n = h.Entries
		}
		if mine != nil && lk.owner == "" && h.Attempt == attemptOf(mine.hold) {
			n = 1
		}
	}
	if n == 0 {
		return 0, heldByOther(lk.name, r.Holders[0])
	}
	if mine != nil && mine.hold.lock.owner == lk.owner {
		n += mine.holdCount() - 1
	}
	return n, nil
}

// anyHolder ends the reading of a large record as soon as a holder is found. A mutex has one,
// which every page shows. Others may share its name as readers.
func anyHolder(page *wire.Record) bool { return len(page.Holders) > 0 }

// heldByOther returns the error that names the holder of a lock that the caller does not hold.
func heldByOther(name string, h wire.HolderLine) error {
	return fmt.Errorf("%w: %q is held by %s", ErrHeldByOther, name, ownerName(h.Owner, h.Attempt))
}
