// What changes a hold while it is held: renewals, extensions, acknowledgements, a shorter time, fewer permits.

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// renewHolds asks the server to renew leases of one group.
func renewHolds(ctx context.Context, c *Client, batch []renewer.Asked) ([]renewer.Outcome, error) {
	holds := make([]request.Renewal, len(batch))
	for i, l := range batch {
		holds[i] = renewalOf(l.Hold.(*hold), l.For)
	}
	// All leases of one group need the same acknowledgements, or none needs any.
	first := batch[0].Hold.(*hold).lock
	limit, _ := ctx.Deadline() // the renewer has set it
	renewals, got, err := c.sender.Renew(ctx, time.Until(limit), first.ack, holds)
	if err == nil {
		err = first.acked(got)
	}
	if err != nil {
		return nil, request.InTime(c.life.Context(), err) // the limit is the renewer's
	}
	outcomes := make([]renewer.Outcome, len(batch))
	var asking sync.WaitGroup
	for i, r := range renewals {
		switch {
		case r.Held:
			outcomes[i].Waiting = r.Waiting
		case r.Unknown:
			outcomes[i].Err = errTooFew
		case r.Err != nil:
			outcomes[i].Err = r.Err
		case r.Evicted:
			outcomes[i].Lost = renewer.Evicted
			asking.Go(func() { batch[i].Hold.(*hold).readEviction(ctx) }) // the operator and the reason
		default:
			outcomes[i].Lost = renewer.NotHeld
		}
	}
	asking.Wait()
	return outcomes, nil
}

// errTooFew says that the outcome of one lease is unknown, while others were renewed.
var errTooFew = errors.New("too few servers have answered")

// renewed is called by the renewer after every try.
func (h *hold) renewed(r renewer.Report) {
	c := h.lock.client
	if r.Err == nil {
		h.setWaiters(r.Waiting)
	}
	h.mu.Lock()
	if r.Err != nil || h.peek().failed != nil {
		h.more().failed = r.Err
	}
	h.mu.Unlock()
	c.events.tell(news{hold: h, event: Event{
		Kind: EventRenew, Name: h.lock.name, Mode: h.lock.mode(), HolderID: attemptOf(h), Waiters: r.Waiting,
		Lag: max(r.Lag, 0), Remaining: r.Remaining, TTL: r.TTL, Err: r.Err,
	}})
}

// acked returns an error if too few replicas or disks acknowledged an answer. The script
// has run in that case too.
func (lk *lock) acked(got store.Acks) error {
	if !lk.ack.Wanted() || got.Covers(lk.ack.Need) {
		return nil
	}
	return &AckError{Name: lk.name, Want: lk.ack.Need, Got: got}
}

// confirm waits until a grant is acknowledged. If it is not, confirm releases the hold and
// returns the reason. The grant may have been written over another client's connection, or
// over a connection that is lost. So confirm sends a renewal and waits for its
// acknowledgements, which cover all earlier writes too. It asks for one millisecond more
// than the lease has, so that there is a change to write.
func (h *hold) confirm(ctx context.Context) error {
	c, lk := h.lock.client, h.lock
	sent := c.now()
	lost, err := h.extend(ctx, h.TTL+time.Millisecond)
	if err == nil && lost == "" {
		c.renewer.Extended(&h.Item, sent, h.TTL)
		return nil
	}
	if c.renewer.Remove(&h.Item) && lost == "" {
		if errors.Is(err, ErrNotAcked) || request.Definite(err) {
			untilEnd(ctx, c, func() { _ = h.release(ctx, releaseMode{}) })
		} else {
			c.canceller.CancelUnknown(lk.toCancel(attemptOf(h)))
		}
	}
	switch {
	case lost != "":
		return fmt.Errorf("holdfast: lock %q: the lease was lost before it was acknowledged: %w",
			lk.name, h.lostFor(lost))
	case errors.Is(err, ErrNotAcked):
		return err
	case request.Ended(ctx) != nil:
		err = request.Ended(ctx)
	}
	return wrap("lock", lk.name, err)
}

