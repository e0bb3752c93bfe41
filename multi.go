// MultiMutex: several mutexes, all or none.

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/localqueue"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
)

// MaxLocks is the largest number of locks in one [MultiMutex]. The server acquires them in
// one script, and serves no other client during that time.
const MaxLocks = 128

// MultiMutex acquires several locks together: all or none. Each of them is the [Mutex] of
// its name. A holder of one of them blocks a MultiMutex that needs it, and a MultiMutex
// blocks a Mutex. Like a Mutex, it is names and options, and has no state.
//
// If all locks are free and the store allows it, one request acquires them in one step. On
// one server that is always so. In a Cluster it is so only for locks of one slot.
//
// If a lock is held, Lock waits in its wait queue, and then asks for the others. While it waits, others can
// have the free ones: in one wait, Lock keeps what it has for 100 ms at most, or two round trips if they are longer;
// usually 10 ms. If another lock is held by then, Lock gives back what it has, and waits for that one.
//
// Lock gives back at most eight times, outages apart. After that it acquires the locks in the order of their keys, and
// keeps those that it has. So it is not starved: it waits for each lock once more, in order of arrival. The order of
// the keys is the same for all callers, so no two of them wait for each other.
type MultiMutex struct {
	client *Client
	locks  []lock // by key, all different; empty only with err
	err    error  // what is wrong with the names or the options
}

// MultiMutex names locks to acquire together: 1 to [MaxLocks] different names, in any
// order. It does no I/O. If a name or an option is invalid, the first use returns an
// [ErrInvalid].
func (c *Client) MultiMutex(names []string, options ...LockOption) *MultiMutex {
	m := &MultiMutex{client: c}
	switch {
	case len(names) == 0:
		m.err = invalid("there are no names: name the locks to acquire together")
	case len(names) > MaxLocks:
		m.err = invalid("there are %d names: at most %d locks can be acquired together", len(names), MaxLocks)
	}
	if m.err != nil {
		return m
	}
	chosen, err := choose(c, names[0], lockOptions{want: wire.Exclusive}, options)
	for _, name := range names {
		lk := newLock(c, name, chosen, err)
		if lk.err != nil {
			m.err = lk.err
			return m
		}
		m.locks = append(m.locks, lk)
	}
	slices.SortFunc(m.locks, func(a, b lock) int { return strings.Compare(a.key(), b.key()) })
	for i := range m.locks[1:] {
		if m.locks[i].key() == m.locks[i+1].key() {
			m.err = invalid("the name %q is given twice: give each name once", m.locks[i].name)
		}
	}
	return m
}

// Lock acquires all of the locks and returns one lease of them. It waits like [Mutex.Lock]. If
// the server is away for so long that a lock is lost which the call has already, it begins
// again. With [Tries], each try acquires all of the locks or none, and the call waits in no
// queue.
//
// After an error the caller holds nothing and is in no wait queue. If the server may have
// granted a lock, the library releases it in the background. The errors are those of
// [Mutex.Lock], and name the lock that was the cause. It is an [ErrLost] if an operator has
// evicted the call from one of the locks, or MaxHold has ended its lease, before it had all.
func (m *MultiMutex) Lock(ctx context.Context) (*MultiLease, error) {
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	if first := &m.locks[0]; first.tries > 0 {
		return m.noteCaller(tryOften(ctx, first, func() (*MultiLease, error) { return m.take(ctx, 0) }))
	}
	return m.noteCaller(m.take(ctx, m.locks[0].maxWait))
}

// TryLock acquires the locks if all of them are free. It does not wait. If one is held, the
// error is a [*HeldError] that names the first one.
func (m *MultiMutex) TryLock(ctx context.Context) (*MultiLease, error) {
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	l, err := m.noteCaller(m.take(ctx, 0))
	return l, m.client.nameHolder(ctx, err)
}

// noteCaller stores where the caller of the lock call acquired the lease.
func (m *MultiMutex) noteCaller(l *MultiLease, err error) (*MultiLease, error) {
	if l != nil && m.client.events.log != nil {
		l.state.taken = caller(2)
	}
	return l, err
}

// Do runs f while it holds the locks, as [Mutex.Do] does with one lock. The context of f
// also ends when any of the locks is lost.
func (m *MultiMutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	if err := runnable(ctx, f == nil); err != nil {
		return err
	}
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return do(ctx, l, f)
}

