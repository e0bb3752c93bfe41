// AwaitFree of all kinds: a wait for a free lock, without an acquisition.

package holdfast

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// freeWatch is the state of one AwaitFree.
type freeWatch struct {
	*lock
	retries retries

	free  chan struct{} // full: the server has said that the lock was free
	ask   chan struct{} // full: there is something to ask
	stop  func()        // ends the subscription; nil: there is none
	alone bool          // the server permits no subscription

	// birth is the record that the server has answered for. Databases of one server share their
	// channels, so the news of a lock may be that of its namesake.
	birth atomic.Value
}

func (lk *lock) awaitFree(parent context.Context) error {
	c := lk.client
	switch {
	case lk.err != nil:
		return lk.err
	case parent == nil:
		return errNoContext
	case parent.Err() != nil:
		return errorf("holdfast: lock %q: %w", lk.name, parent.Err())
	}
	if held := lk.heldBy(parent); held != nil && lk.limit == 0 {
		if lk.want == wire.Shared && held.hold.lock.rw.isSet() {
			return nil // under any lease of an RWMutex, a reader gets in at once
		}
		return held.deadlock()
	}
	if !c.life.BeginCall() {
		return errorf("holdfast: lock %q: %w", lk.name, ErrClosed)
	}
	defer c.life.EndCall()
	ctx := parent
	if lk.maxWait > 0 {
		limited, cancel := bounded(parent, lk.maxWait)
		defer cancel()
		ctx = limited
	}
	f := &freeWatch{
		lock: lk, retries: retries{c: c, lock: lk, try: lk.maxWait == 0},
		free: make(chan struct{}, 1), ask: make(chan struct{}, 1),
	}
	err := f.await(ctx)
	if f.stop != nil {
		f.stop()
	}
	//nolint:errorlint // only the bare errors: every wrapped error has the lock's name already
	if err == ctx.Err() && err != nil || err == ErrClosed {
		err = errorf("holdfast: lock %q: %w", lk.name, err)
	}
	return lk.asHeldError(ctx, parent, err)
}

// await asks until the lock is free, and waits for news in between.
func (f *freeWatch) await(ctx context.Context) error {
	c := f.client
	if err := f.retries.prepare(ctx, f.lock); err != nil {
		return err
	}
	for {
		a, err := f.request(ctx)
		switch {
		case err != nil && !f.retries.pauseAfter(ctx, err):
			return f.retries.finalError(ctx, err, false)
		case err != nil && len(f.free) > 0: // the push came all the same
			return nil
		case err != nil:
			continue
		case a.Kind == wire.Free:
			return nil
		case a.Kind == wire.Conflict:
			return f.conflict(a.Count)
		case a.Kind != wire.Busy:
			return wrap("lock", f.name, wire.OtherAnswer("await_free"))
		case f.maxWait == 0:
			return &HeldError{Name: f.name, Remaining: a.Left}
		}
		f.retries.last, f.retries.failures = nil, 0
		f.birth.Store(a.Holder)
		if f.subscribe(ctx) {
			continue // what happened before the subscription was not pushed
		}
		timer := time.NewTimer(f.pollAfter(a.Left))
		over := true
		select {
		case <-f.free:
		case <-f.ask:
			over = false
		case <-timer.C:
			over = false
		case <-ctx.Done():
			err = ctx.Err()
		case <-c.life.Closing():
			err = ErrClosed
		}
		timer.Stop()
		if over {
			return err
		}
	}
}

// request asks the server whether the lock is free. If there is a subscription, the server
// notes that somebody watches. A try would get the lock if it is free.
func (f *freeWatch) request(ctx context.Context) (wire.Answer, error) {
	watches := "0"
	if f.stop != nil {
		watches = "1"
	}
	return f.client.sender.Ask(ctx, script.AwaitFree, f.keys(),
		[]string{f.want, watches, f.client.retention, f.channelPrefix})
}

// subscribe makes the subscription. It reports false if there is one already, or if it is not
// possible. After an error that may pass, it is tried again after the next poll.
func (f *freeWatch) subscribe(ctx context.Context) bool {
	c := f.client
	if f.stop != nil || f.alone {
		return false
	}
	brief, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	stop, err := c.store.Listen(brief, wire.Watch(c.cfg.Prefix, f.name, c.sharded), store.Listener{
		Message: f.heard, Look: func(bool) { signal(f.ask) },
	})
	if err != nil {
		err = request.InTime(ctx, err)
		f.alone = request.Definite(err) && !request.Transient(err)
		if f.alone {
			f.reportPushUnavailable(err)
		}
		return false
	}
	f.stop = stop
	return true
}

// heard takes a push. It must not block.
func (f *freeWatch) heard(payload string) {
	news, ok := wire.ParseFree(payload)
	switch {
	case !ok || news.Birth != f.birth.Load():
		signal(f.ask)
	case news.Mode == "" || news.Mode == wire.Shared && f.want == wire.Shared,
		news.Mode == wire.PermitMode && (f.serverLimit || f.limit == news.Limit) && news.Used+f.permits <= news.Limit:
		signal(f.free)
	}
}

// pollAfter returns how long to wait for a push before the next request.
func (f *freeWatch) pollAfter(left time.Duration) time.Duration {
	if f.stop == nil || left == 0 || f.client.pushing.mute.Load() {
		return leasetime.PollWithoutPush(left, f.ttl, f.client.chance())
	}
	return leasetime.PollAfter(left, 1, f.ttl, f.client.chance())
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
