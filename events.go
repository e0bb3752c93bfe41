// Events, and how the observer and the log are told of them.

package holdfast

import (
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// Observer is told what happens to locks and leases. What happens in a call of
// the client's user is told in that call, many at a time: a slow observer delays
// the call. Renewals, losses and leaks are told in a goroutine of their own: a slow
// observer delays no lease, and one that blocks for long is spared some of them. The
// events of one lease come in order. It must not call the client.
type Observer interface {
	Observe(Event)
}

// EventKind says what happened.
type EventKind uint8

// The events. Every acquisition shows a Grant or a Fail, unless it is refused
// before anything was asked for ([ErrInvalid], [ErrDeadlock], [ErrClosed], a
// context that has ended); every try of [Tries] is one. Every Grant is
// followed by one Release, Lost or Leak: a Release by Close too, with the Err
// ErrClosed if the client was abandoned.
const (
	EventWait            EventKind = iota + 1 // an acquisition began to wait; Place
	EventWake                                 // a waiter was woken; Wake
	EventGrant                                // a lease began; Token, Wait, Wake, Local
	EventFail                                 // an acquisition ended without a lease; Wait, Err
	EventRenew                                // a renewal was confirmed (Lag, Waiting) or failed (Err)
	EventLost                                 // a lease was lost; Held, Err
	EventRelease                              // a lease was released; Held, Local, Err
	EventLeak                                 // a lease was garbage collected unreleased; Held
	EventPushUnavailable                      // grants cannot be pushed: from now on waiters look by themselves; Err
	EventAway                                 // the server cannot serve an acquisition, which goes on trying; Err
)

var eventNames = [...]string{"", "wait", "wake", "grant", "fail", "renew", "lost", "release", "leak",
	"push-unavailable", "away"}

func (k EventKind) String() string { return eventNames[k] }

// Wake says what made a waiter look.
type Wake uint8

// The causes of waking up.
const (
	WakeNone   Wake = iota // it did not wait
	WakePush               // the grant was pushed
	WakePoll               // its timer ran out
	WakeResume             // the subscription stood again after a break
	WakeLocal              // a goroutine of this process passed the lock, or the turn to ask
)

var wakeNames = [...]string{"none", "push", "poll", "resume", "local"}

func (w Wake) String() string { return wakeNames[w] }

// Event is one thing that happened. Fields that do not apply are zero.
type Event struct {
	Kind     EventKind
	Name     string        // the lock's name
	HolderID string        // the attempt
	Token    uint64        // the lease's fencing token
	Position int           // in the line, an upper bound
	Waiters  int           // how many wait on the server
	Wake     Wake          // what woke the waiter, or brought the grant
	Local    bool          // passed inside the process, without the server
	Wait     time.Duration // from the call to the grant or the failure
	Held     time.Duration // from the grant to the end
	Lag      time.Duration // how late after its due time a renewal went out
	Err      error
}

// observed reports whether anybody wants events: they are not even made if not.
func (q *notifier) observed() bool { return q.observer != nil }

func (q *notifier) observe(e Event) {
	if q.observer != nil {
		q.observer.Observe(e)
	}
}

// news is what the log handler or the observer is told of a hold.
type news struct {
	hold  *hold       // nil: of the client
	lease *leaseState // the lease that it is about; nil: the whole hold
	event Event       // for the observer; none without a Kind
	log   func(log *slog.Logger)
}

// notifier tells news in a goroutine of its own, which ends when there are none. The
// handlers are the user's, and may be slow or block for ever: what ends contexts
// and sends renewals must not wait for them. What happens in a call of the user's
// is told in that call, unless news of the same hold are still untold: then it
// stands behind them. So the events of a lease keep their order.
type notifier struct {
	observer Observer // nil: nobody
	log      *slog.Logger
	logs     bool // somebody reads the log

	mu      sync.Mutex
	queue   []news
	done    chan struct{} // closed when all is told; nil: nobody tells
	dropped int           // since the handlers were last reached
}

// reported is what the notifier knows of a hold, and of each of its leases. Its mutex
// guards it.
type reported struct {
	granted bool    // the observer knows of it; what comes before is kept in early
	early   *[]news // nil until there is something in it
	untold  int32   // news of a hold that are in the queue
}

const (
	// mostRenewals and mostNews bound the queue of a handler that blocks.
	mostRenewals = 1 << 10
	mostNews     = 1 << 17
	// lastWords is how long Close waits for a handler.
	lastWords = time.Second
)

// tell queues news. Nobody waits for it.
func (q *notifier) tell(n news) {
	if !q.observed() {
		n.event = Event{}
	}
	if n.event.Kind == 0 && (n.log == nil || !q.logs) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// A renewal that was under way may be known after the release.
	if n.event.Kind == EventRenew && !n.hold.lock.client.renewer.Has(&n.hold.Item) {
		return
	}
	q.enqueue(n)
}

// enqueue queues news; q.mu is held.
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

// subject is what the news are about; nil: the client.
func (n news) subject() *reported {
	switch {
	case n.lease != nil:
		return &n.lease.reported
	case n.hold != nil:
		return &n.hold.reported
	}
	return nil
}

// tellAll tells until nothing is left to tell.
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

// tellNow tells of something that happened to a hold in a call of the user's.
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

// tellGrant tells that the lease has begun, before anything else of it is told.
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

// lastNews waits until everything is told, but not for a handler that blocks.
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

// caller is the function that called the lock method which is so many calls above.
func caller(above int) uintptr {
	var pc [1]uintptr
	runtime.Callers(2+above, pc[:])
	return pc[0]
}

// location writes a program counter for people.
func location(pc uintptr) string {
	if pc == 0 {
		return "unknown"
	}
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	return frame.File + ":" + strconv.Itoa(frame.Line)
}