// TryDo is [MultiMutex.Do] if all of the locks are free, see [Mutex.TryDo].
func (m *MultiMutex) TryDo(ctx context.Context, f func(ctx context.Context) error) (ran bool, err error) {
	if err := runnable(ctx, f == nil); err != nil {
		return false, err
	}
	if err := m.usable(ctx); err != nil {
		return false, err
	}
	l, err := m.noteCaller(m.take(ctx, 0))
	if err != nil {
		return false, skipped(err)
	}
	return true, do(ctx, l, f)
}

func (m *MultiMutex) usable(ctx context.Context) error {
	if m.err != nil {
		return m.err
	}
	for i := range m.locks {
		if _, err := m.locks[i].checkOrReenter(ctx); err != nil {
			return err
		}
	}
	return nil
}

// take acquires all of the locks. limit bounds the wait: 0 means one try, below 0 means
// until ctx ends.
//
// If a lock is lost while the call waits for another one, the server was away for longer than a
// lease, or has lost the record. A call that waits begins again then, as that for one lock does.
func (m *MultiMutex) take(ctx context.Context, limit time.Duration) (*MultiLease, error) {
	c := m.client
	if !c.life.BeginCall() {
		return nil, ErrClosed
	}
	defer c.life.EndCall()
	waits := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		waits, cancel = bounded(ctx, limit)
		defer cancel()
	}
	told := &call{ctx: ctx, start: c.now()}
	for losses := 0; ; losses++ {
		g := &gathering{
			MultiMutex: m, ctx: waits, parent: ctx, told: told, missing: m.locks,
			retry: &retries{c: c, lock: &m.locks[0], try: limit == 0},
		}
		l, err := g.run()
		if err == nil || limit == 0 || !lostWhileAway(err) {
			return l, err
		}
		c.sender.Pause(waits, losses) // if the wait ends, the next request says so
	}
}

// lostPartError says that one of several locks was lost before the call had all of them.
type lostPartError struct {
	when string
	lost error
}

func (e *lostPartError) Error() string { return once("holdfast: " + e.when + ": " + e.lost.Error()) }

func (e *lostPartError) Unwrap() error { return e.lost }

// lostWhileAway reports whether err says that one of several locks was lost, and that it may be acquired
// again: neither an operator nor an option has ended the lease.
func lostWhileAway(err error) bool {
	var part *lostPartError
	var lost *LostError
	return errors.As(err, &part) && errors.As(part.lost, &lost) &&
		(lost.Reason == LossExpired || lost.Reason == LossNotHeld)
}

// gathering is a call while it acquires several locks.
//
// It asks for all missing locks in one step. If one is busy, it waits in the wait queue of that lock, and then asks
// for the rest. For example, it wants A and B, and B is held. It waits for B, and leaves A to others. It is granted
// B. If A is free, it has both after one more request. If A is held now, it gives B back, and waits for A.
//
// If it has A, and B is held, it keeps A for a moment while it waits for B: the holder of both has perhaps released
// A just before B. Otherwise, calls that want the same locks would give back in step, and wait in different queues.
//
// It waits for a lock only if all locks that it holds come earlier in the order of the keys, local turns included.
// The order is the same for all callers. A request for several locks never waits. So the wait-for relation follows
// that order and has no cycle.
type gathering struct {
	*MultiMutex
	ctx, parent context.Context // ctx bounds the wait; parent is the parent of the leases' contexts
	retry       *retries
	told        *call
	taken       []*Lease
	missing     []lock        // those that are not taken, by key
	asked       time.Duration // how long the last answer took
	givenBack   int           // how often it has given back what it had, outages apart
	inOrder     bool          // it has given back too often
}

// mostGivenBack bounds how often a call gives back what it has. After that it waits in order: for each lock at most
// once, because it keeps what it has waited for.
const mostGivenBack = 8

