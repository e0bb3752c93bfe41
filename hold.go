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

// hold is one grant of the server. It is in the renewer's care, and serves one
// lease after another while it is passed inside the process.
type hold struct {
	renewer.Item
	lock    *lock
	attempt string
	server  atomic.Uint64 // the server's part of the token
	began   time.Duration // when it was known here
	first   leaseState    // the first lease, unless readers share the hold: an allocation less
	told    atomic.Int64  // when we were last told how many wait
	checked atomic.Int64  // when we last looked whether it was evicted
	waiting atomic.Int32  // how many wait on the server, as last told
	passes  atomic.Int32

	reported reported // guarded by the notifier

	// hasTurn: the local turn of the lock goes with it. Without, it is never handed over.
	hasTurn atomic.Bool

	// mu guards the fields below.
	mu     sync.Mutex
	closed bool // the client closes: whatever the hold serves has ended
	stood  bool // it was waited for in the server's line
	last   bool // it is not renewed any more, and serves no further lease
	// dropped: the caller has forgotten one of its leases
	dropped bool
	lease   *leaseState // the lease that it serves now
	lost    *LostError
	// evicted: who took it away, if that is known
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
	since   time.Duration // its lease counts from then: the server did not grant it earlier
	pushed  time.Duration // the lease of a grant that answers no request; 0: the one that was asked for
	stood   bool          // it was waited for in the server's wait queue
}

// newHold makes a hold of a grant, and gives it into the renewer's care. On error the
// grant came too late to be believed, or the client has closed: the caller cancels it.
func newHold(s *lock, g grant) (*hold, error) {
	c := s.client
	h := &hold{
		Item: renewer.Item{TTL: s.ttl, NoRenewal: s.noRenewal, Renewals: s.maxRenewals},
		lock: s, attempt: g.attempt, began: c.now(), stood: g.stood,
	}
	h.server.Store(g.token)
	h.hasTurn.Store(s.want == wire.Exclusive && s.queued())
	if s.want == wire.Shared {
		h.shared, h.reserved = true, 1 // to the one who asked
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
	// Close ends what is in care. If it has looked before this hold was, nobody would
	// watch over the lease.
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

// token is the fencing token of the present pass: the server's part, and room
// for the passes behind it, so that every lease has a higher one.
func (h *hold) token() uint64 { return h.server.Load()<<10 | uint64(h.passes.Load()) }

// setWaiters notes how many wait on the server, now.
func (h *hold) setWaiters(waiting int) {
	h.waiting.Store(int32(min(waiting, math.MaxInt32)))
	h.told.Store(int64(h.lock.client.now()))
}

// mayHandOver reports that the server's view of the hold is what we think it is.
func (h *hold) mayHandOver() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost == nil && h.unsettled == still && !h.last
}

// endReason is why the hold serves no lease any more.
func (h *hold) endReason() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.lost != nil:
		return h.lost
	case h.closed:
		return ErrClosed
	}
	// Out of the renewer's care, and not told yet.
	return h.loss(LossReason(h.EndReason()))
}

// attach makes t the lease that ends when the hold is lost or the client
// closes. It reports false if that has happened already.
func (h *hold) attach(t *leaseState) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost != nil || h.closed {
		return false
	}
	h.lease, h.departed = t, false
	return true
}

// finish ends the present lease because the client closes; no other follows.
// err is what the observer is told of its release.
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

// releaseMode says how a hold is given up. The zero value frees the lock.
type releaseMode struct {
	keep   time.Duration // the lock stays taken for so long from now
	reopen bool          // the period of a run is given back
}

// release tells the server that the hold is over, which hands the lock on in
// the same step. The hold is out of the renewer's care by now. Only a deadline
// of ctx that is still ahead bounds it; a request without an answer is sent
// once more, for it tolerates that, and after that the background goes on
// until the lease has ended by itself.
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
			limit = c.sender.Twice(ctx, start) // the wait for the batch counts
			if o := <-item.Answer; o.Done {
				return nil
			}
			// Not done, or not known: release finds out, for it may come twice.
		}
	}
	args := s.owned([]string{h.attempt, wire.Number(h.server.Load()), c.retention, s.base})
	return h.sendRelease(ctx, limit, start, script.Release, args)
}

// batch is that of releases which nobody waits for; nil if the hold's is not one of them.
func (h *hold) batch(ctx context.Context) *request.Batcher {
	if _, limited := ctx.Deadline(); limited ||
		h.lock.want != wire.Exclusive || h.lock.owner != "" || h.waiting.Load() > 0 {
		return nil
	}
	return h.lock.client.sender.Releases()
}

// sendRelease sends a release or a release_after, as far as limit allows, which is ctx's or
// shorter. A copy that ran is answered like the first.
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
	case a.Kind == wire.Released, a.Kind == wire.Kept, a.Kind == wire.Held: // Held: others of the named owner are in
		return nil
	case a.Kind == wire.Gone:
		return h.gone(c.sender.Twice(limit, start))
	}
	return wrap("release of", s.name, wire.BadAnswer("another kind to release"))
}

