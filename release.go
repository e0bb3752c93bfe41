// The one release of a hold.

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/mark"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/timelimit"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// releaseMode says how to give a hold up. The zero value frees the lock.
type releaseMode struct {
	keep   time.Duration // the lock stays held this long from now
	done   bool          // the run has succeeded, and uses its period
	unused bool          // no code has run under the lease: its lock-delay protects nothing
	since  time.Duration // of a leadership: when its release began, which sends another request first; 0: now
}

// handOverOrRelease hands the hold over, or releases it and gives up the turn.
func (h *hold) handOverOrRelease(ctx context.Context, how releaseMode) (local bool, err error) {
	c, back := h.lock.client, h.heldBack()
	if how.keep == 0 && !how.done && back == 0 && h.hasTurn.Load() && h.lock.turn().HandOver(h) {
		return true, nil
	}
	switch {
	case back > 0 && c.renewer.Expired(&h.Item), !c.renewer.Remove(&h.Item): // expired: the renewer reports the loss
		err = h.releaseLost(ctx, how)
	case back > 0 && !how.unused:
		h.releaseLater(back)
	default:
		err = h.release(ctx, how)
	}
	h.passTurnOn()
	return false, err
}

// release tells the server that the hold has ended. The server grants the next waiter in
// the same step. The caller has removed the hold from the renewer. A deadline of ctx that is
// still ahead bounds release, and its cancellation does not. If the connection breaks, a second
// copy goes out, within the same time limit. After that the client goes on in the background
// until the lease has ended.
func (h *hold) release(ctx context.Context, how releaseMode) error {
	r := &releasing{hold: h, how: how, start: cmp.Or(how.since, h.lock.client.now())}
	return r.run(r.limited.Lasting(ctx))
}

// releasing is the release of a hold.
type releasing struct {
	*hold
	how     releaseMode
	start   time.Duration
	buf     request.Buffer
	limited timelimit.Limited // the context of the release
}

// run chooses the request and sends it. The request may be repeated: if a copy of it has run, the
// server gives the same answer again.
func (r *releasing) run(ctx context.Context) error {
	c, lk, how := r.lock.client, r.lock, r.how
	action, limit := script.Release, ctx
	var unanswered error
	attempt, token := r.hold.identity()
	args := append(r.buf.Args[:0], attempt, token, c.retention, lk.channelPrefix)
	switch {
	case how.done:
		return r.endRun(ctx)
	case how.keep > 0 && (lk.limit > 0 || r.mayBeShared()):
		return r.keep(ctx)
	case how.keep > 0 || lk.minHold > 0:
		action = script.ReleaseAfter
		args = []string{attempt, token, ceilMillis(lk.minHold), ceilMillis(how.keep), c.retention, lk.channelPrefix}
	case r.mayWaitForBatch(ctx):
		batch := c.sender.Releases()
		item := batch.Offer(request.One{Key: lk.key(), Attempt: attempt, Limit: lk.requestLimit()})
		if item == nil {
			defer batch.DoneAlone()
		} else {
			o, _ := batch.Await(item, nil)
			if o.Done {
				return nil
			}
			unanswered = o.Err
			limit = c.sender.WithinResend(ctx, r.start) // not released by the batch, or not known: ask alone
		}
	}
	args = lk.owned(args)
	r.buf.End = r.start + lk.requestLimit()
	asked := limit
	if r.mayHaveWaiters() {
		asked = mark.PushFirst(limit)
	}
	a, err := wire.Answer{}, unanswered
	if unanswered == nil || c.now() < r.buf.End { // else the batch took all of the time
		a, err = c.sender.AskResend(asked, &r.buf, action, lk.keys(), args)
	}
	switch {
	case err != nil:
		if request.Transient(err) {
			r.later(action, args)
		}
		return wrap(releaseText, lk.name, request.InTime(ctx, err))
	case a.Kind == wire.Released, a.Kind == wire.Kept, a.Kind == wire.Held: // Held: others of the named owner hold it
		return nil
	case a.Kind == wire.Gone:
		return r.gone(c.sender.WithinResend(limit, r.start))
	}
	return wrap(releaseText, lk.name, wire.OtherAnswer("release"))
}

