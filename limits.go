package holdfast

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// limits bound for how long a lock is held. A hold that has any is never
// passed inside the process: the next goroutine starts with limits of its own,
// and is kept out by a minimum like everybody else. So what holds for the hold
// holds for its one lease.
type limits struct {
	renewals int32         // at most so many; 0: as many as it takes
	most     time.Duration // not longer than this; 0: as long as it takes
	least    time.Duration // taken for so long, though released earlier
}

// stay gives the hold up, but leaves the lock taken until least has passed
// since the grant and after has passed from now. The answer is the same when it
// is asked twice, so a request without an answer is sent once more; after that
// the background goes on until the lease has ended by itself, and then the
// lock may be free too early, if that is earlier.
func (h *hold) stay(ctx context.Context, after time.Duration) error {
	c, s := h.spec.client, h.spec
	ctx = request.Lasting(ctx)
	args := s.owned([]string{
		h.attempt, wire.Number(h.server.Load()), ceilMillis(s.least), ceilMillis(after), c.retention, s.base,
	})
	limit := c.sender.Twice(ctx)
	a, err := c.sender.AskTwice(limit, script.ReleaseAfter, s.keys(), args)
	err = request.InTime(ctx, err)
	switch {
	case err != nil:
		if request.Transient(err) {
			until := max(c.now(), h.Deadline())
			again := func(ctx context.Context) (known bool, err error) {
				_, err = c.sender.Ask(ctx, script.ReleaseAfter, s.keys(), args)
				return true, err
			}
			c.canceller.Until(request.Message{Known: until, Silent: until, Send: again})
		}
		return fault("release of", s.name, err)
	case a.Kind == wire.Kept || a.Kind == wire.Released || a.Kind == wire.Held:
		return nil
	case a.Kind == wire.Gone:
		return h.gone(limit)
	}
	return fault("release of", s.name, wire.BadAnswer("another kind to stay"))
}

// gone is the error for a hold that the server does not know any more. It asks
// who took it away, and who has the lock now; when nobody can say, it is not said.
func (h *hold) gone(ctx context.Context) error {
	h.withdraw()
	r, reason := h.learn(ctx)
	err := fmt.Errorf("%w: %w", ErrNotHeld, h.lostFor(reason))
	for _, other := range r.Holders {
		if other.Mode == wire.Exclusive && (h.spec.owner == "" || wire.Owner(other.Owner) != h.spec.owner) {
			return fmt.Errorf("%w: %w", ErrHeldByOther, err)
		}
	}
	return err
}

// ceilMillis writes a duration as whole milliseconds, not less than it is.
func ceilMillis(d time.Duration) string { return wire.Millis(d + time.Millisecond - 1) }
