package quorum

import (
	"cmp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// An acquisition is all that one attempt of the client does, on all servers. Suppose that the
// client sends acquire with the attempt ID "c/7" and waits. The acquisition "c/7" asks the servers
// in a round, as "c/7.1", "c/7.2" and "c/7.3". It may wait in a queue, ask again in a second round
// as "c/7.4" to "c/7.6", be granted, be renewed, and end with the release.
//
// These are its phases. Three of them have no value, only a place in the code. They have brackets here.
//
//	 idle
//	  │ runRound
//	  ▼    ◀─────────── the coordinator is silent ─────────────┐
//	asking ── another holds the lock; this one is queued ──▶ waiting
//	  │ │                                              yield ▲  │ push: its turn
//	  │ └── several queues, each with a head ──────────┐     │  ▼
//	  │ a majority has granted                         └─▶ collecting ── time is up ─▶ (pausing)
//	  ▼                                                        │                        │
//	(raising) ◀── a majority has granted ──────────────────────┘            asking ◀────┘
//	  │ └── too few are sure that they forgot nothing ──▶ (clearing) ──▶ asking, or idle
//	  ▼ a majority has the token, and vouches
//	 held ── released, lost ──▶ ended
//
//	phase       where its goroutine stands       what may follow
//	idle        none                             asking
//	asking      runRound                         raising, waiting, collecting, clearing, idle
//	(raising)   writeToken                       held, clearing, idle; collecting, if it came from there
//	(clearing)  cancelRoundAndWait               asking, idle
//	waiting     none: a push or a poll comes     collecting, asking
//	collecting  awaitCollect                     raising, waiting, pausing
//	(pausing)   backOff                          asking
//	held        none: renewals and polls come    ended
//	ended       none                             nothing
//
// From each phase a cancel or a release leads to ended at once. While a goroutine is raising, the
// field says asking or collecting. While it is clearing or pausing, the field says idle.
//
// One goroutine at a time takes an acquisition further: the driver. It is the goroutine of the
// client's call, or one that a push has started. Pushes and answers change bids at any time, under
// acquisition.mu, and wake the driver (notify).
//
// Two instants of an acquisition decide what its client may believe. Suppose that five servers are
// asked for a lease of 9 s at 10 s. Four grant at 10.1 s, a majority has the token at 10.4 s, and the
// fifth server grants at 10.45 s.
//
//	countsFrom  10 s    before anything was sent: each server's TTL began later. The client trusts
//	                    the lease until 9 s after that, less the margin.
//	renewedAt   10.4 s  the four have held since 10.1 s, so they vouch for the time from here on.
//	                    The fifth joined later, and vouches from the second renewal on.
//
// A new round or a poll moves countsFrom to its own start. A renewal moves renewedAt to its own
// start.

// phase is how far an acquisition has come.
type phase uint8

const (
	asking     phase = iota // a round of requests is under way
	idle                    // the last round got nothing
	waiting                 // in the coordinator's wait queue
	collecting              // the coordinator has granted; the other nodes are being asked
	held                    // a majority has granted and has the token
	ended                   // released, cancelled or lost
)

// acquisition is one attempt of the client to get a lock: what it asks for, and how far it has
// come. It may need several rounds. At each node every round uses an identity of its own
// (ATTEMPT.NUMBER), so a late answer to one round means nothing to the next.
type acquisition struct {
	// These never change, so they are read without mu.
	*servers
	s    *Store // forgets it when it ends, and has the client's listeners
	name string // its key in Store.acquisitions, see nameFor
	acquireArgs
	driver  chan struct{} // holds a value while a goroutine drives the acquisition, see lockDriver
	changed chan struct{} // holds a value once a node's push or answer has changed something, see notify

	// mu guards the fields below, all rounds, and the bids of their attempts. Nothing is sent under it.
	mu             lockorder.Mutex[acquisition]
	phase          phase         // see the drawing above
	kept           bool          // released, but locked until a minimum time is over
	failedCollects int           // how often there was no majority after the coordinator's grant
	round          *round        // the last one that began; nil before the first
	token          uint64        // of the lease, from the phase held on; 0 before
	longest        time.Duration // the longest TTL that was asked for: Extend may ask for more than acquire
	waiterTTL      string        // of the client's last request, in ms; "0": it does not wait
	waiters        int           // how many attempts wait in the coordinator's queue
	countsFrom     time.Duration // the client may count its lease from here, so no older hold counts
	renewedAt      time.Duration // when it was granted, or the start of the last renewal that was confirmed

	touched atomic.Int64 // the time of the last use, on the store's clock; see sweep
}

// acquireArgs are the arguments of acquire.
type acquireArgs struct {
	// The attempt is the client's. Each server knows it by an identity of its own, see nodeAttempt.id.
	key, attempt, mode, channelPrefix string
	ttl, retention                    time.Duration
	states                            *nodeStates
}

// parse reads the arguments of acquire. It refuses what a quorum cannot provide.
func (s *Store) parse(keys, args []string) (acquireArgs, error) {
	switch {
	case len(args) == 7:
		return acquireArgs{}, refuse(ErrUnsupported, "UNSUPPORTED", "a named owner over several servers: the "+
			"clients of one owner would have different tokens, and a resource that checks tokens would reject "+
			"the earlier one; use a lock without holdfast.Owner")
	case len(args) != 6:
		return acquireArgs{}, refuse(ErrUnsupported, "ERR", "acquire takes 6 arguments, not %d", len(args))
	}
	d := acquireArgs{key: keys[0], attempt: args[0], mode: args[3], channelPrefix: args[5]}
	d.states = s.statesOf(prefix(d.key))
	ms, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil || ms < 1 {
		return d, refuse(ErrUnsupported, "ERR", "acquire: the TTL %q is not a number of milliseconds", args[1])
	}
	d.ttl = time.Duration(ms) * time.Millisecond
	recordTTL, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil || recordTTL < ms {
		return d, refuse(ErrUnsupported, "ERR", "acquire: the record TTL %q does not fit a lease of %d ms",
			args[2], ms)
	}
	d.retention = time.Duration(recordTTL-ms) * time.Millisecond
	if d.mode != "x" && d.mode != "s" {
		return d, refusePermits()
	}
	return d, s.checkTTL(d.ttl)
}

func refusePermits() error {
	return refuse(ErrUnsupported, "UNSUPPORTED", "permits over several servers: each server counts its own, "+
		"and majorities together would grant more than there are; use one of several mutexes instead")
}

// checkTTL refuses a lease that may outlive the probation of a node.
func (s *Store) checkTTL(ttl time.Duration) error {
	if ttl > s.cfg.MaxTTL {
		return refuse(ErrTTLTooLong, "TTL",
			"the lease (%v, with any lock-delay) is longer than quorum.Config.MaxTTL (%v): "+
				"raise MaxTTL in every process", ttl, s.cfg.MaxTTL)
	}
	return nil
}

// acquisition finds the acquisition of that name, or makes one. See nameFor.
func (s *Store) acquisition(name string, d acquireArgs) *acquisition {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	acq := s.acquisitions[name]
	if acq == nil {
		acq = &acquisition{
			servers: s.servers, s: s, name: name, acquireArgs: d, phase: idle,
			driver: make(chan struct{}, 1), changed: make(chan struct{}, 1), longest: d.ttl,
		}
		acq.touched.Store(int64(now))
		s.acquisitions[name] = acq
		s.sweep(now)
	}
	return acq
}

// find returns the acquisition of an attempt on the lock at key, nil if there is none. There is none
// if this process never began it, if it has ended, or if nobody has used it for so long that sweep
// removed it. The servers may have a hold of it nevertheless, which ends with its TTL.
func (s *Store) find(key, attempt string) *acquisition {
	s.mu.Lock()
	defer s.mu.Unlock()
	if acq := s.acquisitions[attempt]; acq != nil {
		return acq
	}
	return s.acquisitions[nameFor(key, attempt)]
}

// nameFor names an acquisition if its attempt acquires several locks. If the attempt acquires
// one lock, the name is the attempt ID.
func nameFor(key, attempt string) string { return attempt + " " + key }

// findWaiter returns the acquisition of an attempt that may wait; only one that acquires a
// single lock may.
func (s *Store) findWaiter(attempt string) *acquisition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acquisitions[attempt]
}

