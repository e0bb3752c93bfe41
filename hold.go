// hold: one grant of the server, the leases that it serves, its one release.

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// hold is one grant of the server. The renewer renews it. It serves one lease after another
// while goroutines of the process hand it over.
type hold struct {
	renewer.Item
	lock    *lock
	attempt string
	server  atomic.Uint64 // the server's part of the token
	began   time.Duration // when this client learned of the grant
	first   leaseState    // the first lease, unless readers share the hold; this saves an allocation
	told    atomic.Int64  // when the server last told how many wait
	checked atomic.Int64  // when the client last checked for an eviction
	waiting atomic.Int32  // how many wait at the server, by its last answer
	passes  atomic.Int32

	reported reported // guarded by the notifier

	// hasTurn: the hold has the local turn of the lock. Without the turn it is never handed
	// over.
	hasTurn atomic.Bool

	// mu guards the fields below.
	mu     sync.Mutex
	closed bool // the client closes, and all leases of the hold have ended
	stood  bool // the attempt waited in the server's wait queue
	last   bool // the hold has no further renewal and no further lease
	// dropped: the program has dropped one of its leases.
	dropped bool
	lease   *leaseState // the lease that it serves now
	lost    *LostError
	// evicted: the eviction that ended the hold, if it is known.
	evicted *EvictionInfo
	members
}

// Group implements [renewer.Hold].
func (h *hold) Group() string { return h.lock.group }

// grant is what the server has granted to an attempt.
type grant struct {
	attempt string
	token   uint64
	waiting int
	since   time.Duration // the lease counts from then: the server did not grant it earlier
	pushed  time.Duration // the lease of a grant that answers no request; 0: the TTL of the request
	stood   bool          // the attempt waited in the server's wait queue
}

// newHold makes a hold of a grant and adds it to the renewer. After an error the caller
// must cancel the grant: it came too late to be trusted, or the client has closed.
func newHold(s *lock, g grant) (*hold, error) {
	c := s.client
	h := &hold{
		Item: renewer.Item{TTL: s.ttl, NoRenewal: s.noRenewal, Renewals: s.maxRenewals},
		lock: s, attempt: g.attempt, began: c.now(), stood: g.stood,
	}
	h.server.Store(g.token)
	h.hasTurn.Store(s.want == wire.Exclusive && s.queued())
	if s.want == wire.Shared {
		h.shared, h.reserved = true, 1 // for the goroutine that asked
	}
	if s.maxHold > 0 {
		h.NotAfter = h.began + s.maxHold
	}
	h.Hold = h
	h.setWaiters(g.waiting)
	var inCare bool
	if g.pushed > 0 {
		inCare = c.renewer.AddPushed(&h.Item, g.since, g.pushed, h.began)
	} else {
		inCare = c.renewer.Add(&h.Item, g.since, h.began)
	}
	// Close ends the holds that the renewer has. If it has listed them already, no one else
	// would end this hold.
	over := h.Deadline() <= h.began || c.life.IsClosing()
	if inCare && (!over || !c.renewer.Remove(&h.Item)) {
		return h, nil
	}
	if c.life.IsClosing() {
		return nil, ErrClosed
	}
	return nil, fmt.Errorf("holdfast: lock %q: the grant took longer to arrive than its lease of %v is to be "+
		"trusted: %w", s.name, s.ttl, &LostError{Name: s.name, Reason: LossExpired})
}

// token returns the fencing token of the current lease: the server's part, then the number
// of local hand-overs. So every lease has a higher token than the one before.
func (h *hold) token() uint64 { return h.server.Load()<<10 | uint64(h.passes.Load()) }

// setWaiters stores how many wait at the server now.
func (h *hold) setWaiters(waiting int) {
	h.waiting.Store(int32(min(waiting, math.MaxInt32)))
	h.told.Store(int64(h.lock.client.now()))
}

// mayHandOver reports whether the client knows the state of the hold on the server, and the
// hold is live.
func (h *hold) mayHandOver() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost == nil && h.unsettled == still && !h.last
}

