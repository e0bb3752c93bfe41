// Events, and how the observer and the log learn of them.

package holdfast

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Observer receives events of locks and leases. It must not call the client.
//
// The events of one call are reported in that call, and several calls may report at the same
// time. If the observer is slow, it delays the call. Renewals, losses and leaks are reported in
// a separate goroutine. A slow observer delays no lease. If it blocks for long, some of these
// events are dropped. The events of one lease come in order.
type Observer interface {
	Observe(Event)
}

// RequestObserver is an [Observer] that also receives every request to the server. A client
// calls ObserveRequest if its [Config.Observer] implements it.
//
// ObserveRequest is called when a request has ended, in the goroutine that sent it. Requests
// of the background are reported too. A slow ObserveRequest delays what waits for the
// request, renewals included.
type RequestObserver interface {
	Observer
	ObserveRequest(Request)
}

// Request is one request to the server: one call of a script.
type Request struct {
	Context context.Context // of the request: it has the values of the caller's context, if a call sent it
	Script  string          // the name of the script, see docs/protocol.md
	Took    time.Duration   // until the answer or the failure
	Err     error           // nil if the server answered; a refusal is a *ServerError
}

// EventKind says what happened.
type EventKind uint8

// The events. Every acquisition has a Grant or a Fail. There is neither if the call is
// refused before its first request ([ErrInvalid], [ErrDeadlock], [ErrClosed], or a context
// that has ended). Every try of [Tries] is an acquisition. After each Grant comes one
// Release, Lost or Leak. Close also reports a Release, with the Err ErrClosed after
// Abandon.
const (
	EventWait            EventKind = iota + 1 // an acquisition began to wait; Position, Waited
	EventWake                                 // a waiter was woken; Wake
	EventGrant                                // a lease began; Lease, Token, Wait, Wake, Waited, Local
	EventFail                                 // an acquisition ended without a lease; Wait, Waited, Err
	EventRenew                                // a renewal was confirmed (Lag, Remaining, TTL, Waiters) or failed (Err)
	EventLost                                 // a lease was lost; Lease, Held, Err
	EventRelease                              // a lease was released; Lease, Held, Local, Err
	EventLeak                                 // a lease was garbage collected without a release; Lease, Held
	EventPushUnavailable                      // grants cannot be pushed: from now on waiters poll; Err
	EventAway                                 // the server cannot serve an acquisition, which keeps trying; Err
	EventDeadlock                             // an acquisition waits in a deadlock; Wait, Err (a *DeadlockError)
)

var eventNames = [...]string{"", "wait", "wake", "grant", "fail", "renew", "lost", "release", "leak",
	"push-unavailable", "away", "deadlock"}

func (k EventKind) String() string { return eventNames[k] }

// Wake says what woke a waiter.
type Wake uint8

// The causes of waking up.
const (
	WakeNone   Wake = iota // the call did not wait
	WakePush               // the grant was pushed
	WakePoll               // the waiter's poll was due
	WakeResume             // the subscription was restored after a break
	WakeLocal              // a goroutine of this process handed over the lock or its turn
)

var wakeNames = [...]string{"none", "push", "poll", "resume", "local"}

func (w Wake) String() string { return wakeNames[w] }

// Event is one event. Fields that do not apply are zero.
//
// Context is the context of the call that acquires or acquired the lock, for its values: a
// trace, for example. It may have ended. It is nil in events that belong to no single call,
// such as a renewal. A wait that has several parts reports EventWait for each. Waited is false
// in the first of them.
type Event struct {
	Kind     EventKind
	Context  context.Context
	Name     string        // the lock's name
	Mode     string        // how the lock is held: "exclusive", "shared" or "permits"
	HolderID string        // the attempt
	Lease    uint64        // numbers the leases of a client: the same in a Grant and in its one end
	Token    uint64        // the lease's fencing token
	Position int           // the position in the wait queue, an upper bound; 0: the wait has none
	Waiters  int           // how many wait at the server
	Wake     Wake          // what woke the waiter, or brought the grant
	Waited   bool          // the acquisition has reported an EventWait before
	Local    bool          // handed over inside the process, without a request
	Wait     time.Duration // from the call to the grant or the failure
	Held     time.Duration // from the grant to the end
	Lag      time.Duration // how long after its due time a renewal was sent
	Err      error

	// Remaining is how long the lease would have lasted without the renewal, until its trust
	// deadline. TTL is the TTL that the renewal asked for. Both are zero for the renewal
	// that confirms a pushed grant, and for one that failed.
	Remaining, TTL time.Duration
}

// observed reports whether there is an observer. Without one, events are not even created.
func (n *notifier) observed() bool { return n.observer != nil }

func (n *notifier) observe(e Event) {
	if n.observer != nil {
		n.observer.Observe(e)
	}
}

