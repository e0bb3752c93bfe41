package holdfast

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/leasetime"
)

// owned puts the owner's name behind an action's arguments, if there is one.
func (s *spec) owned(args []string) []string {
	if s.owner == "" {
		return args
	}
	return append(args, s.owner)
}

// begin is usable, and enters again where ctx belongs to a lease of this very
// lock and the terms allow it. With neither lease nor error there is none.
func (t *terms) begin(ctx context.Context) (*Lease, error) {
	if !t.enters && t.owner == "" {
		return nil, t.usable(ctx)
	}
	if err := t.sound(ctx); err != nil {
		return nil, err
	}
	held := t.heldBy(ctx)
	if held == nil {
		return nil, nil
	}
	// Whose name is another's would wait for itself, and so would a writer
	// under a reader's lease.
	if held.hold.spec.rw.any() || held.hold.spec.want != t.want || t.owner != held.hold.spec.owner {
		return nil, held.deadlock()
	}
	return t.client.reenter(ctx, held)
}

// stay are the leases of one stay in the lock: the first one's tenure keeps
// them. first.mu guards the fields.
type stay struct {
	inner []*tenure // those that entered again and have not been released
	over  error     // why the stay ended though not all have left
}

// inside is the stay of a first lease. t.mu is held.
func (t *tenure) inside() stay {
	if t.extra == nil {
		return stay{}
	}
	return t.extra.stay
}

// root is the first lease of the stay.
func (t *tenure) root() *tenure {
	if t.first != nil {
		return t.first
	}
	return t
}

// reenter begins one more lease beside held, without the network.
func (c *Client) reenter(parent context.Context, held *tenure) (*Lease, error) {
	first := held.root()
	t := held.hold.begun(parent, true)
	t.first = first
	t.token.Store(held.token.Load())
	if err := first.admit(t); err != nil {
		return nil, fmt.Errorf("holdfast: lock %q: %w", held.hold.spec.name, err)
	}
	c.events.tellGrant(t, Event{})
	return c.handle(t), nil
}

// admit lets t in, unless the stay is over.
func (t *tenure) admit(inner *tenure) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch in := t.inside(); {
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
func (t *tenure) leave() (last bool) {
	first := t.root()
	first.mu.Lock()
	defer first.mu.Unlock()
	in := first.inside().inner
	if t == first {
		first.left = true
	} else if i := slices.Index(in, t); i >= 0 {
		in = slices.Delete(in, i, i+1)
		first.extra.inner = in
	}
	return first.left && len(in) == 0
}

// finish ends the stay, and answers the leases whose end is still to be told.
func (t *tenure) finish(cause error) (live []*tenure) {
	t.mu.Lock()
	s := t.more()
	s.over = cause
	all := append([]*tenure{t}, s.inner...)
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

// entries is how many leases of the stay are live.
func (t *tenure) entries() int {
	first := t.root()
	first.mu.Lock()
	defer first.mu.Unlock()
	n := len(first.inside().inner)
	if !first.left {
		n++
	}
	return n
}
