package holdfast

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Key is the name of the lock's record on the server.
func (m *Mutex) Key() string { return m.terms.key() }

// IsHeld asks the server whether anybody holds the lock. It may be over when
// the answer arrives: never decide by it whether to work. Its errors are those
// of [Client.Inspect].
func (m *Mutex) IsHeld(ctx context.Context) (bool, error) {
	h, err := m.Holder(ctx)
	return h != nil, err
}

// Holder asks the server who holds the lock, and answers nil if nobody does.
// Its errors are those of [Client.Inspect].
func (m *Mutex) Holder(ctx context.Context) (*Holder, error) {
	if m.terms.err != nil {
		return nil, m.terms.err
	}
	s, err := m.terms.client.Inspect(ctx, m.terms.name)
	if err != nil || !s.Held() {
		return nil, err
	}
	return &s.Holders[0], nil
}

// HoldCount asks the server how often the caller holds the lock: with [Owner],
// how many leases are in under that name, in whatever process; without, how
// many are in the stay that ctx belongs to. Leases that entered again under a
// context are known to their process only, and counted where ctx belongs to
// them.
//
// It is 0 if nobody holds the lock; if another does, the error is an
// [ErrHeldByOther]. The other errors are those of [Client.Inspect].
func (m *Mutex) HoldCount(ctx context.Context) (int, error) {
	t := &m.terms
	if t.err != nil {
		return 0, t.err
	}
	if err := t.client.askable(ctx, t.name); err != nil {
		return 0, err
	}
	r, err := t.client.record(ctx, t.keys())
	if err != nil {
		return 0, fault("inspection of", t.name, err)
	}
	if len(r.Holders) == 0 {
		return 0, nil
	}
	mine, n := t.heldBy(ctx), 0
	for _, h := range r.Holders {
		if t.owner != "" && h.Owner != "" && wire.Owner(h.Owner) == t.owner {
			n = h.Entries
		}
		if mine != nil && t.owner == "" && h.Attempt == mine.hold.attempt {
			n = 1
		}
	}
	if n == 0 {
		return 0, notYours(t.name, r.Holders[0])
	}
	if mine != nil && mine.hold.spec.owner == t.owner {
		n += mine.entries() - 1
	}
	return n, nil
}

// notYours says who has a lock that the caller has not.
func notYours(name string, h wire.HolderLine) error {
	return fmt.Errorf("%w: %q is held by %s", ErrHeldByOther, name, ownerName(h.Owner, h.Attempt))
}

// record reads what the server keeps of a lock.
func (c *Client) record(ctx context.Context, keys []string) (wire.Record, error) {
	answer, err := c.sender.Run(ctx, script.Inspect, keys, nil)
	if err != nil {
		return wire.Record{}, err
	}
	return wire.ParseRecord(answer)
}
