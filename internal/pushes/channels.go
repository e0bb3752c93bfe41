package pushes

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/lockorder"
)

// Channels has the channels on which this process waits, with one subscription for each, however
// many waiters a channel has. K identifies a waiter.
//
// Example: three waiters join the channel of a lock, and one of them calls Subscribe. The other
// two call it too, and wait for the same try. When the server has confirmed, all three are told
// to look again: what was said before reached nobody. The last one leaves, and ten seconds later
// the subscription ends, unless somebody has joined meanwhile.
type Channels[K comparable, W any] struct {
	cfg  ChannelsConfig[W]
	ctx  context.Context // of subscriptions that are being made
	end  context.CancelFunc
	work sync.WaitGroup // subscriptions being made or ended

	// mu guards the fields below. No I/O and no callback happens under it, and no other mutex is
	// locked.
	mu      lockorder.Mutex[Channels[K, W]]
	all     map[string]*channel[K, W]
	waiters int // on all channels
	stopped bool
}

// ChannelsConfig is what [Channels] need.
type ChannelsConfig[W any] struct {
	// Listen subscribes to a channel, as Store.Listen does.
	Listen func(ctx context.Context, channel string, look func()) (stop func(), err error)
	// Tell tells waiters that they may have missed something: their channel has a subscription,
	// anew or again.
	Tell    func([]W)
	Timeout time.Duration // how long one try to subscribe may take
	Linger  time.Duration // how long a subscription without waiters is kept; 0: for ever
	Pause   time.Duration // how long after a failed try another one fails like it
}

// channel is one channel. It lasts while it has waiters or a subscription, or gets one.
type channel[K comparable, W any] struct {
	waiters map[K]W
	last    *try        // under way, or failed; nil: none, or there is a subscription
	stop    func()      // ends the subscription; nil: there is none
	idle    *time.Timer // ends a subscription without waiters
}

// try is one try to subscribe.
type try struct {
	over chan struct{} // closed when err is set
	err  error
	at   time.Time // when it failed
}

// underWay reports whether the try is not over.
func (t *try) underWay() bool {
	select {
	case <-t.over:
		return false
	default:
		return true
	}
}

// NewChannels makes one.
func NewChannels[K comparable, W any](cfg ChannelsConfig[W]) *Channels[K, W] {
	c := &Channels[K, W]{cfg: cfg, all: make(map[string]*channel[K, W])}
	c.ctx, c.end = context.WithCancel(context.Background())
	return c
}

// channel returns the channel of that name. mu is held.
func (c *Channels[K, W]) channel(name string) *channel[K, W] {
	ch := c.all[name]
	if ch == nil {
		ch = &channel[K, W]{waiters: make(map[K]W)}
		c.all[name] = ch
	}
	return ch
}

// Join makes w wait on a channel, whether that has a subscription or not. If it gets one later, w
// is told.
func (c *Channels[K, W]) Join(name string, k K, w W) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.join(c.channel(name), k, w)
}

// Standing is Join if the channel has a subscription. Otherwise it does nothing, and ok is false.
// Call it before the request that may queue: a push can overtake the answer.
func (c *Channels[K, W]) Standing(name string, k K, waiter func() W) (w W, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := c.all[name]
	if ch == nil || ch.stop == nil || c.stopped {
		return w, false
	}
	w = waiter()
	c.join(ch, k, w)
	return w, true
}

// join needs mu.
func (c *Channels[K, W]) join(ch *channel[K, W], k K, w W) {
	c.waiters -= len(ch.waiters)
	ch.waiters[k] = w
	c.waiters += len(ch.waiters)
	if ch.idle != nil {
		ch.idle.Stop()
		ch.idle = nil
	}
}

// Leave ends the wait of w.
func (c *Channels[K, W]) Leave(name string, k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.all[name]; ch != nil {
		c.waiters -= len(ch.waiters)
		delete(ch.waiters, k)
		c.waiters += len(ch.waiters)
		c.checkIdle(name, ch)
	}
}

// checkIdle forgets a channel that has nothing. A subscription without waiters is kept for a
// while: otherwise a contended lock would make a new one for each wait. mu is held.
func (c *Channels[K, W]) checkIdle(name string, ch *channel[K, W]) {
	switch {
	case len(ch.waiters) > 0 || c.all[name] != ch:
	case ch.stop == nil:
		if ch.last == nil || !ch.last.underWay() {
			delete(c.all, name)
		}
	case ch.idle == nil && c.cfg.Linger > 0 && !c.stopped:
		ch.idle = time.AfterFunc(c.cfg.Linger, func() { c.retire(name, ch) })
	}
}

