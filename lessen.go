// What makes less of a hold: a shorter time, fewer permits.

package holdfast

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Shorten makes the lease last for ttl from now, if more remains. The server shortens it too:
// if the process dies, the lock is free that soon. From then on, nothing makes the lease last
// longer than that. Each renewal asks for ttl, and [Lease.Extend] with a longer ttl is refused.
// A lease without renewal ends then. Leases that share a hold are shortened together, and no
// other goroutine of the process gets the hold. ttl has the limits of [TTL].
//
// The trust deadline moves before the client sends anything, and stays there whatever the
// error is. If a renewal is under way, Shorten waits for it first, because it may ask for more.
// When an extension or a conversion that is under way has its answer, the lease on the server is
// shortened again.
//
// If the error is an [ErrNotHeld], the lease has ended. After an [ErrUnknownOutcome] it is
// held, and the server may keep it for as long as before; Shorten may be repeated. A renewal
// that got no answer, and that the server runs late, can have the same effect. The next waiter
// learns of the earlier end by a push. If the push is lost, the waiter polls when the lease
// would have ended.
//
// A lock with [Owner] refuses Shorten, because the other entries trust the same lease. After that
// refusal, the lease is as before. A quorum and the stores of other libraries' locks refuse it too; the
// lock keeps its time on the servers.
func (l *Lease) Shorten(ctx context.Context, ttl time.Duration) error {
	ls := l.state
	h, c := ls.hold, ls.hold.lock.client
	switch err := checkTTL(ttl); {
	case ctx == nil:
		return errNoContext
	case err != nil:
		return invalid("%v", err)
	case h.lock.owner != "":
		return invalid("the lease of %q belongs to an owner name: its other entries would trust it for too long; "+
			"use a lock without Owner to shorten it", h.lock.name)
	case ls.ended() != nil:
		return errorf("%w: %w", ErrNotHeld, ls.ended())
	}
	if err := alreadyOver(ctx, "shortening of", h.lock.name); err != nil {
		return err
	}
	h.mu.Lock()
	held := h.has(ls)
	h.noNewLease = h.noNewLease || held // a further lease could not be extended
	h.mu.Unlock()
	if !held {
		return errorf("%w: %w", ErrNotHeld, cmp.Or(ls.ended(), ErrReleased))
	}
	h.unshare()
	renewing, held := c.renewer.Shorten(&h.Item, c.now(), ttl)
	if renewing != nil {
		select {
		case <-renewing:
		case <-ctx.Done():
			return errorf("holdfast: shortening %q: %w", h.lock.name, ctx.Err())
		}
	}
	if held {
		if err := (lessening{hold: h, ttl: ttl}).run(ctx, "shortening of"); err != nil {
			return err
		}
	}
	if err := ls.ended(); err != nil {
		return errorf("%w: %w", ErrNotHeld, err)
	}
	return nil
}

// checkLongest refuses a TTL that is longer than one to which the lease was shortened.
func (h *hold) checkLongest(ttl time.Duration) error {
	if most := h.lock.client.renewer.Longest(&h.Item, ttl); most < ttl {
		return invalid("the lease of %q was shortened to %v: it cannot be extended to %v", h.lock.name, most, ttl)
	}
	return nil
}

// shortenAgain shortens a lease on the server if Shorten came while a request for ttl was under way. An
// error costs no more than the lost answer of a renewal does.
func (h *hold) shortenAgain(ctx context.Context, ttl time.Duration) {
	if most := h.lock.client.renewer.Longest(&h.Item, ttl); most < ttl {
		_ = lessening{hold: h, ttl: most}.run(ctx, "shortening of")
	}
}

// KeepPermits keeps n permits of a semaphore's lease and releases the others. The server grants
// them to waiters in the same step. The lease continues with its token and its time.
//
// The request names what remains, so it may be repeated, and copies of it do no harm. Whatever
// the error is, use no more than n permits from then on. If the server did not answer, the error is
// an [ErrUnknownOutcome], and the client repeats the request in the background until the
// lease's present deadline. If the error is an [ErrNotHeld], the lease has ended.
//
// n is at least 1 and at most the permits that the lease has. Otherwise, and for a lease that is
// not a semaphore's, the error is an [ErrInvalid]. To give all permits up, release the lease.
func (l *Lease) KeepPermits(ctx context.Context, n int) error {
	ls := l.state
	h := ls.hold
	has := h.permits()
	switch {
	case ctx == nil:
		return errNoContext
	case h.lock.limit == 0:
		return invalid("the lease of %q has no permits: only a semaphore's leases have permits", h.lock.name)
	case n < 1:
		return invalid("the lease of %q would keep %d permits: it must keep at least 1, or be released", h.lock.name, n)
	case n > has:
		return invalid("the lease of %q has %d permits, so it cannot keep %d", h.lock.name, has, n)
	case ls.ended() != nil:
		return errorf("%w: %w", ErrNotHeld, ls.ended())
	}
	h.keepPermits(n)
	less := lessening{hold: h, permits: n}
	err := less.run(ctx, "releasing permits of")
	if err != nil && request.Transient(err) {
		less.later()
	}
	return err
}

// permits returns how many permits of a semaphore the user of a hold may use.
func (h *hold) permits() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lock.permits - int(h.peek().less)
}

// keepPermits notes that the user of a hold uses no more than n permits from now on.
func (h *hold) keepPermits(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.more()
	x.less = max(x.less, int32(h.lock.permits-n))
}

// lessening makes less of a hold on the server. The script makes nothing more, so it may run
// several times.
type lessening struct {
	*hold
	ttl     time.Duration // 0: as long as before
	permits int           // 0: as many as before
}

// run sends the request, and once more if the connection breaks. what names the call in errors.
func (l lessening) run(ctx context.Context, what string) error {
	c := l.lock.client
	ask := func(limit time.Duration) (wire.Answer, error) { return l.ask(ctx, limit) }
	a, err := c.sender.WithResend(ctx, c.now()+c.sender.Timeout, ask, ask)
	switch {
	case err != nil:
		return wrap(what, l.lock.name, err)
	case a.Kind == wire.Gone:
		l.endMissing(ctx)
		return errorf("%w: %w", ErrNotHeld, l.endReason())
	case a.Kind != wire.Lessened:
		return wrap(what, l.lock.name, wire.OtherAnswer("lessen"))
	}
	l.setWaiters(a.Waiting)
	return nil
}

func (l lessening) ask(ctx context.Context, limit time.Duration) (wire.Answer, error) {
	c, lk, ttl := l.lock.client, l.lock, l.ttl
	if ttl > 0 {
		ttl = lk.onServer(ttl)
	}
	return wire.Parsed(c.sender.RunWithin(ctx, limit, script.Lessen, lk.keys(),
		[]string{l.hold.attemptID(), wire.Millis(ttl), strconv.Itoa(l.permits), c.retention, lk.channelPrefix}))
}

// later repeats the request in the background until the lease has ended.
func (l lessening) later() {
	c := l.lock.client
	until := max(c.now(), l.goneBy())
	c.canceller.Until(request.Message{Until: until, SilentUntil: until, Send: func(ctx context.Context) (bool, error) {
		_, err := l.ask(ctx, c.sender.Timeout)
		return true, err
	}})
}