// run acquires all of the locks, unless one is lost meanwhile.
func (g *gathering) run() (*MultiLease, error) {
	free := len(g.missing) // the missing locks before this index may all be free
	for len(g.missing) > 0 {
		if free == 0 {
			if err := g.await(&g.missing[0]); err != nil {
				return nil, err
			}
			free = len(g.missing)
			continue
		}
		locks, missing := group(g.missing[:free]), g.missing
		busy, gaveBack, err := g.askFor(locks)
		held, wanted := errors.Is(err, ErrHeld), missing[busy:min(free+1, len(missing))]
		switch {
		case err == nil && !gaveBack:
			g.missing, free = g.missing[len(locks):], free-len(locks)
		case err != nil && !held && g.client.isTransient(err) && g.pauseAfter(err):
			// The client could not ask the server, and the wait continues.
			if err := lostOf(g.taken); err != nil {
				g.client.giveBack(g.parent, g.taken)
				return nil, &lostPartError{"while the server was unreachable", err}
			}
			if !g.inOrder {
				free = len(g.missing)
			}
		case err != nil && (g.retry.try || !held):
			return nil, g.fail(wanted, err)
		case g.inOrder:
			free = busy
		case g.mustGoInOrder(gaveBack):
			g.giveBack()
			g.inOrder, free = true, len(g.missing)
		case err == nil:
			free = len(g.missing) // and those that it has given back
		default:
			if err := g.await(&wanted[0]); err != nil {
				return nil, err
			}
			free = len(g.missing)
		}
	}
	l := newMultiLease(g.parent, g.taken)
	if err := l.Err(); err != nil {
		g.client.untilEnd(g.parent, func() { _ = l.release(g.parent, releaseMode{unused: true}) })
		return nil, &lostPartError{"the locks were not all held at the same time", err}
	}
	return l, nil
}

// askFor asks for locks in one step. If the answer takes longer than a moment, the call gives back what it had before,
// and keeps what that answer grants.
func (g *gathering) askFor(locks []lock) (busy int, gaveBack bool, err error) {
	gaveBack = g.keepBriefly(leasetime.KeepWhileAsking(g.asked), func() { busy, err = g.takeAll(locks) })
	if gaveBack && (err == nil || errors.Is(err, ErrHeld)) {
		g.givenBack++ // without an answer it was an outage: in order, the call would keep a lock until its end
	}
	return busy, gaveBack, err
}

// mustGoInOrder reports whether the call has given back as often as it may if it gives back now what it has. gaveBack
// says that it has just done so in part.
func (g *gathering) mustGoInOrder(gaveBack bool) bool {
	if gaveBack || len(g.taken) == 0 {
		return g.givenBack >= mostGivenBack
	}
	return g.givenBack >= mostGivenBack-1
}

// fail gives back what the call has, and returns its error. err is that of the first of the locks.
func (g *gathering) fail(locks []lock, err error) error {
	g.client.giveBack(g.parent, g.taken)
	err = asHeldErrorOf(g.ctx, g.parent, group(locks), g.retry.ended(g.ctx, err))
	locks[0].reportFailure(g.told, err)
	return err
}

// await waits for one lock in its wait queue. After an error the call has nothing.
func (g *gathering) await(lk *lock) (err error) {
	if slices.ContainsFunc(g.taken, func(l *Lease) bool { return l.key() > lk.key() }) {
		g.giveBack()
	}
	var l *Lease
	gaveBack := g.keepBriefly(leasetime.KeepWhileWaiting(g.asked), func() {
		l, err = acquireNext(g.ctx, under(g.parent, g.taken), lk, g.taken)
	})
	if gaveBack {
		g.givenBack++
	}
	if err != nil {
		g.client.giveBack(g.parent, g.taken)
		return err
	}
	g.have(append(g.taken, l))
	return nil
}

// have notes what the call has now, and what is missing.
func (g *gathering) have(taken []*Lease) {
	g.taken = taken
	g.missing = slices.DeleteFunc(slices.Clone(g.locks), func(lk lock) bool {
		return slices.ContainsFunc(taken, func(l *Lease) bool { return l.key() == lk.key() })
	})
}

// pauseAfter pauses before the next request, see [retries.pauseAfter].
func (g *gathering) pauseAfter(err error) (again bool) {
	g.keepBriefly(leasetime.KeepWhileWaiting(g.asked), func() { again = g.retry.pauseAfter(g.ctx, err) })
	return again
}

