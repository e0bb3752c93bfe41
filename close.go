package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// closers bounds how many leases are released at once when a client closes:
	// those at a silent node must not keep the others from being released.
	closers = 512
	// closeLimit bounds what a Close asks of the server. The subscriptions take
	// up to a second more to end.
	closeLimit = 4 * time.Second
)

// Close releases every lease, ends their contexts with [ErrClosed] as the
// cause, and returns when nothing of the client runs any more: no goroutine,
// no subscription, no timer. Acquisitions under way return [ErrClosed]. The
// store stays open: it is the caller's.
//
// It takes five seconds at most, and less if ctx ends before. The error says how
// many leases could not be seen to be released: those end by themselves within
// their TTL. A second Close returns when the first one does, with its error.
func (c *Client) Close(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	limit, parent := closeLimit, ctx
	if request.Ended(ctx) != nil {
		// Like a release it works although ctx has ended: for one request's time.
		limit, parent = min(limit, c.cfg.RequestTimeout), context.WithoutCancel(ctx)
	}
	limited, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	first, err := c.close(limited, true)
	if first {
		c.closeErr = request.InTime(ctx, err)
		close(c.gone)
		return c.closeErr
	}
	select {
	case <-c.gone:
		return c.closeErr
	case <-parent.Done():
		return fmt.Errorf("holdfast: close: %w", parent.Err())
	}
}

// Abandon closes the client without releasing its leases: the locks stay
// taken until the leases end by themselves, within their TTL. Of them it says
// nothing to the server; acquisitions that are under way may still give their
// places in line back, as far as that goes without waiting. It is for a process
// that ends while its work must not be taken over at once.
func (c *Client) Abandon() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if first, _ := c.close(ended, false); first {
		close(c.gone)
	}
}

// close reports whether it was the first.
func (c *Client) close(ctx context.Context, release bool) (first bool, err error) {
	if !c.life.Close() {
		return false, nil
	}
	c.registration.Stop()

	leases := c.renewer.All()
	var told error
	if !release {
		told = ErrClosed
	}
	for _, l := range leases {
		l.Hold.(*hold).finish(told)
	}
	if release {
		if err = c.releaseAll(ctx, leases); err == nil {
			c.registration.End(ctx)
		}
	}

	// Acquisitions under way end by themselves; what they leave behind is
	// cancelled in the background, for as long as ctx allows.
	c.life.Wait(ctx)
	c.hub.Stop()
	c.renewer.Stop()
	if s, ok := c.store.(store.IdleCloser); ok {
		s.CloseIdleConnections()
	}
	c.lastNews()
	return true, err
}

// releaseAll gives back what is held: many in one request where that can be done,
// the others each by itself.
func (c *Client) releaseAll(ctx context.Context, leases []*renewer.Item) error {
	var plain, others []*hold
	for _, l := range leases {
		h := l.Hold.(*hold)
		switch {
		case !c.renewer.Remove(l): // lost, or released by its holder meanwhile
		case c.sender.Batches() && h.plain():
			plain = append(plain, h)
		default:
			others = append(others, h)
		}
	}
	total := len(plain) + len(others)
	var mu sync.Mutex
	failed := 0
	var first error
	note := func(n int, err error) {
		if err == nil || errors.Is(err, ErrNotHeld) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if failed += n; first == nil {
			first = err
		}
	}
	abreast(slices.Collect(slices.Chunk(plain, closeBatch)), func(batch []*hold) {
		left, err := c.releaseBatch(ctx, batch)
		note(len(batch)-len(left), err)
		mu.Lock()
		defer mu.Unlock()
		others = append(others, left...)
	})
	abreast(others, func(h *hold) {
		err := ctx.Err() // what is left when time is up is not even tried
		if err == nil {
			err = h.release(ctx, releaseMode{})
		}
		note(1, err)
	})
	if failed > 0 {
		return fmt.Errorf("%d of %d leases were not seen to be released: %w", failed, total, first)
	}
	return nil
}

// closeBatch is how many holds a closing client releases in one request.
const closeBatch = 32

// plain reports whether the hold may be released together with others.
func (h *hold) plain() bool {
	return h.spec.want == wire.Exclusive && h.spec.owner == "" && h.spec.least == 0 && h.waiting.Load() == 0
}

// abreast does something with each, many at a time.
func abreast[T any](all []T, do func(T)) {
	var wg sync.WaitGroup
	next := make(chan T)
	for range min(closers, len(all)) {
		wg.Go(func() {
			for one := range next {
				do(one)
			}
		})
	}
	for _, one := range all {
		next <- one
	}
	close(next)
	wg.Wait()
}

// releaseBatch releases holds that nobody waits for, and answers those that are to
// be released one by one: somebody does, or the server refused them together. With
// an error nothing is known of the others; it was tried for as long as ctx allows.
func (c *Client) releaseBatch(ctx context.Context, batch []*hold) (left []*hold, err error) {
	keys, args := make([]string, len(batch)), make([]string, len(batch))
	for i, h := range batch {
		keys[i], args[i] = h.spec.key(), h.attempt
	}
	for failures := 0; ; failures++ {
		_, each, err := c.sender.RunSeveral(ctx, script.ReleaseIdle, keys, args)
		switch {
		case err == nil:
			for i, h := range batch {
				if each[i] != '1' {
					left = append(left, h)
				}
			}
			return left, nil
		case request.Refusal(err) != nil && !request.Transient(err), errors.Is(err, wire.ErrAnswer):
			return batch, nil
		}
		timer := time.NewTimer(backoff.Default.After(failures, c.chance()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fault("release of", batch[0].spec.name, err)
		}
	}
}
