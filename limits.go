package holdfast

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
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

// MaxRenewals renews a lease at most n times. After that it ends when its TTL
// does, and is lost with the reason [LossLimit]. A renewal goes out after a
// third of the TTL. The one that confirms a grant that was waited for, which goes
// out at once, is not counted, and neither is [Lease.Extend].
func MaxRenewals(n int) Option {
	return func(t *terms) error {
		if n < 1 {
			return invalid("at most %d renewals were asked for: use NoRenewal for none", n)
		}
		t.renewals = int32(min(n, math.MaxInt32))
		return nil
	}
}

// MaxHold bounds how long a lease lasts in all, from its grant: then it is lost
// with the reason [LossLimit], before the server lets another in, which it does
// soon after (a hundredth of the TTL, and some milliseconds). Nothing renews or
// extends it further. A TTL that is longer than d is cut to it.
func MaxHold(d time.Duration) Option {
	return func(t *terms) error {
		if d < leasetime.MinTTL || d > maxTTL {
			return invalid("the longest hold is %v: it must be from %v to %v", d, leasetime.MinTTL, maxTTL)
		}
		t.most = d
		return nil
	}
}

// MinHold keeps the lock taken until d has passed since its grant, by the
// server's clock, though it is released earlier: nobody is let in before, not
// even this process. It keeps a job from running twice when it is shorter than
// the clocks of its starters are apart.
//
// It begins to count with the release: the lock of a process that dies before
// is free when its lease ends, be that earlier or later. Of the entries of one
// [Owner] the last one to leave decides.
func MinHold(d time.Duration) Option {
	return func(t *terms) error {
		if d < time.Millisecond || d > maxTTL {
			return invalid("the shortest hold is %v: it must be from 1ms to %v", d, maxTTL)
		}
		t.least = d
		return nil
	}
}

// conflict refuses options that make no sense together.
func (t *terms) conflict() error {
	switch {
	case t.fixed && t.renewals > 0:
		return invalid("NoRenewal and MaxRenewals exclude each other: leave one of them out")
	case t.most > 0 && t.least > t.most:
		return invalid("MinHold is %v and MaxHold %v: a lock cannot stay taken for longer than it is held at most, "+
			"raise MaxHold", t.least, t.most)
	case t.tries > 0 && t.wait >= 0:
		return invalid("Wait and Tries exclude each other: the one waits in line, the other does not; " +
			"leave one of them out")
	}
	return nil
}

// stay gives the hold up, but leaves the lock taken until least has passed
// since the grant and after has passed from now. The answer is the same when it
// is asked twice, so a request without an answer is sent once more; after that
// the background goes on until the lease has ended by itself, and then the
// lock may be free too early, if that is earlier.
func (h *hold) stay(ctx context.Context, after time.Duration) error {
	c, s := h.spec.client, h.spec
	ctx = lasting(ctx)
	args := s.owned([]string{
		h.attempt, wire.Number(h.server.Load()), ceilMillis(s.least), ceilMillis(after), c.retention, s.base,
	})
	limit := c.twiceAtMost(ctx)
	a, err := twice(limit, func() (wire.Answer, error) { return c.ask(limit, script.Stay, s.keys(), args) })
	err = inTime(ctx, err)
	switch {
	case err != nil:
		if passing(err) {
			until := max(c.now(), h.Deadline())
			c.insist(insistence{known: until, silent: until, say: func(ctx context.Context) (known bool, err error) {
				_, err = c.ask(ctx, script.Stay, s.keys(), args)
				return true, err
			}})
		}
		return fault("release of", s.name, err)
	case a.Kind == wire.Stays || a.Kind == wire.Released || a.Kind == wire.Held:
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
