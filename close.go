package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/script"
)

// closers bounds how many leases are released at once when a client closes.
const closers = 16

// Close releases every lease, ends their contexts with [ErrClosed] as the
// cause, and returns when nothing of the client runs any more: no goroutine,
// no subscription, no timer. Acquisitions under way return [ErrClosed]. The
// store stays open: it is the caller's.
//
// ctx bounds the requests. The error says how many leases could not be seen
// to be released: those end by themselves within their TTL. A second Close
// does nothing.
func (c *Client) Close(ctx context.Context) error {
	if ctx.Err() != nil {
		// Like a release it works although ctx has ended: for one request's time.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), c.cfg.RequestTimeout)
		defer cancel()
	}
	return c.close(ctx, true)
}

// Abandon closes the client without releasing its leases: the locks stay
// taken until the leases end by themselves, within their TTL. Of them it says
// nothing to the server; acquisitions that are under way may still give their
// places in line back, as far as that goes without waiting. It is for a process
// that ends while its work must not be taken over at once.
func (c *Client) Abandon() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.close(ended, false)
}

func (c *Client) close(ctx context.Context, release bool) error {
	c.mu.Lock()
	if c.isClosing() {
		c.mu.Unlock()
		return nil
	}
	close(c.closing)
	if c.presence != nil {
		c.presence.Stop()
	}
	c.mu.Unlock()

	leases := c.keeper.All()
	var told error
	if !release {
		told = ErrClosed
	}
	for _, l := range leases {
		l.Hold.(*hold).finish(told)
	}
	var err error
	if release {
		err = c.releaseAll(ctx, leases)
		c.farewell(ctx)
	}

	// Acquisitions under way end by themselves; what they leave behind is
	// cancelled in the background, for as long as ctx allows.
	for c.calls.Load() > 0 && ctx.Err() == nil {
		select {
		case <-c.quiet:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		c.tasks.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	c.end()
	<-idle
	c.hub.Stop()
	c.keeper.Stop()
	c.lastNews()
	return err
}

// releaseAll gives back what is held, several at a time.
func (c *Client) releaseAll(ctx context.Context, leases []*keeper.Lease) error {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed int
		first  error
	)
	work := make(chan *hold)
	for range min(closers, len(leases)) {
		wg.Go(func() {
			for h := range work {
				if !c.keeper.Remove(&h.Lease) {
					continue // lost, or released by its holder meanwhile
				}
				err := ctx.Err() // what is left when time is up is not even tried
				if err == nil {
					err = h.release(ctx)
				}
				if err != nil && !errors.Is(err, ErrNotHeld) {
					mu.Lock()
					if failed++; first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	for _, l := range leases {
		work <- l.Hold.(*hold)
	}
	close(work)
	wg.Wait()
	if failed > 0 {
		return fmt.Errorf("%d of %d leases were not seen to be released: %w", failed, len(leases), first)
	}
	return nil
}

// farewell lets the client's own record end soon instead of in a quarter of
// an hour. It is a courtesy: nothing depends on it.
func (c *Client) farewell(ctx context.Context) {
	if !c.announced.Load() {
		return
	}
	_, _ = c.run(ctx, script.Announce, []string{c.clientKey()}, c.introduction(time.Millisecond))
}
