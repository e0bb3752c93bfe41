// Upgrade and Downgrade: from reader to writer and back, with nobody in between.

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Downgrade lets the writer of an [RWMutex] go on as a reader: no writer comes
// in between, and readers who head the line come in together with it. It does
// nothing for a lease that is a reader's.
//
// The lease goes on, its context too, with a higher token and the readers'
// TTL; what is left of it is not shortened. Leases that were entered under it
// by [RWMutex.RLock] go on beside it, as readers of their own.
//
// If the error is an [ErrNotHeld], the lease is lost. After an
// [ErrUnknownOutcome] it is held, as a reader's or still as the writer's: read
// and do not write, until a further Downgrade or Upgrade has told. After any
// other error nothing has changed.
func (l *Lease) Downgrade(ctx context.Context) error { return l.state.step(ctx, down) }

// Upgrade makes the reader of an [RWMutex] its writer, if it is the only reader:
// at once and past the line, for all in it wait for that reader. It never waits. While
// others read too, in this process or elsewhere, it is refused with a [*HeldError]:
// of two readers that step up at most one becomes the writer, and neither waits for the
// other. Leases that were entered under this one count as other readers. It does nothing
// for a lease that is a writer's.
//
// The lease goes on, its context too, with a token higher than all before.
//
// If the error is an [ErrNotHeld], the lease is lost. After an
// [ErrUnknownOutcome] it is held as a reader's, and perhaps keeps other readers
// out until it is released, or a further Upgrade or Downgrade has told. After any other
// error it is the reader's that it was.
func (l *Lease) Upgrade(ctx context.Context) error { return l.state.step(ctx, up) }

// conversion is an upgrade or a downgrade.
type conversion uint8

const (
	still conversion = iota // no step
	down
	up
)

func (w conversion) mode() string {
	if w == down {
		return wire.Shared
	}
	return wire.Exclusive
}

// step goes down or up. What an earlier step of unknown outcome did is found
// out first, by taking it again: each is answered the same again.
func (t *leaseState) step(ctx context.Context, want conversion) error {
	h := t.hold
	switch {
	case ctx == nil:
		return errNoContext
	case !h.lock.rw.any():
		return invalid("the lease of %q is none of an RWMutex: it has no other way to be held", h.lock.name)
	}
	if err := t.ended(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	var others *HeldError
	steps, err := h.beginStep(t, want)
	for _, want := range steps {
		if err = h.convert(ctx, t, want); err != nil {
			break
		}
	}
	if len(steps) > 0 {
		h.mu.Lock()
		h.converting = false
		h.mu.Unlock()
	}
	if errors.As(err, &others) {
		return fmt.Errorf("%w: %w", errOthersRead, err)
	}
	return err
}

// errOthersRead comes before the HeldError of a step up, which alone would not
// say that to wait for the other readers is no way: they may wait as well.
var errOthersRead = errors.New("holdfast: no step up while others read: release, and take the lock as a writer")

// beginStep decides which steps to take for t: none if it holds as it wants.
// Until they are done no other step begins, nobody joins the hold, and it
// is not passed on.
func (h *hold) beginStep(t *leaseState, want conversion) ([]conversion, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, reads := h.readers[t]
	switch {
	case h.departed || h.lease != t && !reads:
		return nil, fmt.Errorf("%w: %w", ErrNotHeld, ErrReleased)
	case h.converting:
		return nil, invalid("the lease of %q steps already: let one step end before the next", h.lock.name)
	case reads && !h.shared:
		return nil, invalid("the lease of %q was entered under its writer's: let that one step", h.lock.name)
	case h.shared && want == up && h.reading() > 1:
		return nil, &HeldError{Name: h.lock.name, HeldBy: h.attempt}
	case h.unsettled == still && h.shared == (want == down):
		return nil, nil
	}
	steps := []conversion{want}
	if h.unsettled != still && h.unsettled != want {
		steps = []conversion{h.unsettled, want}
	}
	h.converting, h.unsettled = true, steps[0]
	return steps, nil
}

// convert asks the server for one conversion. A request without an answer is sent once
// more, for a conversion that was made is answered the same again; if that brings no
// answer either, the conversion is unsettled.
func (h *hold) convert(ctx context.Context, t *leaseState, want conversion) error {
	c, s := h.lock.client, h.lock
	ttl := s.rw.write
	if want == down {
		ttl = s.rw.read
	}
	h.mu.Lock()
	h.unsettled = want
	h.mu.Unlock()
	args := []string{
		h.attempt, wire.Number(h.server.Load()), want.mode(), wire.Millis(h.TTLFor(c.now(), ttl)), c.retention, s.base,
	}
	// A step that too few replicas have acknowledged is one of unknown outcome.
	var sent time.Duration
	a, err := request.Resend(ctx, func() (wire.Answer, error) {
		sent = c.now()
		answer, got, err := c.sender.RunAcked(ctx, s.ack, script.Convert, s.keys(), args)
		if err == nil {
			err = s.acked(got)
		}
		if err != nil {
			return wire.Answer{}, err
		}
		return wire.Parse(answer)
	})
	switch {
	case err != nil && !request.Definite(err):
		return wrap("step of", s.name, err)
	case err == nil && a.Kind == wire.Granted:
		return h.converted(t, want, a, sent, ttl)
	}
	h.mu.Lock()
	h.unsettled = still
	h.mu.Unlock()
	switch {
	case err != nil:
		return wrap("step of", s.name, err)
	case a.Kind == wire.Busy:
		return &HeldError{Name: s.name, HeldBy: wire.Decode(a.Holder), Remaining: a.Left}
	case a.Kind == wire.Gone:
		h.endMissing(ctx)
		return fmt.Errorf("%w: %w", ErrNotHeld, h.endReason())
	}
	return wrap("step of", s.name, wire.BadAnswer("another kind to step"))
}

// converted notes a step that the server has taken. A lease that has ended
// meanwhile is released as what it was, which the server does not mind.
func (h *hold) converted(t *leaseState, want conversion, a wire.Answer, sent, ttl time.Duration) error {
	c := h.lock.client
	h.mu.Lock()
	_, reads := h.readers[t]
	if h.lost != nil || h.closed || h.departed || h.lease != t && !reads {
		h.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrNotHeld, h.ending(t))
	}
	hadTurn := h.hasTurn.Load()
	h.unsettled = still
	h.passes.Store(0)
	h.server.Store(a.Token)
	t.token.Store(h.token())
	if h.shared = want == down; h.shared {
		h.addReader(t)
		h.lease = nil
	} else {
		delete(h.readers, t)
		h.lease = t
	}
	// The turn stays behind: a writer of this process may have it by now.
	h.hasTurn.Store(false)
	h.mu.Unlock()

	h.setWaiters(a.Waiting)
	c.renewer.Extended(&h.Item, sent, ttl)
	if want == up {
		h.unshare()
		return nil
	}
	h.share()
	if hadTurn {
		h.lock.turn().Leave()
	}
	return nil
}

// ending is why the lease has ended.
func (h *hold) ending(t *leaseState) error {
	if err := t.ended(); err != nil {
		return err
	}
	return h.endReason()
}
