// pushState: what a client knows of its subscriptions.

package holdfast

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/observe"
)

// refusedPause is the pause after a refused subscription. Permissions and proxies can
// change while a program runs.
const refusedPause = time.Minute

// silentPause gives the pauses after tries without an answer.
var silentPause = backoff.Exponential{First: time.Second, Longest: refusedPause}

// subscribeLimit is how long a subscription may take. A waiter waits for it only as long as
// for a request. After that it polls.
const subscribeLimit = 5 * time.Second

// pushState is what a client knows about its subscriptions. A waiter without a subscription
// is in the wait queue, but a release skips it: the server grants a lock only to a
// client that it can tell. Such a waiter polls at short intervals, which costs requests and
// keeps no order. If subscribed waiters keep the queue full, it finds the lock free only by
// luck. So each such waiter makes the client try to subscribe again.
type pushState struct {
	until  atomic.Int64 // no try to subscribe before this time; 0: a subscription is possible
	failed atomic.Int64 // tries in a row without an answer
	mute   atomic.Bool  // this client may not publish, so clients of the same user may not either
	told   atomic.Bool

	// listenAt is when a renewal next makes the client subscribe.
	listenAt atomic.Int64
}

// refused reports whether a try to subscribe failed a short time ago.
func (p *pushState) refused(at time.Duration) bool { return p.until.Load() > int64(at) }

// learn stores how a try to subscribe ended, while the server answered other requests.
func (p *pushState) learn(at time.Duration, refused bool, spread float64) {
	pause := refusedPause
	if !refused {
		pause = silentPause.After(int(p.failed.Add(1)-1), spread)
	}
	p.until.Store(int64(at + pause))
}

// subscribed stores that there is a subscription.
func (p *pushState) subscribed() {
	p.until.Store(0)
	p.failed.Store(0)
}

// due reports whether it is time to try again. If several goroutines call it at once, one
// gets true.
func (p *pushState) due(at time.Duration) bool {
	until := p.until.Load()
	return until <= int64(at) && p.until.CompareAndSwap(until, int64(at+subscribeLimit))
}

// pushUnavailable reports whether the attempt cannot rely on a push.
func (at *attempt) pushUnavailable() bool {
	return at.c.pushing.mute.Load() || !at.c.hub.Reaches(at.waiter)
}

// listenForEvictions makes the client's subscription, if it has none, because it has had a hold for so long that it
// was renewed. An operator may want such a hold back. So a short hold costs nothing, and the client one subscription
// in its life. In a Cluster each lock has a channel of its own, and a subscription for each hold would cost more than
// it is worth: there the next renewal tells. No push comes on another library's wire.
func (c *Client) listenForEvictions() {
	at := c.pushing.listenAt.Load()
	if c.sharded || c.handOverBits == 0 || at > int64(c.now()) {
		return
	}
	if !c.pushing.listenAt.CompareAndSwap(at, math.MaxInt64) {
		return // another renewal has begun
	}
	c.hub.Prepare(c.pushChannel, func(err error) {
		if err != nil {
			c.pushing.listenAt.Store(int64(c.now() + refusedPause))
		}
	})
}

// subscribeAgain tries to subscribe in the background, if it is time. The hub tells all
// waiters of that channel.
func (at *attempt) subscribeAgain() {
	c, lk := at.c, at.lock
	if c.hub.Reaches(at.waiter) || !c.pushing.due(c.now()) {
		return
	}
	c.hub.Prepare(lk.channel, func(err error) {
		if err == nil {
			c.pushing.subscribed()
			return
		}
		err = request.InTime(context.Background(), err)
		c.pushing.learn(c.now(), request.Definite(err) && !request.Transient(err), c.chance())
		lk.reportPushUnavailable(err)
	})
}

// reportPushUnavailable reports, once in a client's life, that its waiters poll.
func (lk *lock) reportPushUnavailable(why error) {
	c := lk.client
	if c.pushing.told.Swap(true) {
		return
	}
	c.events.warn(func(log *slog.Logger) {
		log.Warn("holdfast: grants cannot be pushed, so waiters poll, which is slower and does not keep their order",
			"error", why, "hint", Hint(why))
	})
	c.events.observe(observe.Event{Kind: observe.EventPushUnavailable, Name: lk.name, Mode: lk.mode(), Err: why})
}
