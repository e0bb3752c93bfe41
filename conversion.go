// Conversions of a lease, from reader to writer or back.

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Downgrade turns the writer's lease of an [RWMutex] into a reader's lease. No writer gets
// the lock in between. Readers at the head of the wait queue get it at the same time. For a
// reader's lease, Downgrade does nothing. For a lease of another kind, the error is an [ErrInvalid].
//
// The lease and its context continue, with a higher token and the readers' TTL. The
// remaining time is not shortened. Leases that were acquired under it with [RWMutex.RLock]
// continue as independent readers' leases, with the same token.
//
// If the error is an [ErrNotHeld], the lease has ended. After an [ErrUnknownOutcome] it is
// held, by a reader or still by the writer. Then the caller may read and must not write,
// until another Downgrade or Upgrade succeeds. A refusal that passes, such as that of a
// server that loads its data, is an [ErrUnknownOutcome] too, because a late copy of the
// request may run after it. After any other error nothing has changed.
func (l *Lease) Downgrade(ctx context.Context) error { return l.state.changeMode(ctx, down) }

// Upgrade turns a reader's lease of an [RWMutex] into the writer's lease, if it is the only
// reader. It never waits. The upgrade comes before all waiters, because they wait for that
// reader anyway. For a writer's lease, Upgrade does nothing. For a lease of another kind, the
// error is an [ErrInvalid].
//
// If there are other readers, in this process or elsewhere, the error is a [*HeldError]. So
// if two readers upgrade, at most one becomes the writer, and neither waits for the other.
// Leases that were acquired under this lease count as other readers. A reader that has called
// [Lease.ReleaseAfter] counts until its delay has passed.
//
// The lease and its context continue, with a token higher than all before.
//
// If the error is an [ErrNotHeld], the lease has ended. After an [ErrUnknownOutcome] it is
// held by a reader. It may keep other readers out until it is released, or until another
// Upgrade or Downgrade succeeds. After any other error it is the same reader's lease as
// before.
func (l *Lease) Upgrade(ctx context.Context) error { return l.state.changeMode(ctx, up) }

// conversion is an upgrade or a downgrade.
type conversion uint8

const (
	still conversion = iota // no conversion
	down
	up
)

func (c conversion) mode() string {
	if c == down {
		return wire.Shared
	}
	return wire.Exclusive
}

// changeMode downgrades or upgrades. If an earlier conversion has an unknown outcome, changeMode
// repeats it first. The server answers a repeated conversion like the first one.
//
// For example, a writer calls Downgrade, and no answer comes: on the server it may be a writer or a reader.
// Then it calls Upgrade. A single upgrade would not do. If the server has run the downgrade, the upgrade names
// an old token, and the answer is "gone". If it has not, a late copy of the downgrade could still make a reader
// of the writer. So the steps are: down once more, which settles the first one, then up, under the token that
// down has given.
func (ls *leaseState) changeMode(ctx context.Context, want conversion) error {
	h := ls.hold
	switch {
	case ctx == nil:
		return errNoContext
	case !h.lock.rw.isSet():
		return invalid("the lease of %q does not belong to an RWMutex: only its leases can be converted", h.lock.name)
	}
	if err := ls.ended(); err != nil {
		return errorf("%w: %w", ErrNotHeld, err)
	}
	if err := alreadyOver(ctx, "converting", h.lock.name); err != nil {
		return err
	}
	var others *HeldError
	steps, repeats, err := h.beginConversion(ls, want)
	for i, want := range steps {
		if i > 0 && want == up {
			err = h.onlyReader() // the first step may have made readers of leases under ls
		}
		if err == nil {
			err = ls.convert(ctx, want, repeats && i == 0)
		}
		if err != nil {
			break
		}
	}
	if len(steps) > 0 {
		h.endConversion()
	}
	if errors.As(err, &others) {
		return errorf("%w: %w", errOthersRead, err)
	}
	return err
}

// errOthersRead precedes the HeldError of an upgrade. The HeldError alone would suggest a
// wait for the other readers, and they may wait as well.
var errOthersRead = errors.New("holdfast: cannot upgrade: other readers hold the lock")

// beginConversion decides which conversions ls needs. It returns none if the hold already has the
// wanted mode. If repeats is true, the first one has been sent before, and its outcome is
// unknown. Until they are done, no other conversion begins, no reader joins the hold, and the
// hold is not handed over.
func (h *hold) beginConversion(
	ls *leaseState, want conversion,
) (steps []conversion, repeats bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.more()
	_, reads := x.readers[ls]
	switch {
	case !h.has(ls):
		return nil, false, errorf("%w: %w", ErrNotHeld, ErrReleased)
	case x.converting != nil:
		return nil, false, invalid("the lease of %q is being converted: wait until that call returns", h.lock.name)
	case reads && !h.shared && want == down:
		return nil, false, nil // it is a reader's lease, under a writer's
	case reads && !h.shared:
		return nil, false, invalid("the lease of %q was acquired under the writer's lease: "+
			"convert the writer's lease instead", h.lock.name)
	case want == up && h.othersRead() != nil:
		return nil, false, h.othersRead()
	case x.unsettled == still && h.shared == (want == down):
		return nil, false, nil
	}
	steps, repeats = []conversion{want}, x.unsettled != still
	if repeats && x.unsettled != want {
		steps = []conversion{x.unsettled, want}
	}
	x.converting, x.unsettled = make(chan struct{}), steps[0]
	return steps, repeats, nil
}