// mayHaveWaiters reports whether somebody may wait at the server: somebody did by its last answer, or this hold has
// waited itself. A waiter usually joins after that answer. But where a hold has waited, there are others.
func (h *hold) mayHaveWaiters() bool { return h.wasInQueue || h.waiting.Load() > 0 }

// mayWaitForBatch reports whether the release may wait for others, to be sent with them.
func (r *releasing) mayWaitForBatch(ctx context.Context) bool {
	_, bounded := ctx.Deadline()
	return !bounded && r.lock.client.sender.CanBatch() && r.batchable()
}

// batchable reports whether one request may release the hold together with others.
func (h *hold) batchable() bool {
	return h.lock.want == wire.Exclusive && h.lock.owner == "" && h.lock.minHold == 0 && h.waiting.Load() == 0
}

// later repeats the release in the background until the lease has ended. If a
// release_after gets no answer, the lock may be free at the lease's end, before the minimum
// time has passed. The other entries of a named owner may keep the hold: so it goes on for longer.
func (r *releasing) later(action *script.Script, args []string) {
	c, lk := r.lock.client, r.lock
	until, late := max(c.now(), r.goneBy()), time.Duration(0)
	if lk.owner != "" {
		late = lk.onServer(lk.ttl)
	}
	switch {
	case action != script.Release:
		again := func(ctx context.Context) (known bool, err error) {
			_, err = c.sender.Ask(ctx, action, lk.keys(), args)
			return true, err
		}
		c.canceller.Until(request.Message{Until: until, SilentUntil: until, WatchLate: late, Send: again})
	case late > 0:
		c.canceller.CancelUnknown(lk.toCancel(r.hold.attemptID()))
	default:
		c.canceller.Cancel(lk.toCancel(r.hold.attemptID()), until)
	}
}

// endRun ends a run that has succeeded. Without an answer the client retries in the background, until
// the lease has ended. If the server does not learn of the success, the job runs again.
func (r *releasing) endRun(ctx context.Context) error {
	c, lk := r.lock.client, r.lock
	args := []string{r.hold.attemptID(), c.retention, lk.channelPrefix, request.RunDone}
	a, err := wire.Parsed(c.sender.RunWithin(ctx, lk.requestLimit(), script.CancelRun, lk.keys(), args))
	switch {
	case err != nil:
		if request.Transient(err) {
			c.canceller.EndRun(lk.toCancel(r.hold.attemptID()), max(c.now(), r.goneBy()))
		}
		return wrap(releaseText, lk.name, err)
	case a.Kind == wire.None:
		return errorf("%w: %w", ErrNotHeld, r.lostFor(renewer.NotHeld))
	}
	return nil
}

// keep makes the lease of a reader or of permits last for the delay, and no longer.
func (r *releasing) keep(ctx context.Context) error {
	delay := (r.how.keep + time.Millisecond - 1).Truncate(time.Millisecond)
	lost, err := r.extend(ctx, delay)
	if err != nil {
		return wrap(releaseText, r.lock.name, err)
	}
	if lost != "" {
		return errorf("%w: %w", ErrNotHeld, r.lostFor(lost))
	}
	return nil
}

// gone returns the error for a hold that the server no longer knows. It asks the server for
// the eviction and the current holder. If the server does not answer, the error is less
// precise.
func (r *releasing) gone(ctx context.Context) error {
	r.cancelPosition()
	record, reason := r.readEviction(ctx)
	err := errorf("%w: %w", ErrNotHeld, r.lostFor(reason))
	for _, other := range record.Holders {
		if other.Mode == wire.Exclusive && (r.lock.owner == "" || wire.Owner(other.Owner) != r.lock.owner) {
			return errorf("%w: %w", ErrHeldByOther, err)
		}
	}
	return err
}

// ceilMillis writes a duration in whole milliseconds, rounded up.
func ceilMillis(d time.Duration) string { return wire.Millis(d + time.Millisecond - 1) }

