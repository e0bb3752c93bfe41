// lock: a name, its route, its parameters.

package holdfast

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// lock is a lock in the form that requests need, built once. A program may have many locks.
// So what some of them have in common exists once for all of them.
type lock struct {
	name   string
	oneKey [1]string // the key, as requests need it
	*route
	*params
}

func (lk *lock) key() string { return lk.oneKey[0] }

func (lk *lock) keys() []string { return lk.oneKey[:] }

// newLock builds a lock with options. If the name or an option is invalid, the lock keeps
// that error for its first use.
func newLock(c *Client, name string, chosen lockOptions, err error) lock {
	if bad := wire.CheckName(name); bad != nil {
		err = invalid("%v", bad)
	}
	if err != nil {
		return lock{name: name, route: new(route), params: &params{lockOptions: chosen, client: c, err: err}}
	}
	key := wire.Key(c.cfg.Prefix, name)
	if in := key[len(c.cfg.Prefix)+2 : len(key)-1]; in == name {
		name = in // so it needs no memory of its own
	}
	return lock{
		name: name, oneKey: [1]string{key}, route: c.routeOf(name, key, chosen.ack), params: c.paramsOf(chosen),
	}
}

// lockOptions say how locks are acquired: their kind, and the effect of the options.
type lockOptions struct {
	want           string // the mode, as the acquire script wants it
	ttl            time.Duration
	delay          time.Duration // how much longer the server keeps a lease
	noRenewal      bool
	ack            request.Acks
	rw             rwTTLs        // of a read-write lock; zero for another kind
	maxWait        time.Duration // limit of the wait; negative: none
	readTTL        time.Duration // TTL of readers, if it differs from that of writers
	noLocalQueue   bool          // each goroutine of this process asks the server for itself
	owner          string        // the name under which several attempts hold together, as in the record
	reentrant      bool          // allows a re-entry under a lease's context
	canReenter     bool          // the kind has the option for that
	tags           string        // for people, as in the client's record
	serverLimit    bool          // of a semaphore: the limit that the server remembers counts
	breaksDeadlock bool          // ends rather than stay in a deadlock
	checked        bool          // each lease has a hold of its own, and its attempt says so
	limits
	periodOptions
	trying // in place of the wait queue
}

// onServer returns how long a lease must last on the server so that its holder may trust it for ttl, and nobody else
// gets the lock before the lock-delay has passed, too. Whatever asks the server for a lease asks for this. What the
// client itself counts, such as deadlines and renewals, comes from ttl.
func (o *lockOptions) onServer(ttl time.Duration) time.Duration { return ttl + o.delay }

// limits bound how long a lock is held. A hold with limits is never handed over inside the
// process. The next goroutine has limits of its own, and must wait out a minimum like every
// other client. So the limits of the hold are those of its one lease.
type limits struct {
	maxRenewals int32         // at most this many renewals; 0: no limit
	maxHold     time.Duration // not longer than this; 0: no limit
	minHold     time.Duration // the lock stays held this long, although it is released earlier
}

// periodOptions are the options of a Periodic.
type periodOptions struct {
	aligned bool // periods begin at fixed times
	offset  time.Duration
	runs    int // so many runs use a period, if none succeeds; 0: the first run uses it
}

// params are options and the values that follow from them.
type params struct {
	lockOptions
	client     *Client
	ttlMS      string           // how long a lease lasts on the server, in ms
	recordTTL  string           // how long the server keeps the record, in ms: the lease, then the retention
	suffix     string           // of the IDs of its attempts, see wire.Suffix
	waiterTTL  string           // how long a waiter keeps its position without a heartbeat, in ms
	batch      *request.Batcher // for its acquisitions; nil: each is sent alone
	notBefore  time.Duration    // no release frees the lock before, see heldBack; 0 unless a term is resumed
	noHandOver bool             // never handed over inside the process: each lease has a hold of its own
	limit      int              // of a semaphore
	permits    int              // the permits that the call asks for
	ownerArgs  []string         // the owner's name, if there is one
	err        error            // what is wrong with the name or the options; such params are not shared
}

