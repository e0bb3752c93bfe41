package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/store"
)

// ErrNotAcked says that a grant was not acknowledged by as many replicas or
// disks as were asked for, and was given back. The error is an *AckError.
var ErrNotAcked = errors.New("holdfast: grant not acknowledged")

// AckError says what was missing. It is an [ErrNotAcked].
type AckError struct {
	Name      string
	Want, Got store.Acks
}

func (e *AckError) Error() string {
	return fmt.Sprintf("holdfast: lock %q: acknowledged by %v, want %v", e.Name, e.Got, e.Want)
}

// Is makes an AckError an ErrNotAcked.
func (e *AckError) Is(target error) bool { return target == ErrNotAcked }

// acked refuses an answer that too few replicas or disks have acknowledged: then the
// script has run all the same.
func (s *lock) acked(got store.Acks) error {
	if !s.ack.Wanted() || got.Covers(s.ack.Need) {
		return nil
	}
	return &AckError{Name: s.name, Want: s.ack.Need, Got: got}
}

// confirm sees a grant acknowledged, or gives it back and says why. A pushed
// grant was written over somebody else's connection, and an acquire that was
// sent twice may have written over one that is lost: so it is always a renewal
// over a connection of our own that is waited for, which covers all that was
// written before. It asks for a millisecond more than the lease has, so that
// there is something to write.
func (h *hold) confirm(ctx context.Context) error {
	c, s := h.lock.client, h.lock
	sent := c.now()
	lost, err := h.extend(ctx, h.TTL+time.Millisecond)
	if err == nil && lost == "" {
		c.renewer.Extended(&h.Item, sent, h.TTL)
		return nil
	}
	if c.renewer.Remove(&h.Item) && lost == "" {
		if errors.Is(err, ErrNotAcked) || request.Definite(err) {
			_ = h.release(ctx, releaseMode{}) // what it could not do goes on in the background
		} else {
			c.canceller.Cancel(s.attempt(h.attempt), c.now()+s.ttl)
		}
	}
	switch {
	case lost != "":
		return fmt.Errorf("holdfast: lock %q: lost before it was acknowledged: %w",
			s.name, h.lostFor(lost))
	case errors.Is(err, ErrNotAcked):
		return err
	case request.Ended(ctx) != nil:
		err = request.Ended(ctx)
	}
	return wrap("lock", s.name, err)
}

// extend asks the server for ttl from now on.
func (h *hold) extend(ctx context.Context, ttl time.Duration) (renewer.Reason, error) {
	c := h.lock.client
	r, got, err := c.sender.Renew(ctx, h.lock.ack, []request.Renewal{h.renewal(ttl)})
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

// renewal asks for ttl from now on.
func (h *hold) renewal(ttl time.Duration) request.Renewal {
	return request.Renewal{Key: h.lock.key(), Attempt: h.attempt, Owner: h.lock.owner, TTL: ttl}
}