// releaseLost releases a hold that has ended. If only the confirmations were lost, the
// server may still keep the hold. The work has ended, so the hold on the server ends too; with a
// lock-delay, see releaseLater.
//
// If the clock alone ended the hold, releaseLost also finds out whether an operator evicted
// it. The server may keep an evicted hold, too, until it is released.
func (h *hold) releaseLost(ctx context.Context, how releaseMode) error {
	var lost *LostError
	err := h.endReason()
	if !errors.As(err, &lost) {
		return err
	}
	if lost.Reason == LossExpired || lost.Reason == LossLimit {
		_, _ = h.readEviction(timelimit.Lasting(ctx))
	}
	lk, back := h.lock, max(h.heldBack(), h.lock.delay)
	switch {
	case lost.Reason != LossEvicted && lost.Reason != LossExpired && lost.Reason != LossLimit:
	case lost.Reason != LossEvicted && h.kept() > 0: // it ends with its lease
	case back > 0 && !how.unused:
		if lost.Reason != LossEvicted {
			back = max(back, h.firstLease.start+lk.minHold-lk.client.now())
		}
		h.releaseLater(back)
	case lost.Reason == LossEvicted:
		_ = h.release(ctx, releaseMode{}) // the holder was asked to end: the server grants the next waiter now
	case lk.minHold > 0:
		life := lk.client.life
		life.Go(releaseLabel, func() { _ = h.release(life.Context(), releaseMode{}) })
	case lk.owner != "":
		// The other entries of the owner may keep the hold, and this entry with it.
		lk.client.canceller.CancelUnknown(lk.toCancel(h.attemptID()))
	default:
		lk.client.canceller.Cancel(lk.toCancel(h.attemptID()), lk.client.now())
	}
	return errorf("%w: %w", ErrNotHeld, h.endReason())
}

// heldBack returns for how long a release may not free the lock. That is so if the lease was over before its release,
// or that of another one of several locks, and there is a lock-delay: what the code under it has sent may still be on
// its way. And it is so while a former leader may trust its lease.
func (h *hold) heldBack() time.Duration {
	lk := h.lock
	if lk.delay == 0 && lk.notBefore == 0 {
		return 0
	}
	h.mu.Lock()
	late := h.peek().late
	h.mu.Unlock()
	now := lk.client.now()
	back := max(lk.notBefore-now, 0)
	if late || h.Deadline() <= now {
		back = max(back, lk.delay)
	}
	return back
}

// releaseLater frees a lock after that time. Until then the hold on the server stays what it is. A kept lock would not
// do: an eviction frees that at once, and so does the release of another entry of its owner.
func (h *hold) releaseLater(back time.Duration) {
	lk, life := h.lock, h.lock.client.life
	life.Go(releaseLabel, func() {
		ctx := life.Context()
		_, _ = h.extend(ctx, back) // less may be left, unless an operator has asked for the end
		shorter := lessening{hold: h, ttl: max(back-lk.delay, 0) + time.Millisecond}
		if lk.owner == "" { // others of an owner may be in the hold
			_ = shorter.run(ctx, releaseText) // it ends then, also without this process
		}
		if life.Sleep(ctx, back) {
			_ = h.release(ctx, releaseMode{})
		}
	})
}

// inBackground runs f in the background, or at once if the client closes and does not wait for that.
func (c *Client) inBackground(f func()) {
	if !c.life.Go(releaseLabel, f) {
		f()
	}
}

// untilEnd runs f, which gives back what a failed call has got. If ctx ends first, the call returns, and
// f goes on in the background: a server may be silent.
func (c *Client) untilEnd(ctx context.Context, f func()) {
	done := make(chan struct{})
	c.inBackground(func() {
		f()
		close(done)
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// discardThen releases a hold that has no lease, in the background, and calls then after that.
func (h *hold) discardThen(then func()) {
	h.lock.client.inBackground(func() {
		h.discard()
		then()
	})
}

// discard releases a hold that has no lease.
func (h *hold) discard() {
	c := h.lock.client
	if c.renewer.Remove(&h.Item) {
		_ = h.release(c.life.Context(), releaseMode{})
	}
}
