// What makes less of a lease: its end with a context.

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// ReleaseWhenDone releases the lease when ctx ends: the context of the call that acquired it,
// or any other. If ctx has ended, that is at once. It does not wait for the code under the
// lease. So use it if the work is over when ctx ends, or bind the work to [Lease.Context].
// A call is for good; of several calls, the first context that ends counts.
//
// The release is that of [Lease.Release], in the background. If the server does not answer,
// the client repeats it until the lease has ended, and the lock is free within its TTL at
// the latest. The log gets the error, and the observer too. A Release by hand works before
// and after. If the lease is lost first, it stays lost, and the end of ctx frees what the
// server may still keep. [Client.Close] ends the wait for ctx.
//
// If the lease has ended already, the error is an [ErrNotHeld].
func (l *Lease) ReleaseWhenDone(ctx context.Context) error {
	return l.state.whenDone(ctx, l.Err(), l.Release)
}

// whenDone calls release when ctx ends. ended says why the lease has ended already.
func (t *leaseState) whenDone(ctx context.Context, ended error, release func(ctx context.Context) error) error {
	switch {
	case ctx == nil:
		return errNoContext
	case ended != nil:
		return fmt.Errorf("%w: %w", ErrNotHeld, ended)
	}
	stop := context.AfterFunc(ctx, func() {
		t.hold.lock.client.life.Go(releaseLabel, func() { t.reportRelease(release(context.WithoutCancel(ctx))) })
	})
	t.mu.Lock()
	if x := t.more(); !t.released {
		x.stops, stop = append(x.stops, stop), nil
	}
	t.mu.Unlock()
	if stop != nil {
		stop()
	}
	return nil
}

// reportRelease logs the error of a release that nobody waits for. The log has a loss already.
func (t *leaseState) reportRelease(err error) {
	if err == nil || errors.Is(err, ErrReleased) || errors.Is(err, ErrNotHeld) || errors.Is(err, ErrClosed) {
		return
	}
	h := t.hold
	h.lock.client.events.tell(news{hold: h, lease: t, log: func(log *slog.Logger) {
		log.Warn("holdfast: the release at the end of a context failed: the lock is free within the TTL at the latest",
			"lock", h.lock.name, "token", t.token.Load(), "error", err)
	}})
}

// stopAll ends the waits for contexts. It calls them without e.mu: a context may ask the
// lease whether it has ended.
func (e *leaseEnd) stopAll() {
	e.mu.Lock()
	var stops []func() bool
	if e.extra != nil {
		stops, e.extra.stops = e.extra.stops, nil
	}
	e.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}