// forget removes an acquisition, unless another one has its name by now.
func (s *Store) forget(acq *acquisition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acquisitions[acq.name] == acq {
		delete(s.acquisitions, acq.name)
	}
}

// sweep removes acquisitions whose clients have gone and which hold nothing any more. It
// runs when there are twice as many acquisitions as after the last sweep. s.mu is held.
//
// A client that lives polls a waiter and renews a lease, and each use is noted (touch). So an
// acquisition has gone if nobody has used it for as long as a lease and a position in a queue can
// last. Nothing is sent for it: what it had on the servers is over.
func (s *Store) sweep(now time.Duration) {
	if len(s.acquisitions) < 2*max(s.lastSweep, 512) {
		return
	}
	for attempt, acq := range s.acquisitions {
		if now-time.Duration(acq.touched.Load()) > s.cfg.MaxTTL+leasetime.WaiterTTL(s.cfg.MaxTTL) {
			delete(s.acquisitions, attempt)
		}
	}
	s.lastSweep = len(s.acquisitions)
}

// end ends an acquisition. It returns its attempts on the nodes and its coordinator; won says
// that a majority had granted it.
// Requests that are under way see that the round has ended, and acquire nothing more. What they
// have acquired is the caller's to release or to cancel.
//
// It does not wait for the driver, which may be waiting for a server just now. Suppose that a
// driver writes the token while the client cancels. The driver sees that the round has ended
// (round.done), and returns errEnded. Its grants are among the attempts that end returns, so the
// cancel reaches them.
func (s *Store) end(acq *acquisition) (attempts []*nodeAttempt, coordinator int, won bool) {
	s.forget(acq)
	acq.mu.Lock()
	defer acq.mu.Unlock()
	won = acq.phase == held
	acq.phase = ended
	r := acq.round
	if r == nil {
		r = acq.newRound() // it never asked a node
		acq.phase = ended
	}
	r.end()
	return append([]*nodeAttempt(nil), r.attempts...), r.coordinator, won
}

