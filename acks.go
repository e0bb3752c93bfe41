package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
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

// acks are the acknowledgements that a lock is taken with.
type acks struct {
	need  store.Acks
	limit time.Duration // of each kind of waiting
}

func (a acks) wanted() bool { return a != acks{} }

// setLimit notes for how long an option waits.
func (a *acks) setLimit(option string, limit time.Duration) error {
	if limit < time.Millisecond || limit%time.Millisecond != 0 {
		return invalid("%s: the limit is %v: the server counts whole milliseconds, from 1ms on", option, limit)
	}
	a.limit = max(a.limit, limit)
	return nil
}

// options names those that asked for this.
func (a *acks) options() string {
	switch {
	case a.need.LocalAOF == 0:
		return "WaitReplicas"
	case a.need.Replicas == 0:
		return "WaitAOF"
	}
	return "WaitReplicas and WaitAOF"
}

// total bounds the waiting: WAIT and WAITAOF follow each other.
func (a acks) total() time.Duration {
	if a.need.Replicas > 0 && a.need.LocalAOF > 0 {
		return 2 * a.limit
	}
	return a.limit
}

// waits refuses, as far as it can be known, a server that cannot do what s
// waits for. Nothing has been taken yet.
func (c *Client) waits(s *spec) error {
	info := c.server.Load()
	if s.ack.need.LocalAOF == 0 || info == nil || !older(*info, 7, 2) {
		return nil
	}
	return &ServerError{Code: "WAITAOF", Message: fmt.Sprintf(
		"WAITAOF the server at %s is %s %s", info.Address, info.Product, info.Version)}
}

// runAcked sends an action on holds that s is the terms of. Too few
// acknowledgements are an AckError: the action has run.
func (c *Client) runAcked(
	ctx context.Context, s *spec, action *script.Script, keys, args []string,
) (string, error) {
	limited := request.Within(ctx, c.cfg.RequestTimeout)
	if !s.ack.wanted() {
		answer, err := c.store.Run(limited, action, keys, args)
		return answer, request.InTime(ctx, err)
	}
	answer, got, err := c.store.(store.Acker).RunAcked(limited, action, keys, args, s.ack.need, s.ack.limit)
	err = request.InTime(ctx, err)
	if err == nil && !got.Covers(s.ack.need) {
		err = &AckError{Name: s.name, Want: s.ack.need, Got: got}
	}
	return answer, err
}

// confirm sees a grant acknowledged, or gives it back and says why. A pushed
// grant was written over somebody else's connection, and an acquire that was
// sent twice may have written over one that is lost: so it is always a renewal
// over a connection of our own that is waited for, which covers all that was
// written before. It asks for a millisecond more than the lease has, so that
// there is something to write.
func (h *hold) confirm(ctx context.Context) error {
	c, s := h.spec.client, h.spec
	sent := c.now()
	lost, err := h.extend(ctx, h.TTL+time.Millisecond)
	if err == nil && lost == "" {
		c.renewer.Extended(&h.Item, sent, h.TTL)
		return nil
	}
	if c.renewer.Remove(&h.Item) && lost == "" {
		if errors.Is(err, ErrNotAcked) || request.Definite(err) {
			_ = h.release(ctx) // what it could not do goes on in the background
		} else {
			c.undo(s, h.attempt, c.now()+s.ttl)
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
	return fault("lock", s.name, err)
}

// extend asks the server for ttl from now on.
func (h *hold) extend(ctx context.Context, ttl time.Duration) (renewer.Reason, error) {
	c := h.spec.client
	args := []string{c.retention, h.attempt, wire.Millis(ttl), h.spec.owner}
	answer, err := c.runAcked(ctx, h.spec, script.Renew, h.spec.keys(), args)
	if err != nil {
		return "", err
	}
	r, err := wire.ParseRenewals(answer, 1)
	switch {
	case err != nil:
		return "", err
	case r[0].Unknown:
		return "", errTooFew
	case r[0].Evicted:
		_, _ = h.learn(ctx)
		return renewer.Evicted, nil
	case !r[0].Held:
		return renewer.NotHeld, nil
	}
	return "", nil
}
