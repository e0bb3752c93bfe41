package holdfast

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/leasetime"
)

// owned puts the owner's name behind an action's arguments, if there is one.
func (s *lock) owned(args []string) []string {
	if s.owner == "" {
		return args
	}
	return append(args, s.owner)
}

// checkOrReenter is checkDeadlock, and enters again where ctx belongs to a lease of this very
// lock and the terms allow it. With neither lease nor error there is none.
func (t *lock) checkOrReenter(ctx context.Context) (*Lease, error) {
	if !t.reentrant && t.owner == "" {
		return nil, t.checkDeadlock(ctx)
	}
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	held := t.heldBy(ctx)
	if held == nil {
		return nil, nil
	}
	// Whose name is another's would wait for itself, and so would a writer
	// under a reader's lease.
	if held.hold.lock.rw.any() || held.hold.lock.want != t.want || t.owner != held.hold.lock.owner {
		return nil, held.deadlock()
	}
	return held.reenter(ctx)
}

// reentries are the leases that entered again beside a first one, whose state keeps
// them. first.mu guards the fields.
type reentries struct {
	inner []*leaseState // those that entered again and have not been released
	over  error         // why the stay ended though not all have left
}

// entered is what entered again beside a first lease. t.mu is held.
func (t *leaseState) entered() reentries {
	if t.extra == nil {
		return reentries{}
	}
	return t.extra.reentries
}

// root is the first lease of the stay.
func (t *leaseState) root() *leaseState {
	if t.first != nil {
		return t.first
	}
	return t
}

// reenter begins one more lease beside held, without the network.
func (held *leaseState) reenter(parent context.Context) (*Lease, error) {
	c := held.hold.lock.client
	first := held.root()
	t := held.hold.newLeaseState(parent, true)
	t.first = first
	t.token.Store(held.token.Load())
	if err := first.admit(t); err != nil {
		return nil, fmt.Errorf("holdfast: lock %q: %w", held.hold.lock.name, err)
	}
	c.events.tellGrant(t, Event{})
	return t.handle(), nil
}

// admit lets t in, unless the stay is over.
func (t *leaseState) admit(inner *leaseState) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch in := t.entered(); {
	case in.over != nil:
		return in.over
	case t.left && len(in.inner) == 0:
		return ErrReleased
	case !leasetime.MayEnter(len(in.inner) + 1):
		return invalid("the lease was entered 2^31 times: something enters and never leaves, release what it enters")
	}
	s := t.more()
	s.inner = append(s.inner, inner)
	return nil
}

// leave counts a released lease out, and reports whether it was the last one.
func (t *leaseState) leave() (last bool) {
	first := t.root()
	first.mu.Lock()
	defer first.mu.Unlock()
	in := first.entered().inner
	if t == first {
		first.left = true
	} else if i := slices.Index(in, t); i >= 0 {
		in = slices.Delete(in, i, i+1)
		first.extra.inner = in
	}
	return first.left && len(in) == 0
}

// finish ends the stay, and answers the leases whose end is still to be told.
func (t *leaseState) finish(cause error) (live []*leaseState) {
	t.mu.Lock()
	s := t.more()
	s.over = cause
	all := append([]*leaseState{t}, s.inner...)
	t.mu.Unlock()
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

// holdCount is how many leases of the stay are live.
func (t *leaseState) holdCount() int {
	first := t.root()
	first.mu.Lock()
	defer first.mu.Unlock()
	n := len(first.entered().inner)
	if !first.left {
		n++
	}
	return n
}