// endReason returns why the hold serves no lease any more.
func (h *hold) endReason() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.lost != nil:
		return h.lost
	case h.closed:
		return ErrClosed
	}
	// The renewer has removed the hold and has not reported it yet.
	return h.loss(LossReason(h.EndReason()))
}

// attach sets t as the lease that ends when the hold is lost or the client closes. It
// reports false if that has happened already.
func (h *hold) attach(t *leaseState) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost != nil || h.closed {
		return false
	}
	h.lease, h.departed = t, false
	return true
}

// finish ends the current lease because the client closes. The hold serves no further
// lease. err is the error in the release event.
func (h *hold) finish(err error) {
	h.mu.Lock()
	h.closed = true
	all := h.leases()
	h.mu.Unlock()
	for _, t := range all {
		for _, live := range t.finish(ErrClosed) {
			if !live.isDropped() {
				h.lock.client.events.tell(news{hold: h, lease: live, event: live.ending(EventRelease, false, err)})
			}
		}
	}
}

// releaseMode says how to give a hold up. The zero value frees the lock.
type releaseMode struct {
	keep   time.Duration // the lock stays held this long from now
	reopen bool          // the period of a run is given back
}

// release tells the server that the hold has ended. The server grants the next waiter in
// the same step. The caller has removed the hold from the renewer. Only a deadline of ctx
// that is still ahead bounds release. If a request gets no answer, the client sends it once
// more, because a repeated release does no harm. After that it continues in the background
// until the lease has ended.
func (h *hold) release(ctx context.Context, how releaseMode) error {
	ctx = request.Lasting(ctx)
	c, s := h.lock.client, h.lock
	start := c.now()
	switch {
	case how.reopen:
		return h.reopen(ctx)
	case how.keep > 0 && !h.exclusive():
		return h.keep(ctx, how.keep)
	case how.keep > 0 || s.minHold > 0:
		args := s.owned([]string{
			h.attempt, wire.Number(h.server.Load()), ceilMillis(s.minHold), ceilMillis(how.keep), c.retention, s.base,
		})
		return h.sendRelease(ctx, ctx, start, script.ReleaseAfter, args)
	}
	limit := ctx
	if batch := h.batch(ctx); batch != nil {
		if item := batch.Enter(request.One{Key: s.key(), Attempt: h.attempt}); item == nil {
			defer batch.Exit()
		} else {
			limit = c.sender.Twice(ctx, start) // includes the wait for the batch
			if o := <-item.Answer; o.Done {
				return nil
			}
			// Not released, or not known. A release finds out, because it may run twice.
		}
	}
	args := s.owned([]string{h.attempt, wire.Number(h.server.Load()), c.retention, s.base})
	return h.sendRelease(ctx, limit, start, script.Release, args)
}

// batch returns the batch for releases without waiters. It returns nil if this release must
// go alone.
func (h *hold) batch(ctx context.Context) *request.Batcher {
	if _, limited := ctx.Deadline(); limited ||
		h.lock.want != wire.Exclusive || h.lock.owner != "" || h.waiting.Load() > 0 {
		return nil
	}
	return h.lock.client.sender.Releases()
}

// sendRelease sends a release or a release_after, within limit, which is ctx or a shorter
// context. If a copy of the request has run, the server gives the same answer again.
func (h *hold) sendRelease(
	ctx, limit context.Context, start time.Duration, action *script.Script, args []string,
) error {
	c, s := h.lock.client, h.lock
	a, err := c.sender.AskTwice(limit, action, s.keys(), args)
	switch {
	case err != nil:
		if request.Transient(err) {
			h.releaseLater(action, args)
		}
		return wrap("release of", s.name, request.InTime(ctx, err))
	case a.Kind == wire.Released, a.Kind == wire.Kept, a.Kind == wire.Held: // Held: others of the named owner hold it
		return nil
	case a.Kind == wire.Gone:
		return h.gone(c.sender.Twice(limit, start))
	}
	return wrap("release of", s.name, wire.BadAnswer("another kind to release"))
}