// paramsOf returns the parameters for these options.
func (c *Client) paramsOf(chosen lockOptions) *params {
	return c.params.of(chosen, func() params { return newParams(c, chosen) })
}

func newParams(c *Client, chosen lockOptions) params {
	m := params{
		lockOptions: chosen, client: c, noHandOver: chosen.noRenewal || chosen.checked || chosen.limits != limits{},
		ttlMS:     wire.Millis(chosen.onServer(chosen.ttl)),
		recordTTL: wire.Millis(chosen.onServer(chosen.ttl) + c.cfg.Retention),
		waiterTTL: wire.Millis(leasetime.WaiterTTL(chosen.ttl)),
	}
	own := m.noHandOver || m.noLocalQueue || c.cfg.MaxLocalHandOvers < 0
	own = own && m.owner == "" && c.handOverBits != 0 // another library's wire has IDs of its own form
	m.suffix = wire.Suffix(own, m.delay)
	if m.owner != "" {
		m.ownerArgs = []string{m.owner}
	}
	if m.want == wire.Exclusive && m.owner == "" && !m.ack.Wanted() {
		m.batch = c.sender.Acquires(m.ttlMS, m.recordTTL)
	}
	return m
}

// route says where the requests of a lock go. Many locks have the same route.
type route struct {
	group         string // locks of one group may share a request
	channelPrefix string // channel prefix of the pushes
	channel       string // the channel on which this client's pushes arrive
}

// routeOf returns the route of the lock. On one server it is the same for all locks.
func (c *Client) routeOf(name, key string, ack request.Acks) *route {
	group := c.store.Group(key)
	if ack.Wanted() {
		group += fmt.Sprintf(" acknowledged by %+v in %v", ack.Need, ack.Limit)
	}
	if c.sharded {
		prefix := wire.ChannelPrefix(c.cfg.Prefix, name, true)
		return &route{group: group, channelPrefix: prefix, channel: prefix + c.id}
	}
	p := route{group: group, channelPrefix: c.channelPrefix, channel: c.pushChannel}
	return c.routes.of(p, func() route { return p })
}

// shared stores values that many locks have in common, by key.
type shared[K comparable, V any] struct {
	mu  lockorder.Mutex[shared[K, V]]
	all map[K]*V
}

// mostShared bounds how many values are stored. A program normally has a few. If a program
// makes new ones all the time, the store is emptied.
const mostShared = 64

// of returns the value for the key. If there is none, of makes it.
func (s *shared[K, V]) of(key K, made func() V) *V {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.all[key]
	if v == nil {
		if s.all == nil || len(s.all) == mostShared {
			s.all = map[K]*V{}
		}
		v = new(V)
		*v = made()
		s.all[key] = v
	}
	return v
}

// owned appends the owner's name to the arguments, if there is one.
func (lk *lock) owned(args []string) []string { return append(args, lk.ownerArgs...) }

// conflict is the error for permits that the limit in force does not allow.
func (lk *lock) conflict(limit int) error {
	if lk.serverLimit {
		return errorf("holdfast: semaphore %q: %w", lk.name,
			invalid("the number of permits is %d, and the limit on the server is %d: ask for fewer, or raise the limit",
				lk.permits, limit))
	}
	return &MismatchError{lk.name, lk.limit, limit}
}

// mode returns the word for people.
func (lk *lock) mode() string { return modes[lk.want[:1]] }

var modes = map[string]string{"x": "exclusive", "s": "shared", "p": "permits"}

// requestLimit is the time limit of one request about a lease of this lock.
func (lk *lock) requestLimit() time.Duration {
	return leasetime.RequestLimit(lk.client.sender.Timeout, lk.ttl)
}
