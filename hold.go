// hold: one grant of the server.

package holdfast

import (
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// hold is one grant of the server. The renewer renews it. It serves one lease after another
// while goroutines of the process hand it over.
//
// A client may have a hundred thousand holds. So the fields are in an order that needs no padding, and
// what few holds need is in members.extra.
type hold struct {
	// The renewer's mutex guards what is not exported, and Deadline is atomic. The exported fields are set
	// before the renewer has the hold.
	renewer.Item

	// Set once, by newHold.
	lock   *lock
	number uint64 // the number in the ID of the attempt, see attemptID

	// Atomic, each for itself.
	server    atomic.Uint64 // the server's part of the token
	waitingAt atomic.Int64  // when the server last told how many wait
	waiting   atomic.Int32  // how many wait at the server, by its last answer
	handOvers atomic.Int32

	// Guarded by the mutex of the notifier.
	undelivered    int32 // its news that are in the queue
	grantDelivered reported

	// Guarded by the turn: the goroutine that begins a lease of the hold.
	tagged bool // the client's record has or had tags of it

	// Set once, by newHold. It is here because it needs no padding.
	wasInQueue bool // the attempt waited in the server's wait queue

	// firstLease is the first lease, unless readers share the hold; this saves an allocation. Its
	// start is when this client learned of the grant, also if readers share the hold. It has a mutex
	// of its own, as every lease.
	firstLease leaseState

	// Guarded by the mutex in it.
	members
}

// Group implements [renewer.Hold].
func (h *hold) Group() string { return h.lock.group }

// grant is what the server has granted to an attempt.
type grant struct {
	number      uint64 // the number in the attempt's ID
	token       uint64
	waiting     int
	since       time.Duration // the lease counts from then: the server did not grant it earlier
	pushedLease time.Duration // how long to trust a grant that answers no request; 0: for the TTL
	wasInQueue  bool          // the attempt waited in the server's wait queue
}

// readersHold is a hold of readers. It needs the extra fields, and has them in the same allocation.
type readersHold struct {
	hold
	holdExtra
}

// newHold makes a hold of a grant and adds it to the renewer. After an error the caller
// must cancel the grant: it came too late to be trusted, or the client has closed.
func newHold(lk *lock, g grant) (*hold, error) {
	c := lk.client
	var h *hold
	if lk.want == wire.Shared {
		both := new(readersHold)
		h = &both.hold
		h.shared, h.extra = true, &both.holdExtra
		h.extra.reserved = 1 // for the goroutine that asked
	} else {
		h = new(hold)
	}
	h.TTL, h.NoRenewal = lk.ttl, lk.noRenewal
	h.lock, h.number, h.wasInQueue, h.firstLease.start = lk, g.number, g.wasInQueue, c.now()
	h.server.Store(g.token)
	h.hasTurn.Store(lk.want == wire.Exclusive && lk.usesLocalQueue())
	if lk.maxHold > 0 || lk.maxRenewals > 0 {
		h.Limits = &renewer.Limits{MaxRenewals: lk.maxRenewals}
		if lk.maxHold > 0 {
			h.Limits.NotAfter = h.firstLease.start + lk.maxHold
		}
	}
	h.Hold = h
	h.setWaiters(g.waiting)
	var added bool
	if g.pushedLease > 0 {
		added = c.renewer.AddPushed(&h.Item, g.since, g.pushedLease, h.firstLease.start)
	} else {
		added = c.renewer.Add(&h.Item, g.since, h.firstLease.start)
	}
	// Close ends the holds that the renewer has. If it has listed them already, no one else
	// would end this hold.
	unusable := h.Deadline() <= h.firstLease.start || c.life.IsClosing()
	if added && (!unusable || !c.renewer.Remove(&h.Item)) {
		if lk.tags != "" {
			h.tag(lk.tags)
		}
		return h, nil
	}
	if c.life.IsClosing() {
		return nil, ErrClosed
	}
	return nil, errorf("holdfast: lock %q: %w: its lease of %v can no longer be trusted: %w",
		lk.name, errLate, lk.ttl, &LostError{Name: lk.name, Reason: LossExpired})
}

// tag makes the client's record show the tags of the hold's lease that begins.
func (h *hold) tag(tags string) {
	if !h.tagged && tags == "" {
		return
	}
	c, field := h.lock.client, wire.TagsField(wire.Number(h.number))
	h.tagged = true
	if tags == "" {
		c.registration.Unnote(field, h, true) // the lease before had some
		return
	}
	c.registration.Note(field, tags, h, func() bool { return c.renewer.Has(&h.Item) })
}

// attemptID returns the ID of the attempt that a hold was granted to.
func (h *hold) attemptID() string { return h.lock.client.attemptID(h.number, h.lock.suffix) }

// goneBy returns when the lease has ended on the server, if no request extends it.
func (h *hold) goneBy() time.Duration { return h.Deadline() + h.lock.delay }

// identity returns the ID of a hold's attempt and the server's part of its token, as requests need
// them. Both are in one text, which is one allocation.
func (h *hold) identity() (attempt, token string) {
	b := appendAttempt(make([]byte, 0, 120), h.lock.client.id, h.number, h.lock.suffix)
	both := string(strconv.AppendUint(b, h.server.Load(), 10))
	return both[:len(b)], both[len(b):]
}

// token returns the fencing token of the current lease: the server's part, then the number
// of local hand-overs. So every lease has a higher token than the one before. A plain token is
// the server's number alone, and 0 if there is none.
func (h *hold) token() uint64 {
	bits := h.lock.client.handOverBits
	return h.server.Load()<<bits | uint64(h.handOvers.Load())&(1<<bits-1)
}

// needsOwnToken reports whether the next lease of the lock needs a number from the server, so
// that the hold cannot be handed over.
func (h *hold) needsOwnToken() bool {
	return h.lock.client.handOverBits == 0 && h.server.Load() != 0
}

// setWaiters stores how many wait at the server now.
func (h *hold) setWaiters(waiting int) {
	h.waiting.Store(int32(min(waiting, math.MaxInt32)))
	h.waitingAt.Store(int64(h.lock.client.now()))
}
