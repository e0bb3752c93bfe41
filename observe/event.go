// Event: what happens to locks and leases.

package observe

import (
	"context"
	"time"
)

// EventKind says what happened.
type EventKind uint8

// The events. Every acquisition has a Grant or a Fail. There is neither if the call is
// refused before its first request (ErrInvalid, ErrDeadlock, ErrClosed, or a context
// that has ended). Every try of Tries is an acquisition. After each Grant comes one
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
	EventDeadlock                             // an acquisition waits in a deadlock; Wait, Err (a DeadlockError)
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
