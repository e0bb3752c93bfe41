package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/verify/history"
)

// worker is one goroutine of a workload.
type worker struct {
	*client
	work   string
	number int
	rng    *rand.Rand

	failures int // acquisitions that came to nothing
}

// loop takes turns until ctx ends.
func (w *worker) loop(ctx context.Context, kind workload) {
	for history.Sleep(ctx, w.upTo(time.Duration(float64(kind.rest)*w.cfg.Rest))) {
		failed := w.failures
		kind.turn(w, ctx)
		if w.failures > failed && !history.Sleep(ctx, w.upTo(max(w.cfg.TTL/4, kind.rest))) {
			return // a worker that was refused does not try again at once
		}
	}
}

// upTo is a time from 0 to d.
func (w *worker) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d) + 1))
}

// lease is what a hold of any kind has.
type lease interface {
	Context() context.Context
	Err() error
	HolderID() string
}

// request is one acquisition.
type request struct {
	lock   string
	mode   string
	weight int
	name   string        // of an owner
	local  bool          // it is one more lease under a hold
	least  time.Duration // for which the lock is locked at least
	take   func(ctx context.Context) (lease, error)
	token  func(l lease) uint64
	give   func(ctx context.Context, l lease) error
}

// of makes the parts of a request that an ordinary lease needs.
func ordinary(r request, take func(ctx context.Context) (*holdfast.Lease, error)) request {
	r.take = func(ctx context.Context) (lease, error) {
		l, err := take(ctx)
		if err != nil {
			return nil, err
		}
		return l, nil
	}
	r.token = func(l lease) uint64 { return l.(*holdfast.Lease).Token() }
	r.give = func(ctx context.Context, l lease) error { return l.(*holdfast.Lease).Release(ctx) }
	return r
}

// exclusive does do under the mutex of that name.
func (w *worker) exclusive(ctx context.Context, name string, do func(h *holding)) {
	w.hold(ctx, ordinary(request{lock: name, mode: "x"}, w.locks.Mutex(name).Lock), do)
}

// holding is a hold under way.
type holding struct {
	*worker
	lease   lease
	event   history.Event // what all events of the hold have in common
	trusted int64         // when it was last seen to be held
}

// hold acquires a lock, does do under it and releases it, and reports all of that.
func (w *worker) hold(ctx context.Context, r request, do func(h *holding)) {
	asked := history.Now()
	l, err := r.take(ctx)
	at := history.Now()
	e := history.Event{
		Work: w.work, Lock: r.lock, Mode: r.mode, Weight: r.weight, Name: r.name, Local: r.local,
		Least: r.least, ID: w.ids.Add(1), Asked: asked,
	}
	if err != nil {
		e.Kind, e.At, e.How, e.Err = history.Fail, at, how(ctx, err), err.Error()
		w.failures++
		w.say(e)
		return
	}
	e.Owner, e.Token = l.HolderID(), r.token(l)
	h := &holding{worker: w, lease: l, event: e}
	e.Kind, e.At = history.Got, at
	w.say(e)
	told := context.AfterFunc(l.Context(), func() { h.lost(at) })
	h.note()
	if do != nil {
		do(h)
	}
	h.note()
	end := h.event
	told()
	end.Kind, end.Asked, end.Trusted = history.End, history.Now(), h.trusted
	limited, cancel := context.WithTimeout(context.Background(), w.cfg.TTL)
	defer cancel()
	err = r.give(limited, l)
	end.At, end.How = history.Now(), history.Released
	if err != nil {
		end.How, end.Err = how(limited, err), err.Error()
	}
	w.say(end)
}

// lost reports that the lease ended without a release, and by when the library had to say
// so: no later than a TTL after the last answer.
func (h *holding) lost(granted int64) {
	e := h.event
	e.At = history.Now()
	cause := context.Cause(h.lease.Context())
	if !errors.Is(cause, holdfast.ErrLost) {
		return
	}
	if renewed, ok := h.confirmed.Load(e.Owner); ok {
		granted = max(granted, renewed.(int64))
	}
	e.Kind, e.Trusted, e.Err = history.Lost, granted+int64(h.cfg.TTL), cause.Error()
	h.say(e)
}

// note writes down that the lease is held, if it is. It reads the clock first, so the lease was
// held at the instant that it notes.
func (h *holding) note() bool {
	now := history.Now()
	if h.lease.Err() != nil {
		return false
	}
	h.trusted = now
	return true
}

// stay holds the lock for d, and checks the lease meanwhile. It reports whether the lease
// lasted.
func (h *holding) stay(d time.Duration) bool {
	const step = 5 * time.Millisecond
	for till := time.Now().Add(d); ; {
		left := min(time.Until(till), step)
		if left <= 0 {
			return h.note()
		}
		if !history.Sleep(h.lease.Context(), left) || !h.note() {
			return false
		}
	}
}

// how sorts an error.
func how(ctx context.Context, err error) string {
	var refused *holdfast.ServerError
	switch {
	case errors.Is(err, holdfast.ErrUnknownOutcome):
		return history.Unknown
	case errors.Is(err, holdfast.ErrNotHeld), errors.Is(err, holdfast.ErrLost):
		return history.NotHeld
	case errors.Is(err, holdfast.ErrHeld): // before what else it may carry
		return history.Held
	case errors.As(err, &refused), errors.Is(err, holdfast.ErrUnreachable):
		return history.Refused
	case over(ctx) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return history.Cancelled
	}
	return history.Broken
}

// over reports whether a context has ended, or would have if its timer were on time.
func over(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(deadline)
}
