// notifier: how events reach the program.

package holdfast

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// notifier reports news in a separate goroutine, which ends when there are none. The
// handlers are the user's code, and may be slow or block for ever. The code that ends
// contexts and sends renewals must not wait for them. Events of a user's call are reported
// in that call. If earlier news of the same hold are still in the queue, they go to the end
// of the queue. So the events of a lease keep their order.
//
// For example, a push grants a lock, and the renewer confirms it before the call of Lock has reported the
// grant. The renewal is news of a hold whose grant the observer has not got. So it is kept with the hold
// (addEarly), until the goroutine of Lock has reported the grant (tellGrant), and goes to the queue then.
// If that goroutine releases the lock at once, the renewal is still in the queue. So the release does not
// go to the observer directly, but behind the renewal (tellNow).
type notifier struct {
	observer observe.Observer // nil: there is none
	leases   atomic.Uint64    // numbers the leases
	log      *slog.Logger     // nil: there is none

	mu      lockorder.Mutex[notifier]
	queue   []news
	done    chan struct{} // closed when everything is reported; nil: no goroutine reports
	dropped int           // since the last call of a handler
}

// reported says whether the observer has the grant of a hold, or of one of its leases. The
// notifier's mutex guards it.
type reported bool

const (
	// mostRenewals and mostNews bound the queue while a handler blocks.
	mostRenewals = 1 << 10
	mostNews     = 1 << 17
	// deliverLimit is how long Close waits for a handler.
	deliverLimit = time.Second
)

// news is a report about a hold, for the log handler or the observer.
type news struct {
	hold  *hold         // nil: about the client
	lease *leaseState   // the lease; nil: the whole hold
	event observe.Event // for the observer; none if Kind is zero
	log   func(log *slog.Logger)
}

// subject returns what the news are about. It returns nil for the client.
func (item news) subject() *reported {
	switch {
	case item.lease != nil:
		return &item.lease.grantDelivered
	case item.hold != nil:
		return &item.hold.grantDelivered
	}
	return nil
}

// observed reports whether there is an observer. Without one, events are not even created.
func (n *notifier) observed() bool { return n.observer != nil }

// observe gives an event to the observer.
func (n *notifier) observe(e observe.Event) {
	if n.observer != nil {
		defer panics.Ignore("Observe")
		n.observer.Observe(e)
	}
}

// warn writes to the log.
func (n *notifier) warn(f func(log *slog.Logger)) {
	if n.log != nil {
		defer panics.Ignore("the handler of Config.Logger")
		f(n.log)
	}
}

// tell adds news to the queue and returns at once.
func (n *notifier) tell(item news) {
	if !n.observed() {
		item.event = observe.Event{}
	}
	if item.event.Kind == 0 && (item.log == nil || n.log == nil) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	// A renewal that was under way may end after the release.
	if item.event.Kind == observe.EventRenew && !item.hold.lock.client.renewer.Has(&item.hold.Item) {
		return
	}
	n.enqueue(item)
}

// enqueue adds news to the queue. The caller holds n.mu.
func (n *notifier) enqueue(item news) {
	if known := item.subject(); known != nil && !bool(*known) && item.event.Kind != 0 {
		item.hold.addEarly(item)
		return
	}
	most := mostNews
	if item.event.Kind == observe.EventRenew {
		most = mostRenewals
	}
	if len(n.queue) >= most {
		n.dropped++
		return
	}
	if item.hold != nil {
		item.hold.undelivered++
	}
	n.queue = append(n.queue, item)
	if n.done == nil {
		n.done = make(chan struct{})
		go func(done chan struct{}) {
			eventsLabel.Set()
			n.tellAll(done)
		}(n.done)
	}
}

// tellAll reports until the queue is empty.
func (n *notifier) tellAll(done chan struct{}) {
	defer close(done)
	for {
		n.mu.Lock()
		if len(n.queue) == 0 && n.dropped == 0 {
			n.queue, n.done = nil, nil
			n.mu.Unlock()
			return
		}
		batch, dropped := n.queue, n.dropped
		n.queue, n.dropped = nil, 0
		n.mu.Unlock()
		for _, item := range batch {
			if item.log != nil {
				n.warn(item.log)
			}
			if item.event.Kind != 0 {
				n.observe(item.event)
			}
			if item.hold != nil {
				n.mu.Lock()
				item.hold.undelivered--
				n.mu.Unlock()
			}
		}
		if dropped > 0 {
			n.warn(func(log *slog.Logger) {
				log.Warn("holdfast: the log handler or the observer was too slow: some events were dropped",
					"dropped", dropped)
			})
		}
	}
}