// releaseLater repeats the release in the background until the lease has ended. If a
// release_after gets no answer, the lock may be free at the lease's end, before the minimum
// time has passed.
func (h *hold) releaseLater(action *script.Script, args []string) {
	c, s := h.lock.client, h.lock
	until := max(c.now(), h.Deadline())
	if action == script.Release {
		c.canceller.Cancel(s.attempt(h.attempt), until)
		return
	}
	again := func(ctx context.Context) (known bool, err error) {
		_, err = c.sender.Ask(ctx, action, s.keys(), args)
		return true, err
	}
	c.canceller.Until(request.Message{Known: until, Silent: until, Send: again})
}

// reopen gives up the run and its period. Without an answer the period may stay marked. The
// client retries in the background for one TTL.
func (h *hold) reopen(ctx context.Context) error {
	c, s := h.lock.client, h.lock
	a, err := c.sender.Ask(ctx, script.CancelRun, s.keys(), []string{h.attempt, c.retention, s.base})
	switch {
	case err != nil:
		if request.Transient(err) {
			c.canceller.CancelBy(script.CancelRun, s.attempt(h.attempt), c.now()+s.ttl)
		}
		return wrap("release of", s.name, err)
	case a.Kind == wire.None:
		return fmt.Errorf("%w: %w", ErrNotHeld, h.lostFor(renewer.NotHeld))
	}
	return nil
}

// keep makes the lease of a reader or of permits last for delay, and no longer.
func (h *hold) keep(ctx context.Context, delay time.Duration) error {
	delay = (delay + time.Millisecond - 1).Truncate(time.Millisecond)
	lost, err := h.extend(ctx, delay)
	if err != nil {
		return wrap("release of", h.lock.name, err)
	}
	if lost != "" {
		return fmt.Errorf("%w: %w", ErrNotHeld, h.lostFor(lost))
	}
	return nil
}

// exclusive reports whether the hold is neither shared nor one of permits.
func (h *hold) exclusive() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lock.limit == 0 && !h.shared
}

// gone returns the error for a hold that the server no longer knows. It asks the server for
// the eviction and the current holder. If the server does not answer, the error is less
// precise.
func (h *hold) gone(ctx context.Context) error {
	h.cancelPosition()
	r, reason := h.readEviction(ctx)
	err := fmt.Errorf("%w: %w", ErrNotHeld, h.lostFor(reason))
	for _, other := range r.Holders {
		if other.Mode == wire.Exclusive && (h.lock.owner == "" || wire.Owner(other.Owner) != h.lock.owner) {
			return fmt.Errorf("%w: %w", ErrHeldByOther, err)
		}
	}
	return err
}

// ceilMillis writes a duration in whole milliseconds, rounded up.
func ceilMillis(d time.Duration) string { return wire.Millis(d + time.Millisecond - 1) }

// members are the readers under one hold. While the hold is shared, they are all of its
// leases. Otherwise they are re-entries under the writer's lease. hold.mu guards the
// fields.
type members struct {
	readers    map[*leaseState]struct{}
	keptUntil  time.Duration // the lock stays held until then, also after the last reader's release
	reserved   int32         // reservations: readers that are let in and have no lease yet
	unsettled  conversion    // a conversion that is under way or has an unknown outcome
	shared     bool          // shared on the server, as far as the client knows
	converting bool          // a conversion is under way
	departed   bool          // the holder has released its lease
}

// reading returns how many leases and reservations of readers the hold has. The caller
// holds h.mu.
func (h *hold) reading() int { return len(h.readers) + int(h.reserved) }

// leases returns all leases under the hold. The caller holds h.mu.
func (h *hold) leases() (all []*leaseState) {
	if h.lease != nil {
		all = append(all, h.lease)
	}
	for t := range h.readers {
		all = append(all, t)
	}
	return all
}

// reserve adds a reservation for one more reader. The reader redeems it or gives it back.
// It reports false if the hold has ended or a conversion is under way.
func (h *hold) reserve() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost != nil || h.closed || h.last || !h.shared || h.unsettled != still || h.reading() == 0 {
		return false
	}
	h.reserved++
	return true
}

// redeem turns a reservation into a lease of a reader. If the hold was lost or the client
// has closed, it drops the reservation and reports false.
func (h *hold) redeem(t *leaseState) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reserved--
	if h.lost != nil || h.closed {
		return false
	}
	h.addReader(t)
	return true
}

