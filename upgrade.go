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
func (l *Lease) Downgrade(ctx context.Context) error { return l.tenure.step(ctx, down) }

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
func (l *Lease) Upgrade(ctx context.Context) error { return l.tenure.step(ctx, up) }

// way is where a step leads.
type way uint8

const (
	still way = iota // no step
	down
	up
)

func (w way) mode() string {
	if w == down {
		return wire.Shared
	}
	return wire.Exclusive
}

// step goes down or up. What an earlier step of unknown outcome did is found
// out first, by taking it again: each is answered the same again.
func (t *tenure) step(ctx context.Context, want way) error {
	h := t.hold
	switch {
	case ctx == nil:
		return errNoContext
	case !h.spec.rw.any():
		return invalid("the lease of %q is none of an RWMutex: it has no other way to be held", h.spec.name)
	}
	if err := t.ended(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	var others *HeldError
	steps, err := h.beginStep(t, want)
	for _, want := range steps {
		if err = h.step(ctx, t, want); err != nil {
			break
		}
	}
	if len(steps) > 0 {
		h.mu.Lock()
		h.stepping = false
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
func (h *hold) beginStep(t *tenure, want way) ([]way, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, reads := h.readers[t]
	switch {
	case h.departed || h.tenure != t && !reads:
		return nil, fmt.Errorf("%w: %w", ErrNotHeld, ErrReleased)
	case h.stepping:
		return nil, invalid("the lease of %q steps already: let one step end before the next", h.spec.name)
	case reads && !h.shared:
		return nil, invalid("the lease of %q was entered under its writer's: let that one step", h.spec.name)
	case h.shared && want == up && h.reading() > 1:
		return nil, &HeldError{Name: h.spec.name, HeldBy: h.attempt}
	case h.pending == still && h.shared == (want == down):
		return nil, nil
	}
	steps := []way{want}
	if h.pending != still && h.pending != want {
		steps = []way{h.pending, want}
	}
	h.stepping, h.pending = true, steps[0]
	return steps, nil
}

// step takes one step at the server. A request without an answer is sent once
// more, for a step that was taken is answered the same again; if that brings no
// answer either, the step stays pending.
func (h *hold) step(ctx context.Context, t *tenure, want way) error {
	c, s := h.spec.client, h.spec
	ttl := s.rw.write
	if want == down {
		ttl = s.rw.read
	}
	h.mu.Lock()
	h.pending = want
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
		return fault("step of", s.name, err)
	case err == nil && a.Kind == wire.Granted:
		return h.stepped(t, want, a, sent, ttl)
	}
	h.mu.Lock()
	h.pending = still
	h.mu.Unlock()
	switch {
	case err != nil:
		return fault("step of", s.name, err)
	case a.Kind == wire.Busy:
		return &HeldError{Name: s.name, HeldBy: wire.Decode(a.Holder), Remaining: a.Left}
	case a.Kind == wire.Gone:
		c.missing(ctx, h)
		return fmt.Errorf("%w: %w", ErrNotHeld, h.over())
	}
	return fault("step of", s.name, wire.BadAnswer("another kind to step"))
}

// stepped notes a step that the server has taken. A lease that has ended
// meanwhile is released as what it was, which the server does not mind.
func (h *hold) stepped(t *tenure, want way, a wire.Answer, sent, ttl time.Duration) error {
	c := h.spec.client
	h.mu.Lock()
	_, reads := h.readers[t]
	if h.lost != nil || h.closed || h.departed || h.tenure != t && !reads {
		h.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrNotHeld, h.ending(t))
	}
	hadTurn := h.hasTurn.Load()
	h.pending = still
	h.passes.Store(0)
	h.server.Store(a.Token)
	t.token.Store(h.token())
	if h.shared = want == down; h.shared {
		h.let(t)
		h.tenure = nil
	} else {
		delete(h.readers, t)
		h.tenure = t
	}
	// The turn stays behind: a writer of this process may have it by now.
	h.hasTurn.Store(false)
	h.mu.Unlock()

	h.hear(a.Waiting)
	c.renewer.Extended(&h.Item, sent, ttl)
	if want == up {
		h.unshare()
		return nil
	}
	h.share()
	if hadTurn {
		c.turnOf(h.spec).Leave()
	}
	return nil
}

// ending is why the lease has ended.
func (h *hold) ending(t *tenure) error {
	if err := t.ended(); err != nil {
		return err
	}
	return h.over()
}
