package holdfast

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// subscribeAgain is after what time a client that may not subscribe tries it again:
// permissions and proxies change while programs run.
const subscribeAgain = time.Minute

// subscribeSoon is after what time it tries again when nothing was answered.
var subscribeSoon = backoff.Exponential{First: time.Second, Longest: subscribeAgain}

// subscribing is how long the making of a subscription may take. A waiter does not
// wait for it longer than for a request. It polls meanwhile.
const subscribing = 5 * time.Second

// pushState is what a client knows of its subscriptions. A waiter without one is in
// the wait queue like any other, but a release passes over it: nobody is granted a lock
// who cannot be told. It polls at short intervals instead, which costs requests and keeps no
// order. While others are subscribed and keep the queue filled, it finds the lock free
// only by luck. So each such waiter makes the client try to subscribe again.
type pushState struct {
	until  atomic.Int64 // no subscription is tried before; 0: it can be had
	failed atomic.Int64 // tries that were not answered, in a row
	mute   atomic.Bool  // this client may not publish, so others like it may not either
	told   atomic.Bool
}

// refused reports that a try to subscribe failed a short time ago.
func (p *pushState) refused(at time.Duration) bool { return p.until.Load() > int64(at) }

// learn takes in how a try to subscribe ended, while the server answered others.
func (p *pushState) learn(at time.Duration, refused bool, spread float64) {
	pause := subscribeAgain
	if !refused {
		pause = subscribeSoon.After(int(p.failed.Add(1)-1), spread)
	}
	p.until.Store(int64(at + pause))
}

// stands is told that there is a subscription.
func (p *pushState) stands() {
	p.until.Store(0)
	p.failed.Store(0)
}

// due reports whether it is time to try again. Of several callers at once, one is told so.
func (p *pushState) due(at time.Duration) bool {
	until := p.until.Load()
	return until <= int64(at) && p.until.CompareAndSwap(until, int64(at+subscribing))
}

// pushUnavailable reports that no push can be relied on.
func (at *attempt) pushUnavailable() bool {
	return at.c.pushing.mute.Load() || !at.c.hub.Reaches(at.w)
}

// subscribeAgain tries to subscribe, in the background, when it is time. The hub tells
// all who wait for it.
func (at *attempt) subscribeAgain() {
	c, s := at.c, at.lock
	if c.hub.Reaches(at.w) || !c.pushing.due(c.now()) {
		return
	}
	c.hub.Prepare(s.channel, func(err error) {
		if err == nil {
			c.pushing.stands()
			return
		}
		err = request.InTime(context.Background(), err)
		c.pushing.learn(c.now(), request.Definite(err) && !request.Transient(err), c.chance())
		s.reportPushUnavailable(err)
	})
}

// reportPushUnavailable says once in the life of a client that it waits by looking.
func (s *lock) reportPushUnavailable(why error) {
	c := s.client
	if c.pushing.told.Swap(true) {
		return
	}
	c.log.Warn("holdfast: grants cannot be pushed; waiters look by themselves, which is slower and keeps no order",
		"error", why, "hint", Hint(why))
	c.events.observe(Event{Kind: EventPushUnavailable, Name: s.name, Err: why})
}

// join subscribes and asks for a place in the line. Where a subscription is
// refused, or the server answers anything but that, it joins all the same. If
// it answers without a waiter, nothing was asked, or nothing is to be heard.
func (at *attempt) join(ctx context.Context) (wire.Answer, error) {
	c, s, number := at.c, at.lock, at.number
	brief, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	w, silent := c.hub.Subscribe(brief, s.channel, number)
	cancel()
	silent = request.InTime(ctx, silent)
	refused := silent != nil && request.Definite(silent) && !request.Transient(silent)
	switch {
	case silent == nil:
		c.pushing.stands()
	case request.Ended(ctx) != nil:
		return wire.Answer{}, request.Ended(ctx)
	case c.life.IsClosing():
		return wire.Answer{}, ErrClosed
	}
	if w == nil {
		w = c.hub.Unsubscribed(s.channel, number)
	}
	at.w = w
	a, err := at.ask(ctx, script.Acquire)
	switch {
	case refused:
		c.pushing.learn(c.now(), refused, c.chance())
		s.reportPushUnavailable(silent)
	case silent != nil && err == nil:
		at.subscribeAgain()
	case silent != nil:
		// Neither: the server is away. What comes next begins from the start.
		c.hub.Forget(at.w)
		at.w = nil
		err = fmt.Errorf("%w; before that, the subscription: %w", err, silent)
	}
	return a, err
}

// prepare makes sure, once, that the server can run the scripts and its user may, and
// that it can wait for the acknowledgements that the lock is taken with.
func (s *lock) prepare(ctx context.Context) error {
	c := s.client
	noPushes, err := c.preflight.Check(ctx, s.ack, s.keys(), s.channel)
	if noPushes != nil {
		c.pushing.mute.Store(true)
		s.reportPushUnavailable(noPushes)
	}
	return err
}