// releaseLater goes on in the background until the lease has ended by itself. After a
// release_after without an answer the lock may be free too early then, if that is earlier.
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

// reopen gives the run up, and its period back. What is lost when there is no answer: the
// period stays marked or not; it is tried again in the background for the time of a lease.
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

// exclusive reports that the hold is not one of readers or permits.
func (h *hold) exclusive() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lock.limit == 0 && !h.shared
}

// gone is the error for a hold that the server does not know any more. It asks
// who took it away, and who has the lock now; when nobody can say, it is not said.
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

// ceilMillis writes a duration as whole milliseconds, not less than it is.
func ceilMillis(d time.Duration) string { return wire.Millis(d + time.Millisecond - 1) }

// members are the readers under one hold: all of its leases while it is shared,
// and the writer's own re-entries while it is not. hold.mu guards the fields.
type members struct {
	readers    map[*leaseState]struct{}
	keptUntil  time.Duration // the lock stays taken until then, though the last one has left
	reserved   int32         // reservations: readers that are let in and have no lease yet
	unsettled  conversion    // of a step that is under way, or of unknown outcome
	shared     bool          // held as a reader on the server, as far as is known here
	converting bool          // it is under way
	departed   bool          // the holder has released its lease
}

// reading is how many read under the hold, or will. h.mu is held.
func (h *hold) reading() int { return len(h.readers) + int(h.reserved) }

// leases are all leases under the hold. h.mu is held.
func (h *hold) leases() (all []*leaseState) {
	if h.lease != nil {
		all = append(all, h.lease)
	}
	for t := range h.readers {
		all = append(all, t)
	}
	return all
}

// reserve keeps the hold for one more reader, until its lease is let in or the
// reservation is given back. It reports false when the hold is over or about to step.
func (h *hold) reserve() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost != nil || h.closed || h.last || !h.shared || h.unsettled != still || h.reading() == 0 {
		return false
	}
	h.reserved++
	return true
}

// redeem lets the lease in for which the hold was kept. It reports false,
// and the reservation is gone, if the hold was lost or the client has closed.
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

// addMember lets a lease in beside held, under whose context it was taken.
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

// joinable reports whether readers may find their way to the hold.
func (h *hold) joinable() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost == nil && !h.closed && !h.last && h.shared && h.reading() > 0
}

// reads reports whether the lease is one of a reader.
func (t *leaseState) reads() bool {
	t.hold.mu.Lock()
	defer t.hold.mu.Unlock()
	return t.hold.lease != t
}

// of reports whether the lease is one of this lock.
func (t *leaseState) of(c *Client, s *lock) bool {
	return t.hold.lock.client == c && t.hold.lock.key() == s.key()
}

// unreserve gives a reservation back: the reader does not want the lease any more.
func (h *hold) unreserve() {
	h.mu.Lock()
	h.reserved--
	last := h.alone()
	h.mu.Unlock()
	if last {
		_ = h.releaseShared(h.lock.client.life.Context())
	}
}

// alone reports that no reader is left. h.mu is held.
func (h *hold) alone() bool { return h.shared && h.reading() == 0 }

// removal says what is left to do when a lease has left its hold.
type removal uint8

const (
	asHolder removal = iota // it was the writer's, or of permits: give the hold up
	asLast                  // it was the last reader's: give the hold up
	asOne                   // others read on
	asGuest                 // it had ended with the writer's under which it was entered
)

// remove takes a lease out of its hold. From then on the hold does not step for it.
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

// afterReader is what follows for a reader.
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

// releaseShared gives up a hold that nobody reads under any more.
func (h *hold) releaseShared(ctx context.Context) error {
	h.unshare()
	h.mu.Lock()
	keep := max(h.keptUntil-h.lock.client.now(), 0)
	h.mu.Unlock()
	_, err := h.handOverOrRelease(ctx, releaseMode{keep: keep})
	return err
}

// keepFor has the lock stay taken for at least delay, also while others read.
func (t *leaseState) keepFor(delay time.Duration) {
	h := t.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, reads := h.readers[t]; reads && h.shared {
		h.keptUntil = max(h.keptUntil, h.lock.client.now()+delay)
	}
}

// endMembers ends what was entered under the writer's lease, which ends now.
func (h *hold) endMembers() {
	h.mu.Lock()
	guests := h.readers
	h.readers = nil
	h.mu.Unlock()
	for t := range guests {
		t.end(ErrReleased)
	}
}

// errReads is the hint in a deadlock of a reader that wants to write.
var errReads = errors.New("it reads, and would wait for itself")

// deadlock is the error for who wants a lock under the context of its own lease.
func (t *leaseState) deadlock() error {
	if t.hold.lock.rw.any() && t.reads() {
		return fmt.Errorf("holdfast: lock %q: %w: %w", t.hold.lock.name, ErrDeadlock, errReads)
	}
	return fmt.Errorf("holdfast: lock %q: %w", t.hold.lock.name, ErrDeadlock)
}
