package quorum

import (
	"cmp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/majority"
)

// phase is how far a claim has come.
type phase uint8

const (
	asking  phase = iota // a round of requests is under way
	idle                 // the last round took nothing
	waiting              // in the line of the lead
	turning              // the lead has granted; the rest is being gathered
	held                 // a majority has granted and has the token
	over                 // released, cancelled or lost
)

// claim is one acquisition of the client: what it asks for, and how far it has
// come. It may need several rounds. Whatever it asks of a node has an identity of
// its own there (ATTEMPT.NUMBER), so that what is late of one means nothing to
// the next.
type claim struct {
	s    *Store
	name string // under which the store knows it
	demand
	driver chan struct{} // has room for the one who takes the claim further
	news   chan struct{} // receives when a node has told something by itself

	// mu guards the fields below, and all rounds. Nothing is sent under it.
	mu      sync.Mutex
	phase   phase
	stays   bool // given up, and left taken
	stints  int  // turns in vain
	round   *round
	token   uint64
	patient string        // the patience that was last asked for, in ms; 0: it does not wait
	waits   int           // how many stand in the lead's line
	floor   time.Duration // the client may count its lease from here: no older hold counts
	renewed time.Duration // the start of the last renewal that was confirmed

	touched atomic.Int64 // on the clock of the store
}

// demand is an acquisition as its arguments say it.
type demand struct {
	key, attempt, ttlMS, life, retention, want, base string
	ttl                                              time.Duration
	view                                             *view
}

// parse reads the arguments of acquire, and refuses what a quorum cannot give.
func (s *Store) parse(keys, args []string) (demand, error) {
	switch {
	case len(args) == 7:
		return demand{}, refuse(ErrUnsupported, "UNSUPPORTED", "an owner's name over several servers: those who "+
			"enter in one name would have different tokens, and a resource that checks them would refuse the "+
			"earlier; use a lock without holdfast.Owner")
	case len(args) != 6:
		return demand{}, refuse(ErrUnsupported, "ERR", "acquire takes 6 arguments, not %d", len(args))
	}
	d := demand{key: keys[0], attempt: args[0], ttlMS: args[1], life: args[2], want: args[3], base: args[5]}
	d.view = s.view(prefix(d.key))
	ms, err := strconv.ParseInt(d.ttlMS, 10, 64)
	if err != nil || ms < 1 {
		return d, refuse(ErrUnsupported, "ERR", "acquire: the TTL %q is no number of milliseconds", d.ttlMS)
	}
	d.ttl = time.Duration(ms) * time.Millisecond
	life, err := strconv.ParseInt(d.life, 10, 64)
	if err != nil || life < ms {
		return d, refuse(ErrUnsupported, "ERR", "acquire: the life %q is not that of a record with a lease of %d ms",
			d.life, ms)
	}
	d.retention = strconv.FormatInt(life-ms, 10)
	if d.want != "x" && d.want != "s" {
		return d, refuse(ErrUnsupported, "UNSUPPORTED", "permits over several servers: each counts its own, and "+
			"majorities together would admit more than there are; take one of several mutexes instead")
	}
	return d, s.fits(d.ttl)
}

// fits refuses a lease that may outlive the probation of a node.
func (s *Store) fits(ttl time.Duration) error {
	if ttl > s.cfg.MaxTTL {
		return refuse(ErrTTLTooLong, "TTL",
			"a lease of %v, and quorum.Config.MaxTTL is %v: raise that in every process",
			ttl, s.cfg.MaxTTL)
	}
	return nil
}

// claim finds the claim of that name, or makes one. The name is the attempt, and
// the lock's key with it if the attempt takes several.
func (s *Store) claim(name string, d demand) *claim {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[name]
	if c == nil {
		c = &claim{
			s: s, name: name, demand: d, driver: make(chan struct{}, 1), news: make(chan struct{}, 1), phase: idle,
		}
		c.touched.Store(int64(now))
		s.claims[name] = c
		s.sweep(now)
	}
	return c
}

// known is an attempt's claim on the lock at key, nil if there is none.
func (s *Store) known(key, attempt string) *claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[attempt]; c != nil {
		return c
	}
	return s.claims[oneOf(key, attempt)]
}

// oneOf names the claim on one lock of an attempt that takes several.
func oneOf(key, attempt string) string { return attempt + " " + key }

// waiter is the claim of an attempt that may stand in a line.
func (s *Store) waiter(attempt string) *claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[attempt]
}

// forget lets go of a claim, unless there is another one of its name by now.
func (s *Store) forget(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[c.name] == c {
		delete(s.claims, c.name)
	}
}

// sweep forgets claims that nobody has ended, once there are twice as many as
// the last time: those of clients that are gone, and that hold nothing by now.
// s.mu is held.
func (s *Store) sweep(now time.Duration) {
	if len(s.claims) < 2*max(s.swept, 512) {
		return
	}
	for attempt, c := range s.claims {
		if now-time.Duration(c.touched.Load()) > s.cfg.MaxTTL+leasetime.WaiterTTL(s.cfg.MaxTTL) {
			delete(s.claims, attempt)
		}
	}
	s.swept = len(s.claims)
}

// patience is for how long the client keeps a place without a sign of life.
func (c *claim) patience() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.patient
}

func (c *claim) touch() { c.touched.Store(int64(c.s.now())) }

// enter makes the caller the one who takes the claim further; false if done
// is closed first.
func (c *claim) enter(done <-chan struct{}) bool {
	select {
	case c.driver <- struct{}{}:
		return true
	case <-done:
		return false
	}
}

func (c *claim) leave() { <-c.driver }

// stir wakes whoever gathers what is missing.
func (c *claim) stir() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// round is one try to get a majority.
type round struct {
	c     *claim
	order []int // who is asked for the lead, first to last
	lead  int
	stop  chan struct{} // closed when the round is over
	ended bool
	slots []*slot
}

// begin starts a round. c.mu is held.
func (c *claim) begin() *round {
	r := &round{
		c: c, order: c.s.order(c.key), stop: make(chan struct{}), slots: make([]*slot, len(c.s.nodes)),
	}
	r.lead = r.order[0]
	for i := range r.slots {
		r.slots[i] = r.fresh(i)
	}
	c.phase, c.round, c.floor = asking, r, c.s.now()
	c.touch()
	return r
}

// order lists the nodes as they are asked for the lead: those that do not
// answer, and those that a majority contradicts, are asked last.
func (s *Store) order(key string) []int {
	var order, silent []int
	for _, i := range majority.Order(key, len(s.nodes)) {
		if s.nodes[i].suspected() || s.overruled(key, i) {
			silent = append(silent, i)
		} else {
			order = append(order, i)
		}
	}
	return append(order, silent...)
}

// roundless is the client's attempt behind what a node calls it.
func roundless(id string) string {
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