// keepBriefly calls wait, which may add to what the call has. If wait takes longer than limit, keepBriefly gives back
// what the call had before, and wait goes on: the call keeps its position in the queue.
func (g *gathering) keepBriefly(limit time.Duration, wait func()) (gaveBack bool) {
	kept := g.taken
	if g.inOrder || g.retry.try || len(kept) == 0 {
		wait()
		return false
	}
	over := make(chan struct{})
	timer := time.AfterFunc(limit, func() {
		g.client.giveBack(g.ctx, kept)
		close(over)
	})
	wait()
	if timer.Stop() {
		return false
	}
	<-over
	g.have(slices.Clone(g.taken[len(kept):]))
	return true
}

// giveBack releases what the call has, so that others can have it while the call waits.
func (g *gathering) giveBack() {
	g.client.giveBack(g.ctx, g.taken)
	g.have(nil)
	g.givenBack++
}

// giveBack releases the leases of a call that does not have all. If ctx ends first, that goes on in the background.
func (c *Client) giveBack(ctx context.Context, taken []*Lease) {
	if len(taken) > 0 {
		c.untilEnd(ctx, func() { _ = releaseLeases(ctx, taken, releaseMode{unused: true}) })
	}
}

// acquireNext waits for one lock. It stops if a lock acquired earlier is lost.
func acquireNext(ctx, parent context.Context, lk *lock, taken []*Lease) (*Lease, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for _, l := range taken {
		l.state.onEnd(func(cause error) {
			if !errors.Is(cause, ErrReleased) {
				stop(cause)
			}
		})
	}
	l, err := lk.acquireAs(ctx, parent, false)
	if err != nil {
		if lost := context.Cause(ctx); errors.Is(lost, ErrLost) {
			err = &lostPartError{fmt.Sprintf("while waiting for %q", lk.name), lost}
		}
		return nil, err
	}
	l.passLeakCheckOn()
	l.stopLeakCheck() // the MultiLease keeps it
	return l, nil
}

// lostOf returns why one of the leases has ended, or nil.
func lostOf(taken []*Lease) error {
	for _, l := range taken {
		if err := l.Err(); err != nil {
			return err
		}
	}
	return nil
}

// group returns the longest prefix of the list that one request can acquire.
func group(list []lock) []lock {
	n := 1
	for n < len(list) && list[n].group == list[0].group {
		n++
	}
	return list[:n]
}

// takeAll acquires the locks in one step, or none of them. After an error, busy is the
// index of the lock that was the cause. After a HeldError nothing was changed. takeAll
// first gets the local turns, without a wait.
func (g *gathering) takeAll(locks []lock) (busy int, err error) {
	c, ctx := g.client, g.ctx
	for i := range locks {
		if lk := &locks[i]; lk.usesLocalQueue() {
			if _, err := c.localQueue.TakeTurn(ctx, lk.key(), localqueue.Exclusive, lk, true); err != nil {
				leaveAll(locks[:i], nil)
				return i, lk.endedHere(ctx, err, localqueue.Exclusive)
			}
		}
	}
	taken := g.taken
	sent := c.now()
	holds, busy, err := askAll(ctx, g.retry, locks)
	if err == nil || errors.Is(err, ErrHeld) {
		g.asked = c.now() - sent
	}
	if err != nil {
		leaveAll(locks, c.toTries(err))
		return busy, err
	}
	for i, h := range holds {
		if h.lock.usesLocalQueue() {
			h.lock.turn().SetHold(h)
		}
		l := h.newLease(under(g.parent, taken))
		if l == nil {
			// The hold was lost, or the client has closed, so the hold gives up its turn.
			// The other holds are released like leases. The error is that of the first one.
			err = h.endReason()
			h.passTurnOn()
			request.InParallel(len(holds), holds[i+1:], func(_ int, rest *hold) {
				rest.discard()
				rest.passTurnOn()
			})
			c.giveBack(ctx, taken[len(g.taken):])
			return i, err
		}
		l.passLeakCheckOn()
		l.stopLeakCheck()
		taken = append(taken, l)
		c.events.tellGrant(l.state, observe.Event{Wait: c.now() - g.told.start})
	}
	g.taken = taken
	return 0, nil
}

