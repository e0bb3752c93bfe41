// Events, and how the observer and the log learn of them.

package holdfast

import (
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// Observer receives events of locks and leases. It must not call the client.
//
// The events of one call are reported in that call, and several calls may report at a time.
// If the observer is slow, it delays the call. Renewals, losses and leaks are reported in a
// separate goroutine. A slow observer delays no lease. If it blocks for long, some of these
// events are dropped. The events of one lease come in order.
type Observer interface {
	Observe(Event)
}

// EventKind says what happened.
type EventKind uint8

// The events. Every acquisition has a Grant or a Fail. There is neither if the call is
// refused before its first request ([ErrInvalid], [ErrDeadlock], [ErrClosed], or a context
// that has ended). Every try of [Tries] is an acquisition. After each Grant comes one
// Release, Lost or Leak. Close also reports a Release, with the Err ErrClosed after
// Abandon.
const (
	EventWait            EventKind = iota + 1 // an acquisition began to wait; Position
	EventWake                                 // a waiter was woken; Wake
	EventGrant                                // a lease began; Token, Wait, Wake, Local
	EventFail                                 // an acquisition ended without a lease; Wait, Err
	EventRenew                                // a renewal was confirmed (Lag, Waiters) or failed (Err)
	EventLost                                 // a lease was lost; Held, Err
	EventRelease                              // a lease was released; Held, Local, Err
	EventLeak                                 // a lease was garbage collected without a release; Held
	EventPushUnavailable                      // grants cannot be pushed: from now on waiters poll; Err
	EventAway                                 // the server cannot serve an acquisition, which keeps trying; Err
)

var eventNames = [...]string{"", "wait", "wake", "grant", "fail", "renew", "lost", "release", "leak",
	"push-unavailable", "away"}

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
type Event struct {
	Kind     EventKind
	Name     string        // the lock's name
	HolderID string        // the attempt
	Token    uint64        // the lease's fencing token
	Position int           // the position in the wait queue, an upper bound
	Waiters  int           // how many wait at the server
	Wake     Wake          // what woke the waiter, or brought the grant
	Local    bool          // handed over inside the process, without a request
	Wait     time.Duration // from the call to the grant or the failure
	Held     time.Duration // from the grant to the end
	Lag      time.Duration // how long after its due time a renewal was sent
	Err      error
}

// observed reports whether there is an observer. Without one, events are not even created.
func (q *notifier) observed() bool { return q.observer != nil }

func (q *notifier) observe(e Event) {
	if q.observer != nil {
		q.observer.Observe(e)
	}
}

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
	observer Observer // nil: there is none
	log      *slog.Logger
	logs     bool // there is a logger

	mu      sync.Mutex
	queue   []news
	done    chan struct{} // closed when everything is reported; nil: no goroutine reports
	dropped int           // since the last call of a handler
}

// reported is what the notifier knows about a hold, or about one of its leases. The
// notifier's mutex guards it.
type reported struct {
	granted bool    // the observer has its grant; earlier news wait in early
	early   *[]news // nil until it is needed
	untold  int32   // news of a hold that are in the queue
}

const (
	// mostRenewals and mostNews bound the queue while a handler blocks.
	mostRenewals = 1 << 10
	mostNews     = 1 << 17
	// lastWords is how long Close waits for a handler.
	lastWords = time.Second
)

// tell adds news to the queue and returns at once.
func (q *notifier) tell(n news) {
	if !q.observed() {
		n.event = Event{}
	}
	if n.event.Kind == 0 && (n.log == nil || !q.logs) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// A renewal that was under way may end after the release.
	if n.event.Kind == EventRenew && !n.hold.lock.client.renewer.Has(&n.hold.Item) {
		return
	}
	q.enqueue(n)
}

// enqueue adds news to the queue. The caller holds q.mu.
func (q *notifier) enqueue(n news) {
	if known := n.subject(); known != nil && !known.granted && n.event.Kind != 0 {
		if known.early == nil {
			known.early = new([]news)
		}
		*known.early = append(*known.early, n)
		return
	}
	most := mostNews
	if n.event.Kind == EventRenew {
		most = mostRenewals
	}
	if len(q.queue) >= most {
		q.dropped++
		return
	}
	if n.hold != nil {
		n.hold.reported.untold++
	}
	q.queue = append(q.queue, n)
	if q.done == nil {
		q.done = make(chan struct{})
		go q.tellAll(q.done)
	}
}

// subject returns what the news are about. It returns nil for the client.
func (n news) subject() *reported {
	switch {
	case n.lease != nil:
		return &n.lease.reported
	case n.hold != nil:
		return &n.hold.reported
	}
	return nil
}

// tellAll reports until the queue is empty.
func (q *notifier) tellAll(done chan struct{}) {
	defer close(done)
	for {
		q.mu.Lock()
		if len(q.queue) == 0 && q.dropped == 0 {
			q.queue, q.done = nil, nil
			q.mu.Unlock()
			return
		}
		batch, dropped := q.queue, q.dropped
		q.queue, q.dropped = nil, 0
		q.mu.Unlock()
		for _, n := range batch {
			if n.log != nil && q.logs {
				n.log(q.log)
			}
			if n.event.Kind != 0 {
				q.observe(n.event)
			}
			if n.hold != nil {
				q.mu.Lock()
				n.hold.reported.untold--
				q.mu.Unlock()
			}
		}
		if dropped > 0 {
			q.log.Warn("holdfast: the log handler or the observer was too slow: it has not been told everything",
				"dropped", dropped)
		}
	}
}

// tellNow reports an event of a hold that happened in a user's call.
func (q *notifier) tellNow(h *hold, e Event) {
	if !q.observed() {
		return
	}
	q.mu.Lock()
	if h.reported.untold > 0 {
		q.enqueue(news{hold: h, event: e})
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	q.observe(e)
}

// tellGrant reports that the lease has begun, before any other event of it.
func (q *notifier) tellGrant(t *leaseState, e Event) {
	if !q.observed() {
		return
	}
	h := t.hold
	e.Kind, e.Name, e.HolderID, e.Token = EventGrant, h.lock.name, h.attempt, t.token.Load()
	e.Local, e.Waiters = t.local, int(h.waiting.Load())
	q.tellNow(h, e)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, known := range []*reported{&h.reported, &t.reported} {
		known.granted = true
		if known.early != nil {
			early := *known.early
			known.early = nil
			for _, n := range early {
				q.enqueue(n)
			}
		}
	}
}

// lastNews waits until everything is reported, at most for lastWords.
func (q *notifier) lastNews() {
	late := time.NewTimer(lastWords)
	defer late.Stop()
	for {
		q.mu.Lock()
		done := q.done
		q.mu.Unlock()
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

// caller returns the caller of the lock method. above is the number of calls in between.
func caller(above int) uintptr {
	var pc [1]uintptr
	runtime.Callers(2+above, pc[:])
	return pc[0]
}

// location formats a program counter for people.
func location(pc uintptr) string {
	if pc == 0 {
		return "unknown"
	}
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	return frame.File + ":" + strconv.Itoa(frame.Line)
}