// extend asks the server for ttl from now on.
func (h *hold) extend(ctx context.Context, ttl time.Duration) (renewer.Reason, error) {
	c := h.lock.client
	limit := requestLimit(h.lock)
	if h.Patient() {
		limit = c.sender.Timeout
	}
	r, got, err := c.sender.Renew(ctx, limit, h.lock.ack, []request.Renewal{renewalOf(h, ttl)})
	if err == nil {
		err = h.lock.acked(got)
	}
	switch {
	case err != nil:
		return "", err
	case r[0].Unknown:
		return "", errTooFew
	case r[0].Evicted:
		_, _ = h.readEviction(ctx)
		return renewer.Evicted, nil
	case !r[0].Held:
		return renewer.NotHeld, nil
	}
	return "", nil
}

// Patient reports whether a renewal waits for acknowledgements.
func (h *hold) Patient() bool { return h.lock.ack.Wanted() }

// renewalOf returns the request for ttl from now on.
func renewalOf(h *hold, ttl time.Duration) request.Renewal {
	return request.Renewal{Key: h.lock.key(), Attempt: attemptOf(h), Owner: h.lock.owner, TTL: ttl}
}

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
		return fmt.Errorf("%w: %w", ErrNotHeld, ls.ended())
	}
	if err := alreadyOver(ctx, "shortening of", h.lock.name); err != nil {
		return err
	}
	h.mu.Lock()
	held := h.has(ls)
	h.noNewLease = h.noNewLease || held // a further lease could not be extended
	h.mu.Unlock()
	if !held {
		return fmt.Errorf("%w: %w", ErrNotHeld, cmp.Or(ls.ended(), ErrReleased))
	}
	h.unshare()
	renewing, held := c.renewer.Shorten(&h.Item, c.now(), ttl)
	if renewing != nil {
		select {
		case <-renewing:
		case <-ctx.Done():
			return fmt.Errorf("holdfast: shortening %q: %w", h.lock.name, ctx.Err())
		}
	}
	if held {
		if err := (lessening{hold: h, ttl: ttl}).run(ctx, "shortening of"); err != nil {
			return err
		}
	}
	if err := ls.ended(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	return nil
}

// checkLongest refuses a TTL that is longer than one to which the lease was shortened.
func checkLongest(h *hold, ttl time.Duration) error {
	if most := h.lock.client.renewer.Longest(&h.Item, ttl); most < ttl {
		return invalid("the lease of %q was shortened to %v: it cannot be extended to %v", h.lock.name, most, ttl)
	}
	return nil
}

// shortenAgain shortens a lease on the server if Shorten came while a request for ttl was under way. An
// error costs no more than the lost answer of a renewal does.
func shortenAgain(ctx context.Context, h *hold, ttl time.Duration) {
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
	has := permitsOf(h)
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
		return fmt.Errorf("%w: %w", ErrNotHeld, ls.ended())
	}
	keepPermits(h, n)
	less := lessening{hold: h, permits: n}
	err := less.run(ctx, "releasing permits of")
	if err != nil && request.Transient(err) {
		less.later()
	}
	return err
}

// permitsOf returns how many permits of a semaphore the user of a hold may use.
func permitsOf(h *hold) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lock.permits - int(h.peek().less)
}

// keepPermits notes that the user of a hold uses no more than n permits from now on.
func keepPermits(h *hold, n int) {
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
		return fmt.Errorf("%w: %w", ErrNotHeld, l.endReason())
	case a.Kind != wire.Lessened:
		return wrap(what, l.lock.name, wire.OtherAnswer("lessen"))
	}
	l.setWaiters(a.Waiting)
	return nil
}

func (l lessening) ask(ctx context.Context, limit time.Duration) (wire.Answer, error) {
	c, lk := l.lock.client, l.lock
	return wire.Parsed(c.sender.RunWithin(ctx, limit, script.Lessen, lk.keys(),
		[]string{attemptOf(l.hold), wire.Millis(l.ttl), strconv.Itoa(l.permits), c.retention, lk.channelPrefix}))
}

// later repeats the request in the background until the lease has ended.
func (l lessening) later() {
	c := l.lock.client
	until := max(c.now(), l.Deadline())
	c.canceller.Until(request.Message{Known: until, Silent: until, Send: func(ctx context.Context) (bool, error) {
		_, err := l.ask(ctx, c.sender.Timeout)
		return true, err
	}})
}
