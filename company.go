package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
	if _, reads := h.readers[t]; delay > 0 && reads && h.shared {
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