// call is what an observed acquisition knows of itself. Its goroutine alone uses it.
type call struct {
	ctx    context.Context // the caller's
	start  time.Duration
	waited bool // an EventWait is reported
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
func (lk *lock) reportEvent(ctx context.Context, e Event) {
	n := &lk.client.events
	if !n.observed() {
		return
	}
	e.Name, e.Mode = lk.name, lk.mode()
	if cl, ok := ctx.Value(callKey{}).(*call); ok {
		e.Context, e.Waited = cl.ctx, cl.waited
		cl.waited = cl.waited || e.Kind == EventWait
	}
	n.observe(e)
}

// reportFailure reports an acquisition that ended without a lease.
func (lk *lock) reportFailure(cl *call, err error) {
	lk.client.events.observe(Event{
		Kind: EventFail, Context: cl.ctx, Name: lk.name, Mode: lk.mode(), Waited: cl.waited,
		Wait: lk.client.now() - cl.start, Err: err,
	})
}

// timedStore reports the requests to a store.
type timedStore struct {
	store.Store
	observer RequestObserver
	now      func() time.Duration
}

// timed returns the store through which the client sends its requests.
func timed(c *Client) store.Store {
	if o, ok := c.cfg.Observer.(RequestObserver); ok {
		return &timedStore{c.store, o, c.now}
	}
	return c.store
}

// Run implements [store.Store].
func (s *timedStore) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	start := s.now()
	answer, err := s.Store.Run(ctx, action, keys, args)
	s.observer.ObserveRequest(Request{Context: ctx, Script: action.Name, Took: s.now() - start, Err: err})
	return answer, err
}

// RunAcked implements [store.Acker]. Options that need it are refused if the store cannot.
func (s *timedStore) RunAcked(
	ctx context.Context, action *script.Script, keys, args []string, need store.Acks, limit time.Duration,
) (string, store.Acks, error) {
	start := s.now()
	acker, _ := store.As[store.Acker](s.Store)
	answer, got, err := acker.RunAcked(ctx, action, keys, args, need, limit)
	s.observer.ObserveRequest(Request{Context: ctx, Script: action.Name, Took: s.now() - start, Err: err})
	return answer, got, err
}

// Unwrap implements [store.Wrapper].
func (s *timedStore) Unwrap() store.Store { return s.Store }

// news is a report about a hold, for the log handler or the observer.
type news struct {
	hold  *hold       // nil: about the client
	lease *leaseState // the lease; nil: the whole hold
	event Event       // for the observer; none if Kind is zero
	log   func(log *slog.Logger)
}

// notifier reports news in a separate goroutine, which ends when there are none. The
// handlers are the user's code, and may be slow or block for ever. The code that ends
// contexts and sends renewals must not wait for them. Events of a user's call are reported
// in that call. If earlier news of the same hold are still in the queue, they go to the end
// of the queue. So the events of a lease keep their order.
type notifier struct {
	observer Observer      // nil: there is none
	leases   atomic.Uint64 // numbers the leases
	log      *slog.Logger
	logs     bool // there is a logger

	mu      sync.Mutex
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
	// lastWords is how long Close waits for a handler.
	lastWords = time.Second
)

// tell adds news to the queue and returns at once.
func (n *notifier) tell(item news) {
	if !n.observed() {
		item.event = Event{}
	}
	if item.event.Kind == 0 && (item.log == nil || !n.logs) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	// A renewal that was under way may end after the release.
	if item.event.Kind == EventRenew && !item.hold.lock.client.renewer.Has(&item.hold.Item) {
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
	if item.event.Kind == EventRenew {
		most = mostRenewals
	}
	if len(n.queue) >= most {
		n.dropped++
		return
	}
	if item.hold != nil {
		item.hold.untold++
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

// subject returns what the news are about. It returns nil for the client.
func (item news) subject() *reported {
	switch {
	case item.lease != nil:
		return &item.lease.grantTold
	case item.hold != nil:
		return &item.hold.grantTold
	}
	return nil
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
			if item.log != nil && n.logs {
				item.log(n.log)
			}
			if item.event.Kind != 0 {
				n.observe(item.event)
			}
			if item.hold != nil {
				n.mu.Lock()
				item.hold.untold--
				n.mu.Unlock()
			}
		}
		if dropped > 0 {
			n.log.Warn("holdfast: the log handler or the observer was too slow: some events were dropped",
				"dropped", dropped)
		}
	}
}

// tellNow reports an event of a hold that happened in a user's call.
func (n *notifier) tellNow(h *hold, e Event) {
	if !n.observed() {
		return
	}
	n.mu.Lock()
	if h.untold > 0 {
		n.enqueue(news{hold: h, event: e})
		n.mu.Unlock()
		return
	}
	n.mu.Unlock()
	n.observe(e)
}

// tellGrant reports that the lease has begun, before any other event of it.
func (n *notifier) tellGrant(ls *leaseState, e Event) {
	if !n.observed() {
		return
	}
	h := ls.hold
	e.Kind, e.Context, e.Name, e.Mode = EventGrant, ls.parent, h.lock.name, h.lock.mode()
	e.HolderID, e.Lease, e.Token = attemptOf(h), ls.number, ls.token.Load()
	e.Local, e.Waiters = ls.local, int(h.waiting.Load())
	n.tellNow(h, e)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, known := range []*reported{&h.grantTold, &ls.grantTold} {
		*known = true
	}
	for _, item := range h.takeEarly() { // those of other leases may be early again
		n.enqueue(item)
	}
}

// lastNews waits until everything is reported, at most for lastWords.
func (n *notifier) lastNews() {
	late := time.NewTimer(lastWords)
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

// The labels of a client's goroutines in the background, for profiles.
var (
	eventsLabel        = label.New("events")
	observeLabel       = label.New("election")
	evictionCheckLabel = label.New("eviction check")
	releaseLabel       = label.New("release")
)
