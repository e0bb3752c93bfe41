package quorum

import (
	"cmp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
)

// phase is how far a claim has come.
type phase uint8

const (
	asking     phase = iota // a round of requests is under way
	idle                    // the last round took nothing
	waiting                 // in the line of the lead
	collecting              // the lead has granted; the rest is being gathered
	held                    // a majority has granted and has the token
	ended                   // released, cancelled or lost
)

// acquisition is one acquisition of the client: what it asks for, and how far it has
// come. It may need several rounds. Whatever it asks of a node has an identity of
// its own there (ATTEMPT.NUMBER), so that what is late of one means nothing to
// the next.
type acquisition struct {
	s    *Store
	name string // under which the store knows it
	acquireArgs
	driver  chan struct{} // has room for the one who takes the claim further
	changed chan struct{} // receives when a node has told something by itself

	// mu guards the fields below, and all rounds. Nothing is sent under it.
	mu             sync.Mutex
	phase          phase
	kept           bool // given up, and left taken
	failedCollects int  // turns in vain
	round          *round
	token          uint64
	waiterTTL      string        // the patience that was last asked for, in ms; 0: it does not wait
	waiters        int           // how many stand in the lead's line
	countsFrom     time.Duration // the client may count its lease from here: no older hold counts
	renewedAt      time.Duration // the start of the last renewal that was confirmed

	touched atomic.Int64 // on the clock of the store
}

// acquireArgs is an acquisition as its arguments say it.
type acquireArgs struct {
	key, attempt, ttlMS, recordTTL, retention, mode, channelPrefix string
	ttl                                                            time.Duration
	states                                                         *nodeStates
}

// parse reads the arguments of acquire, and refuses what a quorum cannot give.
func (s *Store) parse(keys, args []string) (acquireArgs, error) {
	switch {
	case len(args) == 7:
		return acquireArgs{}, refuse(ErrUnsupported, "UNSUPPORTED", "an owner's name over several servers: those who "+
			"enter in one name would have different tokens, and a resource that checks them would refuse the "+
			"earlier; use a lock without holdfast.Owner")
	case len(args) != 6:
		return acquireArgs{}, refuse(ErrUnsupported, "ERR", "acquire takes 6 arguments, not %d", len(args))
	}
	d := acquireArgs{
		key: keys[0], attempt: args[0], ttlMS: args[1], recordTTL: args[2], mode: args[3], channelPrefix: args[5],
	}
	d.states = s.statesOf(prefix(d.key))
	ms, err := strconv.ParseInt(d.ttlMS, 10, 64)
	if err != nil || ms < 1 {
		return d, refuse(ErrUnsupported, "ERR", "acquire: the TTL %q is no number of milliseconds", d.ttlMS)
	}
	d.ttl = time.Duration(ms) * time.Millisecond
	recordTTL, err := strconv.ParseInt(d.recordTTL, 10, 64)
	if err != nil || recordTTL < ms {
		return d, refuse(ErrUnsupported, "ERR", "acquire: the life %q is not that of a record with a lease of %d ms",
			d.recordTTL, ms)
	}
	d.retention = strconv.FormatInt(recordTTL-ms, 10)
	if d.mode != "x" && d.mode != "s" {
		return d, refuse(ErrUnsupported, "UNSUPPORTED", "permits over several servers: each counts its own, and "+
			"majorities together would admit more than there are; take one of several mutexes instead")
	}
	return d, s.checkTTL(d.ttl)
}

// checkTTL refuses a lease that may outlive the probation of a node.
func (s *Store) checkTTL(ttl time.Duration) error {
	if ttl > s.cfg.MaxTTL {
		return refuse(ErrTTLTooLong, "TTL",
			"a lease of %v, and quorum.Config.MaxTTL is %v: raise that in every process",
			ttl, s.cfg.MaxTTL)
	}
	return nil
}

// acquisition finds the claim of that name, or makes one. The name is the attempt, and
// the lock's key with it if the attempt takes several.
func (s *Store) acquisition(name string, d acquireArgs) *acquisition {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	acq := s.acquisitions[name]
	if acq == nil {
		acq = &acquisition{
			s: s, name: name, acquireArgs: d, phase: idle,
			driver: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		}
		acq.touched.Store(int64(now))
		s.acquisitions[name] = acq
		s.sweep(now)
	}
	return acq
}

// find is an attempt's claim on the lock at key, nil if there is none.
func (s *Store) find(key, attempt string) *acquisition {
	s.mu.Lock()
	defer s.mu.Unlock()
	if acq := s.acquisitions[attempt]; acq != nil {
		return acq
	}
	return s.acquisitions[nameFor(key, attempt)]
}

// nameFor names the claim on one lock of an attempt that takes several.
func nameFor(key, attempt string) string { return attempt + " " + key }

// findWaiter is the claim of an attempt that may stand in a line.
func (s *Store) findWaiter(attempt string) *acquisition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acquisitions[attempt]
}

// forget lets go of a claim, unless there is another one of its name by now.
func (s *Store) forget(acq *acquisition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acquisitions[acq.name] == acq {
		delete(s.acquisitions, acq.name)
	}
}

// sweep forgets claims that nobody has ended, once there are twice as many as
// the last time: those of clients that are gone, and that hold nothing by now.
// s.mu is held.
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

// end ends a claim and answers what it has on the nodes, its lead, and
// whether it had been won.
func (s *Store) end(acq *acquisition) (attempts []*nodeAttempt, coordinator int, won bool) {
	s.forget(acq)
	acq.mu.Lock()
	defer acq.mu.Unlock()
	won = acq.phase == held
	acq.phase = ended
	r := acq.round
	if r == nil {
		r = acq.newRound() // it never got to ask
		acq.phase = ended
	}
	r.end()
	return append([]*nodeAttempt(nil), r.attempts...), r.coordinator, won
}

// currentWaiterTTL is for how long the client keeps a place without a sign of life.
func (acq *acquisition) currentWaiterTTL() string {
	acq.mu.Lock()
	defer acq.mu.Unlock()
	return acq.waiterTTL
}

func (acq *acquisition) touch() { acq.touched.Store(int64(acq.s.now())) }

// lockDriver makes the caller the one who takes the claim further; false if done
// is closed first.
func (acq *acquisition) lockDriver(done <-chan struct{}) bool {
	select {
	case acq.driver <- struct{}{}:
		return true
	case <-done:
		return false
	}
}

func (acq *acquisition) unlockDriver() { <-acq.driver }

// notify wakes whoever gathers what is missing.
func (acq *acquisition) notify() {
	select {
	case acq.changed <- struct{}{}:
	default:
	}
}

// clientAttempt is the client's attempt behind what a node calls it.
func clientAttempt(id string) string {
	client, number, ok := strings.Cut(id, "/")
	n, round, dotted := strings.Cut(number, ".")
	if !ok || !dotted || !digits(n) || !digits(round) {
		return id
	}
	return client + "/" + n
}

func digits(word string) bool {
	return word != "" && strings.Trim(word, "0123456789") == ""
}

// prefix is what stands before every key of the lock's application.
func prefix(key string) string {
	before, _, found := strings.Cut(key, ":{")
	if !found {
		return "holdfast"
	}
	return cmp.Or(before, "holdfast")
}
