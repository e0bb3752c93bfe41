package holdfast

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// listenAgain is after what time a client that cannot hear pushes tries to
// subscribe again: permissions and proxies change while programs run.
const listenAgain = time.Minute

// deafness is what a client knows of pushes that cannot reach it. Its waiters
// stand in the line all the same, but nobody can be granted a lock without
// hearing of it: they look by themselves, in short intervals, and are passed
// over by a hand-over meanwhile. That is slower, costs requests and keeps no
// order between them; it is what is left.
type deafness struct {
	until atomic.Int64 // no subscription is tried before; 0: it can be had
	mute  atomic.Bool  // this client cannot push, so others like it will not either
	told  atomic.Bool
}

// now reports that a subscription cannot be had, as was seen a short time ago.
func (d *deafness) now(at time.Duration) bool { return d.until.Load() > int64(at) }

// isDeaf reports that no push can be relied on.
func (c *Client) isDeaf() bool { return c.deaf.mute.Load() || c.deaf.now(c.now()) }

// tellDeaf says once in the life of a client that it waits by looking.
func (c *Client) tellDeaf(s *spec, why error) {
	if c.deaf.told.Swap(true) {
		return
	}
	c.log.Warn("holdfast: grants cannot be pushed; waiters look by themselves, which is slower and keeps no order",
		"error", why, "hint", Hint(why))
	c.observe(Event{Kind: EventPushUnavailable, Name: s.name, Err: why})
}

// join subscribes and asks for a place in the line. Where a subscription is
// refused, or the server answers anything but that, it joins all the same. If
// it answers without a waiter, nothing was asked, or nothing is to be heard.
func (at *attempt) join(ctx context.Context) (wire.Answer, error) {
	c, s, number := at.c, at.spec, at.number
	w, silent := c.hub.Subscribe(ctx, s.channel, number)
	silent = inTime(ctx, silent)
	refused := silent != nil && definite(silent) && !passing(silent)
	switch {
	case silent == nil:
		c.deaf.until.Store(0)
	case ended(ctx) != nil:
		return wire.Answer{}, ended(ctx)
	case c.life.IsClosing():
		return wire.Answer{}, ErrClosed
	}
	if w == nil {
		w = c.hub.Unsubscribed(number)
	}
	at.w, at.deaf = w, silent != nil || c.isDeaf()
	a, err := at.ask(ctx, script.Acquire)
	switch {
	case refused, silent != nil && err == nil:
		c.deaf.until.Store(int64(c.now() + listenAgain))
		c.tellDeaf(s, silent)
	case silent != nil:
		// Neither: the server is away. What comes next begins from the start.
		c.hub.Forget(at.w)
		at.w, at.deaf = nil, false
		err = fmt.Errorf("%w; before that, the subscription: %w", err, silent)
	}
	return a, err
}

// permitted asks, once, whether the server's user may run what the actions are
// made of: a command that is refused in the middle of an action would leave its
// first writes behind. Every refusal but that one is left to the action itself.
func (c *Client) permitted(ctx context.Context, s *spec) error {
	if c.allowed.Load() {
		return nil
	}
	answer, err := c.run(ctx, script.Permit, s.keys(), []string{s.channel})
	if err != nil {
		if refusal(err) != nil && !lacksPermission(err) {
			return nil
		}
		return unsent(err) // it changes nothing
	}
	var needed, pushing []string
	for _, command := range wire.ParseMissing(answer) {
		switch command {
		case "publish", "spublish", "pubsub|numsub", "pubsub|shardnumsub":
			pushing = append(pushing, command)
		default:
			needed = append(needed, command)
		}
	}
	if len(pushing) > 0 {
		c.deaf.mute.Store(true)
		c.tellDeaf(s, c.lacking(pushing))
	}
	if len(needed) > 0 {
		return c.lacking(needed)
	}
	c.allowed.Store(true)
	return nil
}