// askAll asks the server for the locks. After an error the server keeps nothing, or a
// cancel runs in the background.
func askAll(ctx context.Context, retry *retries, locks []lock) (holds []*hold, busy int, err error) {
	c := retry.c
	if c.life.IsClosing() {
		return nil, 0, ErrClosed
	}
	first := &locks[0]
	if err := first.prepare(ctx); err != nil {
		return nil, 0, retry.finalError(ctx, err, false) // nothing was asked
	}
	c.registration.Start()
	all, anew := allOf(locks), again{began: c.now()}
	answer, err := all.ask(ctx, retry.failures)
	for isBreak(err) && anew.may(first) && all.withdrawn(ctx) {
		all.cancel() // for a late copy
		all = allOf(locks)
		answer, err = all.ask(ctx, retry.failures)
	}
	if request.Definite(err) {
		return nil, 0, retry.finalError(ctx, err, false)
	}
	var g wire.AllAnswer
	if err == nil {
		g, err = wire.ParseAll(answer, len(locks))
	}
	if err != nil {
		all.cancel()
		return nil, 0, retry.finalError(ctx, err, true)
	}
	if g.Locks == nil {
		return nil, g.Busy, &HeldError{Name: locks[g.Busy].name, HeldBy: g.Holder, Remaining: g.Left}
	}
	for i, a := range g.Locks {
		g := grant{number: all.number, token: a.Token, waiting: a.Waiting, since: all.sent}
		h, err := newHold(&locks[i], g)
		if err != nil {
			for _, other := range holds {
				c.renewer.Remove(&other.Item)
			}
			all.cancel()
			return nil, i, err
		}
		holds = append(holds, h)
	}
	return c.confirmAll(ctx, holds)
}

// allAttempt is one attempt at several locks.
type allAttempt struct {
	locks  []lock
	id     string
	number uint64
	sent   time.Duration
}

func allOf(locks []lock) *allAttempt {
	all := &allAttempt{locks: locks}
	all.id, all.number = locks[0].newAttemptID()
	return all
}

// ask sends the request. unanswered is how many of the call got no answer before.
func (all *allAttempt) ask(ctx context.Context, unanswered int) (string, error) {
	first := &all.locks[0]
	c := first.client
	keys, args := make([]string, len(all.locks)), []string{all.id, first.ttlMS, c.retention}
	for i := range all.locks {
		keys[i], args = all.locks[i].key(), append(args, all.locks[i].channelPrefix)
	}
	all.sent = c.now()
	limit := leasetime.AcquireLimit(c.sender.Timeout, first.ttl, unanswered)
	return c.sender.RunWithin(ctx, limit, script.AcquireAll, keys, args)
}

// withdrawn cancels the attempt, and reports whether the servers have answered.
func (all *allAttempt) withdrawn(ctx context.Context) bool {
	var silent atomic.Bool
	all.each(func(lk *lock) {
		if !lk.withdraw(ctx, script.Cancel, all.id) {
			silent.Store(true)
		}
	})
	return !silent.Load()
}

// cancel cancels the attempt in the background, or at once if the client has closed.
func (all *allAttempt) cancel() {
	all.each(func(lk *lock) { lk.client.canceller.CancelUnknown(lk.toCancel(all.id)) })
}

// each calls do for every lock, for all at the same time: a silent server must not make them wait for each other.
func (all *allAttempt) each(do func(lk *lock)) {
	request.InParallel(len(all.locks), all.locks, func(i int, _ lock) { do(&all.locks[i]) })
}

// confirmAll waits until all grants are acknowledged, or releases all of them.
func (c *Client) confirmAll(ctx context.Context, holds []*hold) (confirmed []*hold, failed int, err error) {
	if !holds[0].lock.ack.Wanted() {
		return holds, 0, nil
	}
	for i, h := range holds {
		if err := h.confirm(ctx); err != nil { // confirm has released h
			others := slices.DeleteFunc(append(holds[:i:i], holds[i+1:]...), func(h *hold) bool {
				return !c.renewer.Remove(&h.Item)
			})
			c.untilEnd(ctx, func() {
				request.InParallel(len(others), others, func(_ int, h *hold) { _ = h.release(ctx, releaseMode{}) })
			})
			return nil, i, err
		}
	}
	return holds, 0, nil
}

// leaveAll gives up the turns of locks that are not held. refusal is for the goroutines that only try.
func leaveAll(locks []lock, refusal error) {
	for i := range locks {
		if lk := &locks[i]; lk.usesLocalQueue() {
			lk.turn().PassOnWith(refusal)
		}
	}
}
