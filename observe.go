package holdfast

import "time"

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
func (c *Client) observed() bool { return c.cfg.Observer != nil }

func (c *Client) observe(e Event) {
	if c.cfg.Observer != nil {
		c.cfg.Observer.Observe(e)
	}
}
