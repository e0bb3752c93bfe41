package stringlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/timelimit"
	"github.com/holdfast-go/holdfast/store"
)

// Holds are the holds of a program that uses the API of an original. One renewer with one timer
// watches all of them. There is no goroutine while nothing is due.
type Holds struct {
	*Nodes
	cause   func(key string, why renewer.Reason) error
	closed  error
	renewer *renewer.Renewer
}

// NewHolds makes one. cause makes the error for a hold that is lost. closed is the cause of the
// holds that Close ends.
func NewHolds(list []store.Store, cause func(key string, why renewer.Reason) error, closed error) *Holds {
	h := &Holds{Nodes: NewNodes(list), cause: cause, closed: closed}
	h.renewer = renewer.New(renewer.Config{
		Now: clock.Now, Timeout: RequestTimeout, Renew: h.renew,
		Renewed: func(*renewer.Item, renewer.Report) {},
		Lost: func(l *renewer.Item, why renewer.Reason) {
			one := l.Hold.(*Hold)
			one.finish(h.cause(one.lock.Keys[0], why))
		},
	})
	return h
}

// Close ends the background work, and the contexts of all holds. It releases nothing: the keys
// expire, as those of the originals do.
func (h *Holds) Close() {
	for _, l := range h.renewer.All() {
		if h.renewer.Remove(l) {
			l.Hold.(*Hold).finish(h.closed)
		}
	}
	h.renewer.Stop()
	h.Nodes.Close()
}

// renew extends holds. The outcome of each is its own.
func (h *Holds) renew(ctx context.Context, batch []renewer.Asked) ([]renewer.Outcome, error) {
	limit := RequestTimeout
	if at, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(at))
	}
	outcomes := make([]renewer.Outcome, len(batch))
	var asking sync.WaitGroup
	for i, l := range batch {
		asking.Go(func() {
			k := l.Hold.(*Hold).lock
			k.TTL = l.For
			replies := h.Extend(ctx, limit, k, How{Longer: true}, Wait{})
			switch held := Count(replies, Held); {
			case held >= h.Quorum():
			case held+Failed(replies) < h.Quorum():
				outcomes[i].Lost = renewer.NotHeld
			default:
				outcomes[i].Err = h.tooFew(replies)
			}
		})
	}
	asking.Wait()
	return outcomes, nil
}

// Hold is one acquisition that is held until it is released or lost.
type Hold struct {
	holds  *Holds
	lock   Lock
	renews bool
	parent context.Context // of the acquisition

	mu    sync.Mutex // guards the fields below
	cause error      // why the hold has ended; nil: it has not
	ctx   context.Context
	end   context.CancelCauseFunc // of ctx; both are nil until somebody asks for the context
	item  *renewer.Item
	doubt []int // servers on which a request that sets the keys got no answer
	over  bool  // released
}

// Group implements [renewer.Hold]: a hold is renewed on servers of its own choice.
func (h *Hold) Group() string { return h.lock.Keys[0] }

// Term says for how long a hold is trusted.
type Term struct {
	Sent   time.Duration // an instant before the request was sent that was granted
	Early  time.Duration // how much sooner than usual the trust ends
	Renews bool          // the hold is renewed until it is released
}

// Add makes a hold of an acquisition that a majority has granted. It returns nil if the lease is
// over already: then the caller gives it up. The hold's context has the values of parent.
func (h *Holds) Add(parent context.Context, k Lock, replies []Reply, t Term) *Hold {
	one := &Hold{holds: h, lock: k, renews: t.Renews, parent: parent}
	for _, r := range replies {
		if r.Unknown() {
			one.doubt = append(one.doubt, r.Node)
		}
	}
	if !one.start(t.Sent-t.Early, k.TTL) {
		return nil
	}
	return one
}

// start watches the hold from now on. It reports false if its lease is over.
func (h *Hold) start(sent, ttl time.Duration) bool {
	now := clock.Now()
	h.item = &renewer.Item{Hold: h, TTL: ttl, NoRenewal: !h.renews}
	return h.holds.renewer.Add(h.item, sent, now) && (h.item.Deadline() > now || !h.holds.renewer.Remove(h.item))
}

// Restart counts ttl from sent, sooner or later than before. It reports false if the hold has
// been lost meanwhile.
func (h *Hold) Restart(sent, early, ttl time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.holds.renewer.Remove(h.item) {
		return false
	}
	if h.start(sent-early, ttl) {
		return true
	}
	h.finishLocked(h.holds.cause(h.lock.Keys[0], renewer.Expired))
	return false
}

// Shorten makes the hold end at most ttl from now, before a request tells the server so: its answer may
// be lost. [Hold.Restart] makes it longer again.
func (h *Hold) Shorten(ttl time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds.renewer.Shorten(h.item, clock.Now(), ttl)
}

// finish ends the hold, unless it has ended before.
func (h *Hold) finish(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finishLocked(cause)
}

func (h *Hold) finishLocked(cause error) {
	if h.cause == nil {
		h.cause = cause
	}
	if h.end != nil {
		h.end(h.cause)
	}
}

// Context ends when the hold is lost or released. [context.Cause] says which. It is made when
// somebody asks for it: many programs do not. After a pause of the process, before the renewer has
// run, the answer is a context that has ended.
func (h *Hold) Context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause == nil && h.left() <= 0 {
		h.holds.renewer.Remove(h.item)
		h.finishLocked(h.holds.cause(h.lock.Keys[0], renewer.Expired))
	}
	if h.ctx == nil {
		h.ctx, h.end = context.WithCancelCause(context.WithoutCancel(h.parent))
		if h.cause != nil {
			h.end(h.cause)
		}
	}
	return h.ctx
}

// Lost reports whether the hold has ended.
func (h *Hold) Lost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause != nil || h.left() <= 0
}

// left is how long the hold is trusted. h.mu is held.
func (h *Hold) left() time.Duration { return h.item.Deadline() - clock.Now() }

// Deadline is until when the hold is trusted, on the wall clock.
func (h *Hold) Deadline() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.left())
}

// End ends the hold's context with the cause, and its renewal. It sends nothing.
func (h *Hold) End(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds.renewer.Remove(h.item)
	h.finishLocked(cause)
}

// Release ends the hold's context and then deletes the keys. It does so even if ctx has ended.
// A server that does not answer is asked again in the background, for one TTL at most. early is
// that of [Wait].
func (h *Hold) Release(ctx context.Context, limit time.Duration, cause error, early func([]Reply) bool) []Reply {
	h.End(cause)
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	w := Wait{Early: early}
	if early != nil {
		w.Late = h.released
	}
	replies := h.holds.Release(timelimit.Lasting(ctx), limit, h.lock, w)
	for _, r := range replies {
		h.released(r)
	}
	return replies
}

// released goes on releasing on a server that may still have the keys, or may yet get them.
func (h *Hold) released(r Reply) {
	h.mu.Lock()
	doubt := slices.Contains(h.doubt, r.Node)
	h.mu.Unlock()
	if r.Silent() {
		return
	}
	if r.Err != nil && !refusedForGood(r.Err) || doubt && r.Answer != Held {
		h.holds.Clear(r.Node, h.lock, doubt)
	}
}

// Set notes the reply to a request that sets the keys, if it came after the hold began.
func (h *Hold) Set(r Reply) {
	h.mu.Lock()
	over := h.over
	if r.Unknown() {
		h.doubt = append(h.doubt, r.Node)
	}
	h.mu.Unlock()
	if over && (r.Unknown() || r.Err == nil && r.Answer == Held) {
		h.holds.Clear(r.Node, h.lock, r.Unknown())
	}
}
