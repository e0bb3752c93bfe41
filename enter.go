package holdfast

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Reentrant lets a lock be taken again under the context of a live lease of
// it, instead of refusing that as an [ErrDeadlock]. It needs no network. Each
// time gives a lease of its own, with the token of the first: the hold is the
// same, and its writers are to be let through together. The leases are released
// in any order, and the lock is free when the last one is. Its loss ends all.
//
// The TTL, the limits and the renewal of the first lease hold for all.
func Reentrant() Option {
	return func(t *terms) error {
		t.enters = true
		return nil
	}
}

// Owner takes the lock in a name: whoever takes it in the same name, here or
// in another process, comes in beside those who are in already, past all who
// wait, and the lock is free when the last of them has left. Others are kept
// out, as ever. It is for work that several processes do together or after one
// another: the second one enters before the first one leaves. Under the context
// of a lease of the same owner it is [Reentrant].
//
// All entries have one token and one lease on the server, which each of them
// renews. A process that dies without leaving keeps the lock taken for as long
// as others of its owner are in, and then until that lease ends. Every entry
// stands in the lock's record and makes its requests a little dearer: it is
// meant for some entries, not for thousands. Over a quorum it is refused, and
// nothing is taken.
//
// name has 1 to 512 bytes of UTF-8. It is no secret, and no proof: who knows it
// can enter.
func Owner(name string) Option {
	return func(t *terms) error {
		switch {
		case name == "":
			return invalid("the owner has no name: give one that the other process knows, such as order/42")
		case len(name) > wire.MaxName:
			return invalid("the owner's name has %d bytes, the limit is %d: shorten it or use a digest of it",
				len(name), wire.MaxName)
		case !utf8.ValidString(name):
			return invalid("the owner's name is not valid UTF-8: encode binary names, for example as hex")
		}
		t.owner = wire.Owner(name)
		return nil
	}
}

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

// mutexOnly refuses what only a Mutex can be told.
func (t *terms) mutexOnly() {
	if t.enters || t.owner != "" || t.least > 0 {
		t.fail(invalid("Reentrant, Owner and MinHold are options of a Mutex: leave them out here"))
	}
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
	c.tellGrant(t, Event{})
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