// tellNow reports an event of a hold that happened in a user's call.
func (n *notifier) tellNow(h *hold, e observe.Event) {
	if !n.observed() {
		return
	}
	n.mu.Lock()
	if h.undelivered > 0 {
		n.enqueue(news{hold: h, event: e})
		n.mu.Unlock()
		return
	}
	n.mu.Unlock()
	n.observe(e)
}

// tellGrant reports that the lease has begun, before any other event of it.
func (n *notifier) tellGrant(ls *leaseState, e observe.Event) {
	if !n.observed() {
		return
	}
	h := ls.hold
	e.Kind, e.Context, e.Name, e.Mode = observe.EventGrant, ls.parent, h.lock.name, h.lock.mode()
	e.HolderID, e.Lease, e.Token = h.attemptID(), ls.number, ls.token.Load()
	e.Local, e.Waiters = ls.local, int(h.waiting.Load())
	n.tellNow(h, e)
	n.mu.Lock()
	defer n.mu.Unlock()
	h.grantDelivered, ls.grantDelivered = true, true
	for _, item := range h.takeEarly() { // those of other leases may be early again
		n.enqueue(item)
	}
}

// deliverRest waits until everything is reported, at most for deliverLimit.
func (n *notifier) deliverRest() {
	late := time.NewTimer(deliverLimit)
	defer late.Stop()
	for {
		n.mu.Lock()
		done := n.done
		n.mu.Unlock()
		if done == nil {
			return
		}
		select {
		case <-done:
		case <-late.C:
			return
		}
	}
}

// call is what an observed acquisition knows of itself. Its goroutine alone uses it.
type call struct {
	ctx    context.Context // the caller's
	start  time.Duration
	waited bool // an observe.EventWait is reported
}

type callKey struct{}

// begin notes that an observed acquisition begins. The call comes with ctx to where the
// acquisition reports events. parent is the caller's context.
func (n *notifier) begin(ctx, parent context.Context, now time.Duration) (context.Context, *call) {
	cl := &call{ctx: parent, start: now}
	return context.WithValue(ctx, callKey{}, cl), cl
}

// reportEvent reports an event of an acquisition that is under way. ctx comes from begin, unless
// there is no observer.
func (lk *lock) reportEvent(ctx context.Context, e observe.Event) {
	n := &lk.client.events
	if !n.observed() {
		return
	}
	e.Name, e.Mode = lk.name, lk.mode()
	if cl, ok := ctx.Value(callKey{}).(*call); ok {
		e.Context, e.Waited = cl.ctx, cl.waited
		cl.waited = cl.waited || e.Kind == observe.EventWait
	}
	n.observe(e)
}

// reportFailure reports an acquisition that ended without a lease.
func (lk *lock) reportFailure(cl *call, err error) {
	lk.client.events.observe(observe.Event{
		Kind: observe.EventFail, Context: cl.ctx, Name: lk.name, Mode: lk.mode(), Waited: cl.waited,
		Wait: lk.client.now() - cl.start, Err: err,
	})
}

// timedStore reports the requests to a store.
type timedStore struct {
	store.Store
	observer observe.RequestObserver
	now      func() time.Duration
}

// observedStore returns the store through which the client sends its requests.
func (c *Client) observedStore() store.Store {
	if o, ok := c.cfg.Observer.(observe.RequestObserver); ok {
		return &timedStore{c.store, o, c.now}
	}
	return c.store
}

// Run implements [store.Store].
func (s *timedStore) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	start := s.now()
	answer, err := s.Store.Run(ctx, action, keys, args)
	s.observe(ctx, action, start, err)
	return answer, err
}

// observe reports a request that has ended.
func (s *timedStore) observe(ctx context.Context, action *script.Script, start time.Duration, err error) {
	defer panics.Ignore("ObserveRequest")
	took := s.now() - start
	s.observer.ObserveRequest(observe.Request{Context: ctx, Script: action.Name, Took: took, Err: err})
}

// RunAcked implements [store.Acker]. Options that need it are refused if the store cannot.
func (s *timedStore) RunAcked(
	ctx context.Context, action *script.Script, keys, args []string, need store.Acks, limit time.Duration,
) (string, store.Acks, error) {
	start := s.now()
	acker, _ := store.As[store.Acker](s.Store)
	answer, got, err := acker.RunAcked(ctx, action, keys, args, need, limit)
	s.observe(ctx, action, start, err)
	return answer, got, err
}

// Unwrap implements [store.Wrapper].
func (s *timedStore) Unwrap() store.Store { return s.Store }

// The labels of a client's goroutines in the background, for profiles.
var (
	eventsLabel        = label.New("events")
	observeLabel       = label.New("election")
	evictionCheckLabel = label.New("eviction check")
	releaseLabel       = label.New("release")
)