// retire ends a subscription without waiters.
func (c *Channels[K, W]) retire(name string, ch *channel[K, W]) {
	c.mu.Lock()
	if len(ch.waiters) > 0 || c.stopped || c.all[name] != ch {
		c.mu.Unlock()
		return
	}
	delete(c.all, name)
	c.work.Add(1)
	c.mu.Unlock()
	defer c.work.Done()
	ch.stop()
}

// Subscribe returns once the channel has a subscription. If many callers ask at once, they share
// one try. The ctx of a caller limits only the wait of that caller.
func (c *Channels[K, W]) Subscribe(ctx context.Context, name string) error {
	c.mu.Lock()
	t := c.subscription(name)
	c.mu.Unlock()
	if t == nil {
		return context.Canceled
	}
	select {
	case <-t.over:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Prepare is Subscribe for a caller that does not wait. It calls told with the result, unless
// Stop was called.
func (c *Channels[K, W]) Prepare(name string, told func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.subscription(name); t != nil {
		c.work.Go(func() {
			subscribeLabel.Set()
			if <-t.over; c.ctx.Err() == nil {
				told(t.err)
			}
		})
	}
}

var subscribeLabel = label.New("subscription")

// standing is the try of a channel that has its subscription.
var standing = func() *try {
	t := &try{over: make(chan struct{})}
	close(t.over)
	return t
}()

// subscription returns the try by which the channel gets its subscription. It begins one if none
// is under way, or has failed just now. After Stop it returns nil. mu is held.
func (c *Channels[K, W]) subscription(name string) *try {
	if c.stopped {
		return nil
	}
	ch := c.channel(name)
	if ch.stop != nil {
		return standing
	}
	t := ch.last
	if t == nil || !t.underWay() && time.Since(t.at) >= c.cfg.Pause {
		t = &try{over: make(chan struct{})}
		ch.last = t
		c.work.Go(func() {
			subscribeLabel.Set()
			c.subscribe(name, ch, t)
		})
	}
	return t
}

func (c *Channels[K, W]) subscribe(name string, ch *channel[K, W], t *try) {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.Timeout)
	defer cancel()
	stop, err := c.cfg.Listen(ctx, name, func() { c.cfg.Tell(c.Waiters(name)) })
	c.mu.Lock()
	t.err, t.at = err, time.Now()
	if err == nil {
		ch.stop, ch.last = stop, nil
	}
	c.mu.Unlock()
	if err == nil {
		c.cfg.Tell(c.Waiters(name)) // pushes could not reach them before
	}
	close(t.over)
	c.mu.Lock()
	c.checkIdle(name, ch)
	c.mu.Unlock()
}

// Waiters returns those that wait on a channel now.
func (c *Channels[K, W]) Waiters(name string) (list []W) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.all[name]; ch != nil {
		list = slices.Collect(maps.Values(ch.waiters))
	}
	return list
}

// Waiter returns the one that waits on a channel as k.
func (c *Channels[K, W]) Waiter(name string, k K) (w W, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.all[name]; ch != nil {
		w, ok = ch.waiters[k]
	}
	return w, ok
}

// Stands reports whether the channel has a subscription, so that a push reaches its waiters.
func (c *Channels[K, W]) Stands(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := c.all[name]
	return ch != nil && ch.stop != nil
}

// Count returns how many waiters there are, and how many subscriptions stand.
func (c *Channels[K, W]) Count() (waiters, subscriptions int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.all {
		if ch.stop != nil {
			subscriptions++
		}
	}
	return c.waiters, subscriptions
}

// Awaited reports whether anybody waits.
func (c *Channels[K, W]) Awaited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiters > 0
}

// EndIdle ends the subscriptions without waiters now.
func (c *Channels[K, W]) EndIdle() {
	c.mu.Lock()
	var ending sync.WaitGroup
	for name, ch := range c.all {
		if len(ch.waiters) == 0 && ch.stop != nil {
			ending.Go(func() { c.retire(name, ch) })
		}
	}
	c.mu.Unlock()
	ending.Wait()
}

// Stop ends all subscriptions. It returns when no goroutine of the channels runs.
func (c *Channels[K, W]) Stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.end()
	c.work.Wait()
	// All at the same time: if a server is silent, Stop waits for one timeout and not for many.
	var ending sync.WaitGroup
	c.mu.Lock()
	for _, ch := range c.all {
		if ch.stop != nil {
			ending.Go(ch.stop)
			ch.stop = nil
		}
	}
	c.mu.Unlock()
	ending.Wait()
}