// currentWaiterTTL is how long a node keeps the attempt in its queue without a heartbeat.
func (acq *acquisition) currentWaiterTTL() string {
	acq.mu.Lock()
	defer acq.mu.Unlock()
	return acq.waiterTTL
}

// longestTTL is how long a hold may last that was renewed just now.
func (acq *acquisition) longestTTL() time.Duration {
	acq.mu.Lock()
	defer acq.mu.Unlock()
	return acq.longest
}

func (acq *acquisition) touch() { acq.touched.Store(int64(acq.now())) }

// lockDriver makes the caller the goroutine that drives the acquisition. It reports false if
// done is closed first.
// It is a channel and no mutex, so that a caller whose context ends need not wait for the driver
// before it. Example: the client polls while a push has just started tryComplete. The poll waits here
// until the token is written, and then answers "granted".
func (acq *acquisition) lockDriver(done <-chan struct{}) bool {
	select {
	case acq.driver <- struct{}{}:
		return true
	case <-done:
		return false
	}
}

func (acq *acquisition) unlockDriver() { <-acq.driver }

// notify wakes the goroutine that waits for a majority, see awaitCollect. If it is not there yet,
// the value waits for it in the channel, so nothing is missed. One value stands for any number of
// changes: the goroutine looks at all bids.
func (acq *acquisition) notify() {
	select {
	case acq.changed <- struct{}{}:
	default:
	}
}

// clientAttempt is the client's attempt ID in the identity that a node knows.
// Example: "c/7.3" on a node is "c/7" to the client. An ID that is not of this form is somebody
// else's, and stays as it is.
func clientAttempt(id string) string {
	dot := strings.LastIndexByte(id, '.')
	if dot < 0 || !digits(wire.NumberOf(id[:dot])) || !digits(id[dot+1:]) {
		return id
	}
	return id[:dot]
}

func digits(word string) bool {
	return word != "" && strings.Trim(word, "0123456789") == ""
}

// prefix is the application's prefix: the part of a key before the lock's name.
func prefix(key string) string {
	before, _, found := strings.Cut(key, ":{")
	if !found {
		return "holdfast"
	}
	return cmp.Or(before, "holdfast")
}
