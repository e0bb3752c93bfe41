package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
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

// markLost is told by the renewer. The record is left alone: the holder's code may
// still run, and giving the lock on early would only invite the next one to
// meet it. Release, or the lease's end on the server, frees it.
func (h *hold) markLost(reason renewer.Reason) {
	h.mu.Lock()
	err := h.loss(LossReason(reason))
	h.lost = err
	first, all := h.lease, h.leases()
	h.mu.Unlock()
	for _, t := range all {
		live := t.finish(err)
		if len(live) == 0 {
			continue
		}
		if t == first {
			// The holder has lost the turn too: the next goroutine of this process may
			// ask the server like anybody else, whenever the holder notices.
			h.leaveTurn()
		}
		h.reportLoss(live, err)
	}
	h.unshare()
	if reason == renewer.NotHeld {
		h.cancelPosition()
	}
}

// reportLoss tells of leases of one stay that are lost. Nobody minds those that were
// dropped: they have been reported. A fixed lease that is over has lasted as long as
// it was to.
func (h *hold) reportLoss(live []*leaseState, err *LostError) {
	c := h.lock.client
	live = slices.DeleteFunc(live, (*leaseState).isDropped)
	for i, t := range live {
		h, n := t.hold, news{hold: t.hold, lease: t, event: t.ending(EventLost, false, err)}
		if i == 0 {
			level, token := slog.LevelWarn, t.token.Load()
			if h.lock.noRenewal && err.Reason == LossExpired {
				level = slog.LevelDebug
			}
			n.log = func(log *slog.Logger) {
				log.Log(c.life.Context(), level, "holdfast: lease lost", "lock", h.lock.name,
					"reason", string(err.Reason), "token", token)
			}
		}
		c.events.tell(n)
	}
}

// loss is the error for a hold that is lost: for that reason, unless it is known that it
// was evicted. h.mu is held.
func (h *hold) loss(reason LossReason) *LostError {
	if h.evicted != nil {
		reason = LossEvicted
	}
	return &LostError{Name: h.lock.name, Reason: reason, Evicted: h.evicted}
}

func (h *hold) lostFor(reason renewer.Reason) *LostError {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.loss(LossReason(reason))
}

// readEviction looks in the record whether an operator took the hold away, and notes who it was.
func (h *hold) readEviction(ctx context.Context) (r wire.Record, reason renewer.Reason) {
	r, err := h.lock.client.sender.Record(ctx, h.lock.keys())
	if err != nil || r.Evicted == nil || !slices.ContainsFunc(r.Evicted.Attempts, h.made) {
		return r, renewer.NotHeld
	}
	h.noteEviction(&EvictionInfo{At: r.Evicted.At, By: r.Evicted.By, Reason: r.Evicted.Reason})
	return r, renewer.Evicted
}

// made reports that an attempt of the record is the hold's. A store of several servers
// gives it a name of its own on each of them.
func (h *hold) made(attempt string) bool {
	rest, mine := strings.CutPrefix(attempt, h.attempt)
	return mine && (rest == "" || rest[0] == '.')
}

// noteEviction notes who evicted the hold, also if it was lost for less before.
func (h *hold) noteEviction(by *EvictionInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.evicted = by
	if h.lost != nil {
		h.lost = h.loss(LossEvicted)
	}
}

// endMissing ends a hold that the server does not know any more.
func (h *hold) endMissing(ctx context.Context) {
	c := h.lock.client
	_, reason := h.readEviction(request.Lasting(ctx))
	if c.renewer.Remove(&h.Item) {
		h.markLost(reason)
	}
}

// cancelPosition gives up the place in the line that the server may have again: a
// failover that loses the grant brings back the waiter that was granted, and its
// turn would go to nobody for the time of a lease. It is said once: if that is
// lost, so is no more than that time.
func (h *hold) cancelPosition() {
	h.mu.Lock()
	stood := h.stood
	h.mu.Unlock()
	if stood {
		h.lock.client.canceller.Cancel(h.lock.attempt(h.attempt), h.lock.client.now())
	}
}

// renewHolds asks the server to extend leases of one group.
func renewHolds(ctx context.Context, c *Client, batch []*renewer.Item) ([]renewer.Outcome, error) {
	holds := make([]request.Renewal, len(batch))
	for i, l := range batch {
		holds[i] = l.Hold.(*hold).renewal(l.Asking)
	}
	// All of one group wait for the same acknowledgements, or none does.
	first := batch[0].Hold.(*hold).lock
	renewals, got, err := c.sender.Renew(ctx, first.ack, holds)
	if err == nil {
		err = first.acked(got)
	}
	if err != nil {
		return nil, request.InTime(c.life.Context(), err) // the limit is the renewer's
	}
	outcomes := make([]renewer.Outcome, len(batch))
	var asking sync.WaitGroup
	for i, r := range renewals {
		switch {
		case r.Held:
			outcomes[i].Waiting = r.Waiting
		case r.Unknown:
			outcomes[i].Err = errTooFew
		case r.Evicted:
			outcomes[i].Lost = renewer.Evicted
			asking.Go(func() { batch[i].Hold.(*hold).readEviction(ctx) }) // by whom and why
		default:
			outcomes[i].Lost = renewer.NotHeld
		}
	}
	asking.Wait()
	return outcomes, nil
}

// errTooFew is why nothing is known of one lease while others were renewed.
var errTooFew = errors.New("too few servers have answered")

// renewed is told by the renewer of every try.
func (h *hold) renewed(waiting int, lag time.Duration, err error) {
	c := h.lock.client
	if err == nil {
		h.setWaiters(waiting)
	}
	c.events.tell(news{hold: h, event: Event{
		Kind: EventRenew, Name: h.lock.name, HolderID: h.attempt, Waiters: waiting, Lag: max(lag, 0), Err: err,
	}})
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
	err = request.InTime(ctx, err)
	switch {
	case err != nil:
		if request.Transient(err) {
			h.releaseLater(action, args)
		}
		return wrap("release of", s.name, err)
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