// addMember adds a lease beside held, under whose context it was acquired.
func (h *hold) addMember(t, held *leaseState) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, reads := h.readers[held]
	if h.lost != nil || h.closed || !reads && h.lease != held {
		return false
	}
	h.addReader(t)
	return true
}

func (h *hold) addReader(t *leaseState) {
	if h.readers == nil {
		h.readers = make(map[*leaseState]struct{})
	}
	h.readers[t] = struct{}{}
}

// joinable reports whether readers may find and join the hold.
func (h *hold) joinable() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost == nil && !h.closed && !h.last && h.shared && h.reading() > 0
}

// reads reports whether the lease is a reader's.
func (t *leaseState) reads() bool {
	t.hold.mu.Lock()
	defer t.hold.mu.Unlock()
	return t.hold.lease != t
}

// of reports whether the lease is one of this lock.
func (t *leaseState) of(c *Client, s *lock) bool {
	return t.hold.lock.client == c && t.hold.lock.key() == s.key()
}

// unreserve gives a reservation back, because the reader no longer wants the lease.
func (h *hold) unreserve() {
	h.mu.Lock()
	h.reserved--
	last := h.alone()
	h.mu.Unlock()
	if last {
		_ = h.releaseShared(h.lock.client.life.Context())
	}
}

// alone reports whether no reader is left. The caller holds h.mu.
func (h *hold) alone() bool { return h.shared && h.reading() == 0 }

// removal says what must follow after a lease has left its hold.
type removal uint8

const (
	asHolder removal = iota // it was the writer's lease or one of permits: give the hold up
	asLast                  // it was the last reader's lease: give the hold up
	asOne                   // other readers remain
	asGuest                 // it had ended with the writer's lease, under which it was acquired
)

// remove removes a lease from its hold. After that the lease cannot convert the hold.
func (h *hold) remove(t *leaseState) removal {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease == t {
		h.departed = true
		return asHolder
	}
	if _, in := h.readers[t]; !in {
		return asGuest
	}
	delete(h.readers, t)
	if h.alone() {
		return asLast
	}
	return asOne
}

// afterReader does what must follow after a reader's lease has left.
func (h *hold) afterReader(ctx context.Context, as removal) (local bool, err error) {
	if as == asLast {
		return false, h.releaseShared(ctx)
	}
	if as == asGuest {
		return true, fmt.Errorf("%w: %w", ErrNotHeld, ErrReleased)
	}
	h.mu.Lock()
	lost := h.lost
	h.mu.Unlock()
	if lost != nil {
		return true, fmt.Errorf("%w: %w", ErrNotHeld, lost)
	}
	h.stopIfDropped()
	return true, nil
}

// releaseShared gives up a hold without readers.
func (h *hold) releaseShared(ctx context.Context) error {
	h.unshare()
	h.mu.Lock()
	keep := max(h.keptUntil-h.lock.client.now(), 0)
	h.mu.Unlock()
	_, err := h.handOverOrRelease(ctx, releaseMode{keep: keep})
	return err
}

// keepFor keeps the lock held for at least delay, also while other readers hold it.
func (t *leaseState) keepFor(delay time.Duration) {
	h := t.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, reads := h.readers[t]; reads && h.shared {
		h.keptUntil = max(h.keptUntil, h.lock.client.now()+delay)
	}
}

// endMembers ends the re-entries under the writer's lease, which ends now.
func (h *hold) endMembers() {
	h.mu.Lock()
	guests := h.readers
	h.readers = nil
	h.mu.Unlock()
	for t := range guests {
		t.end(ErrReleased)
	}
}

// errReads is the part of a deadlock error that is specific to a reader.
var errReads = errors.New("it holds the lock as a reader")

// deadlock returns the error for a call under the context of its own lock's lease.
func (t *leaseState) deadlock() error {
	if t.hold.lock.rw.any() && t.reads() {
		return fmt.Errorf("holdfast: lock %q: %w: %w", t.hold.lock.name, ErrDeadlock, errReads)
	}
	return fmt.Errorf("holdfast: lock %q: %w", t.hold.lock.name, ErrDeadlock)
}
