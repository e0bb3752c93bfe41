// Re-entry: further leases under the context of a lease of the same lock.

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/observe"
)

// reentries are the re-entries beside a first lease, the root, whose state stores them. The
// root's mu guards the fields.
type reentries struct {
	inner    []*leaseState // re-entries that are not released yet
	endCause error         // why the hold ended while some leases were not released
}

// reentries returns the re-entries beside a first lease. The caller holds ls.mu.
func (ls *leaseState) reentries() reentries {
	if ls.extra == nil {
		return reentries{}
	}
	return ls.extra.reentries
}

// heldBy returns the innermost live lease of this lock that ctx belongs to.
func (lk *lock) heldBy(ctx context.Context) *leaseState {
	for held := leaseOf(ctx); held != nil; held = held.outerLease() {
		if held.of(lk.client, lk) && held.ended() == nil {
			return held
		}
	}
	return nil
}

// of reports whether the lease is one of this lock.
func (ls *leaseState) of(c *Client, lk *lock) bool {
	return ls.hold.lock.client == c && ls.hold.lock.key() == lk.key()
}

// reenter begins one more lease beside ls. It sends no request.
func (ls *leaseState) reenter(parent context.Context) (*Lease, error) {
	h, root := ls.hold, ls.root
	inner := newLeaseState(parent, h, true)
	inner.root = root
	inner.token.Store(ls.token.Load())
	h.mu.Lock()
	joins := h.admits(underLease, root)
	h.mu.Unlock()
	if joins == refused {
		return nil, errorf("holdfast: lock %q: %w", h.lock.name, cmp.Or(ls.ended(), ErrReleased))
	}
	if err := root.addReentry(inner); err != nil { // it may have ended since
		return nil, errorf("holdfast: lock %q: %w", h.lock.name, err)
	}
	h.lock.client.events.tellGrant(inner, observe.Event{})
	return inner.handle(), nil
}

// addReentry adds the lease to those beside ls, unless the hold has ended.
func (ls *leaseState) addReentry(inner *leaseState) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	switch in := ls.reentries(); {
	case in.endCause != nil:
		return in.endCause
	case ls.left && len(in.inner) == 0:
		return ErrReleased
	case !leasetime.MayReenter(len(in.inner) + 1):
		return invalid("the lease was acquired again 2^31 times: release each lease when its work is done")
	}
	s := ls.more()
	s.inner = append(s.inner, inner)
	return nil
}

// leaveReentry removes a released lease from its re-entry, and reports whether it was the last one.
func (ls *leaseState) leaveReentry() (last bool) {
	root := ls.root
	root.mu.Lock()
	defer root.mu.Unlock()
	var in []*leaseState
	if root.extra != nil {
		in = root.extra.inner
	}
	if ls == root {
		root.left = true
	} else if i := slices.Index(in, ls); i >= 0 {
		in = slices.Delete(in, i, i+1)
		root.extra.inner = in
	}
	return root.left && len(in) == 0
}

// finish ends all leases of the re-entry. It returns those whose end is not reported yet.
func (ls *leaseState) finish(cause error) (live []*leaseState) {
	ls.mu.Lock()
	s := ls.more()
	s.endCause = cause
	all := append([]*leaseState{ls}, s.inner...)
	ls.mu.Unlock()
	for _, one := range all {
		one.mu.Lock()
		if one.endWith(cause) || one.early {
			live = append(live, one)
		}
		one.early = false
		one.mu.Unlock()
	}
	return live
}

// holdCount returns how many leases of the re-entry are live.
func (ls *leaseState) holdCount() int {
	root := ls.root
	root.mu.Lock()
	defer root.mu.Unlock()
	n := len(root.reentries().inner)
	if !root.left {
		n++
	}
	return n
}

// deadlock returns the error for a call under the context of its own lock's lease.
func (ls *leaseState) deadlock() error {
	if ls.hold.lock.rw.isSet() && ls.hold.reads(ls) {
		return errorf("holdfast: lock %q: %w: %w", ls.hold.lock.name, ErrDeadlock, errReads)
	}
	return errorf("holdfast: lock %q: %w", ls.hold.lock.name, ErrDeadlock)
}

// errReads is the part of a deadlock error that is specific to a reader.
var errReads = errors.New("it holds the lock as a reader")

// reenterableError is an ErrDeadlock that the option Reentrant would avoid.
type reenterableError struct{ error }

func (e reenterableError) Unwrap() error { return e.error }