// endConversion lets whoever waits for the end of the conversion ask again whether it may join.
func (h *hold) endConversion() {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.more()
	close(x.converting)
	x.converting = nil
}

// othersRead returns the error for an upgrade beside other readers of this process, or nil. The caller
// holds h.mu.
func (h *hold) othersRead() error {
	x, left := h.peek(), time.Duration(0)
	if h.reading() <= 1 {
		if left = x.keptUntil - h.lock.client.now(); left <= 0 {
			return nil
		}
	}
	if !h.shared {
		return nil
	}
	return &HeldError{Name: h.lock.name, HeldBy: h.attemptID(), Remaining: left}
}

// onlyReader is othersRead for a conversion that is under way.
func (h *hold) onlyReader() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.othersRead()
}

// convert asks the server for one conversion. If a request gets no answer, the client sends
// it once more. A repeated conversion gets the same answer. If there is still no answer,
// the conversion is unsettled. It stays so until an answer comes: if the server refuses a
// repeated request, it says nothing of the one before.
func (ls *leaseState) convert(ctx context.Context, want conversion, repeats bool) error {
	h := ls.hold
	c, lk := h.lock.client, h.lock
	ttl := lk.rw.write
	if want == down {
		ttl = lk.rw.read
	}
	ttl = c.renewer.Longest(&h.Item, ttl)
	h.mu.Lock()
	h.more().unsettled = want
	h.mu.Unlock()
	attempt, token := h.identity()
	args := []string{
		attempt, token, want.mode(), wire.Millis(lk.onServer(h.TTLFor(c.now(), ttl))), c.retention, lk.channelPrefix,
	}
	// If too few replicas acknowledge a conversion, its outcome is unknown.
	var sent time.Duration
	ask := func(limit time.Duration) (wire.Answer, error) {
		sent = c.now()
		answer, got, err := c.sender.RunAcked(ctx, limit, lk.ack, script.Convert, lk.keys(), args)
		if err == nil {
			err = lk.acked(got)
		}
		if err != nil {
			return wire.Answer{}, err
		}
		return wire.Parse(answer)
	}
	a, err := c.sender.WithResend(ctx, c.now()+c.sender.Timeout, ask, ask)
	switch {
	case err != nil && !request.Definite(err):
		return wrap("converting", lk.name, err)
	case want == down && request.MayRunLate(err):
		// The token that a late copy names is still the hold's, so it would make a reader of a writer who
		// goes on. The next conversion gives the hold another token. A late copy of an upgrade only keeps
		// other readers out.
		return wrapChange("converting", lk.name, err)
	case err == nil && a.Kind == wire.Granted:
		err = ls.converted(want, a, sent, ttl)
		h.shortenAgain(ctx, ttl)
		return err
	}
	if err == nil || !repeats {
		h.mu.Lock()
		h.more().unsettled = still
		h.mu.Unlock()
	}
	switch {
	case err != nil:
		return wrap("converting", lk.name, err)
	case a.Kind == wire.Busy:
		return &HeldError{Name: lk.name, HeldBy: wire.Decode(a.Holder), Remaining: a.Left}
	case a.Kind == wire.Gone:
		h.endMissing(ctx)
		return errorf("%w: %w", ErrNotHeld, h.endReason())
	}
	return wrap("converting", lk.name, wire.OtherAnswer("convert"))
}

// converted stores a conversion that the server has made. If the lease has ended in the
// meantime, its release uses the old mode. The server accepts that.
func (ls *leaseState) converted(want conversion, a wire.Answer, sent, ttl time.Duration) error {
	h, c := ls.hold, ls.hold.lock.client
	h.mu.Lock()
	x := h.more()
	if x.lost != nil || h.closed || !h.has(ls) {
		h.mu.Unlock()
		return errorf("%w: %w", ErrNotHeld, cmp.Or(ls.ended(), h.endReason()))
	}
	x.unsettled = still
	h.handOvers.Store(0)
	h.server.Store(a.Token)
	ls.token.Store(h.token())
	if h.shared = want == down; h.shared {
		h.addReader(ls)
		h.lease = nil
		for reader := range x.readers { // those that were acquired under the writer's lease, too
			reader.token.Store(ls.token.Load())
		}
	} else {
		delete(x.readers, ls)
		h.lease = ls
	}
	// The turn does not go with the hold, because a writer of this process may have it now.
	hadTurn := h.hasTurn.Swap(false)
	h.mu.Unlock()

	h.setWaiters(a.Waiting)
	c.renewer.Extended(&h.Item, sent, ttl)
	if want == up {
		h.unshare()
		return nil
	}
	if h.lock.shares() {
		c.localQueue.Share(h.lock.key(), h)
	}
	if hadTurn {
		h.lock.turn().PassOn()
	}
	return nil
}
