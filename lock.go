// lock: a name, its route and its parameters, and what is checked before anything is asked.

package holdfast

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// lock is a lock as its requests need it, made once. There may be many: what
// some have in common is kept once for all of them.
type lock struct {
	name string
	one  [1]string // the key, as requests want it
	*route
	*params
}

func (s *lock) key() string { return s.one[0] }

func (s *lock) keys() []string { return s.one[:] }

// newLock makes a lock with options. What is wrong with the name or the options is kept
// for the first use.
func newLock(c *Client, name string, chosen lockOptions, err error) lock {
	if bad := wire.CheckName(name); bad != nil {
		err = invalid("%v", bad)
	}
	if err != nil {
		return lock{name: name, route: new(route), params: &params{lockOptions: chosen, client: c, err: err}}
	}
	key := wire.Key(c.cfg.Prefix, name)
	return lock{
		name: name, one: [1]string{key}, route: routeOf(c, name, key, chosen.ack), params: paramsOf(c, chosen),
	}
}

// acquire waits for the lock, as long as its options allow.
func (t *lock) acquire(ctx context.Context) (*Lease, error) {
	return t.noteCaller(t.acquireInTime(ctx))
}

// noteCaller notes where the caller of the lock call took the lease.
func (t *lock) noteCaller(l *Lease, err error) (*Lease, error) {
	if l != nil && t.client.events.logs {
		l.state.taken = caller(3)
	}
	return l, err
}

func (t *lock) acquireInTime(ctx context.Context) (*Lease, error) {
	if t.wait == 0 {
		return t.tryAcquire(ctx)
	}
	if l, err := t.checkOrReenter(ctx); l != nil || err != nil {
		return l, err
	}
	if t.tries > 0 {
		return t.tryOften(ctx)
	}
	if t.wait < 0 {
		return t.acquireAs(ctx, ctx, false)
	}
	limited, cancel := bounded(ctx, t.wait)
	defer cancel()
	return t.acquireAs(limited, ctx, false)
}

// tryAcquire takes the lock if that can be done at once.
func (t *lock) tryAcquire(ctx context.Context) (*Lease, error) {
	if l, err := t.checkOrReenter(ctx); l != nil || err != nil {
		return l, err
	}
	return t.noteCaller(t.acquireAs(ctx, ctx, true))
}

// do runs f under the lock.
func (t *lock) do(ctx context.Context, f func(ctx context.Context) error) error {
	if err := runnable(ctx, f == nil); err != nil {
		return err
	}
	l, err := t.acquire(ctx)
	if err != nil {
		return err
	}
	return do(ctx, l, f)
}

// checkDeadlock refuses what needs no question to the server.
func (t *lock) checkDeadlock(ctx context.Context) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	if held := t.heldBy(ctx); t.want == wire.Exclusive && held != nil {
		return held.deadlock()
	}
	return nil
}

// check refuses what can work for nobody.
func (t *lock) check(ctx context.Context) error {
	switch {
	case t.err != nil:
		return t.err
	case ctx == nil:
		return errNoContext
	case t.client.life.IsClosing():
		return ErrClosed
	case ctx.Err() != nil:
		return fmt.Errorf("holdfast: lock %q: %w", t.name, ctx.Err())
	}
	return nil
}

// heldBy is the innermost live lease of this lock that ctx belongs to.
func (t *lock) heldBy(ctx context.Context) *leaseState {
	for held := leaseOf(ctx); held != nil; held = held.outerLease() {
		if held.of(t.client, t) && held.ended() == nil {
			return held
		}
	}
	return nil
}

// lockOptions say how locks are taken: their kind, and what the options ask for.
type lockOptions struct {
	want         string // the mode, as acquire is told it
	ttl          time.Duration
	noRenewal    bool
	ack          request.Acks
	rw           leases        // of a read-write lock; zero: of another kind
	wait         time.Duration // limit of the waiting; negative: none
	read         time.Duration // lease of readers, if it is another than that of writers
	noLocalQueue bool          // each goroutine of this process asks the server for itself
	owner        string        // the name under which several attempts hold together, as the record has it
	reentrant    bool          // again under a lease's context
	limits
	every
	trying // instead of waiting in line
}

// limits bound for how long a lock is held. A hold that has any is never
// passed inside the process: the next goroutine starts with limits of its own,
// and is kept out by a minimum like everybody else. So what holds for the hold
// holds for its one lease.
type limits struct {
	maxRenewals int32         // at most so many; 0: as many as it takes
	maxHold     time.Duration // not longer than this; 0: as long as it takes
	minHold     time.Duration // taken for so long, though released earlier
}

// every is what the options say about periods.
type every struct {
	aligned bool // periods begin at fixed times
	offset  time.Duration
	again   bool // a run that fails gives its period back
}

// params are options and what follows from them.
type params struct {
	lockOptions
	client     *Client
	ttlMS      string
	life       string // ms for which the record is to live: the lease and the retention after it
	patience   string
	batch      *request.Batcher // of its acquisitions; nil: each is sent alone
	noHandOver bool             // never passed inside the process: each lease has a hold of its own
	limit      int              // of a semaphore
	weight     int              // permits of it that are asked for
	ownerArgs  []string         // the owner's name, if there is one
	err        error            // what was wrong with the name or the options; such params are nobody else's
}

// paramsOf is what follows from a choice.
func paramsOf(c *Client, chosen lockOptions) *params {
	return c.params.of(chosen, func() params { return newParams(c, chosen) })
}

func newParams(c *Client, chosen lockOptions) params {
	m := params{
		lockOptions: chosen, client: c, noHandOver: chosen.noRenewal || chosen.limits != limits{},
		ttlMS: wire.Millis(chosen.ttl), life: wire.Millis(chosen.ttl + c.cfg.Retention),
		patience: wire.Millis(leasetime.WaiterTTL(chosen.ttl)),
	}
	if m.owner != "" {
		m.ownerArgs = []string{m.owner}
	}
	if m.want == wire.Exclusive && m.owner == "" && !m.ack.Wanted() {
		m.batch = c.sender.Acquires(m.ttlMS, m.life)
	}
	return m
}

// route is where a lock lives: what its requests share with those of its
// neighbours.
type route struct {
	group   string // locks of one group may share a request
	base    string // channel prefix of the pushes
	channel string // where this client's pushes arrive
}

// routeOf is where the lock lives. On one server that is the same for all.
func routeOf(c *Client, name, key string, ack request.Acks) *route {
	group := c.store.Group(key)
	if ack.Wanted() {
		group += fmt.Sprintf(" acknowledged by %+v in %v", ack.Need, ack.Limit)
	}
	if c.sharded {
		base := wire.Base(c.cfg.Prefix, name, true)
		return &route{group: group, base: base, channel: base + c.id}
	}
	p := route{group: group, base: c.base, channel: c.pushes}
	return c.routes.of(p, func() route { return p })
}

// shared are values that many locks have in common, by what makes them.
type shared[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]*V
}

// mostShared bounds how many are remembered for the locks to come. A program
// has a few; one that makes them up all the time has them forgotten.
const mostShared = 64

// of is the value for that key; it is made if there is none.
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

// owned puts the owner's name behind an action's arguments, if there is one.
func (s *lock) owned(args []string) []string { return append(args, s.ownerArgs...) }

// checkOrReenter is checkDeadlock, and enters again where ctx belongs to a lease of this very
// lock and the terms allow it. With neither lease nor error there is none.
func (t *lock) checkOrReenter(ctx context.Context) (*Lease, error) {
	if !t.reentrant && t.owner == "" {
		return nil, t.checkDeadlock(ctx)
	}
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	held := t.heldBy(ctx)
	if held == nil {
		return nil, nil
	}
	// Whose name is another's would wait for itself, and so would a writer
	// under a reader's lease.
	if held.hold.lock.rw.any() || held.hold.lock.want != t.want || t.owner != held.hold.lock.owner {
		return nil, held.deadlock()
	}
	return held.reenter(ctx)
}

// reentries are the leases that entered again beside a first one, whose state keeps
// them. first.mu guards the fields.
type reentries struct {
	inner []*leaseState // those that entered again and have not been released
	over  error         // why the stay ended though not all have left
}

// entered is what entered again beside a first lease. t.mu is held.
func (t *leaseState) entered() reentries {
	if t.extra == nil {
		return reentries{}
	}
	return t.extra.reentries
}

// root is the first lease of the stay.
func (t *leaseState) root() *leaseState {
	if t.first != nil {
		return t.first
	}
	return t
}

// reenter begins one more lease beside held, without the network.
func (held *leaseState) reenter(parent context.Context) (*Lease, error) {
	c := held.hold.lock.client
	first := held.root()
	t := held.hold.newLeaseState(parent, true)
	t.first = first
	t.token.Store(held.token.Load())
	if err := first.admit(t); err != nil {
		return nil, fmt.Errorf("holdfast: lock %q: %w", held.hold.lock.name, err)
	}
	c.events.tellGrant(t, Event{})
	return t.handle(), nil
}

// admit lets t in, unless the stay is over.
func (t *leaseState) admit(inner *leaseState) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch in := t.entered(); {
	case in.over != nil:
		return in.over
	case t.left && len(in.inner) == 0:
		return ErrReleased
	case !leasetime.MayEnter(len(in.inner) + 1):
		return invalid("the lease was entered 2^31 times: something enters and never leaves, release what it enters")
	}
	s := t.more()
	s.inner = append(s.inner, inner)
	return nil
}

// leave counts a released lease out, and reports whether it was the last one.
func (t *leaseState) leave() (last bool) {
	first := t.root()
	first.mu.Lock()
	defer first.mu.Unlock()
	in := first.entered().inner
	if t == first {
		first.left = true
	} else if i := slices.Index(in, t); i >= 0 {
		in = slices.Delete(in, i, i+1)
		first.extra.inner = in
	}
	return first.left && len(in) == 0
}

// finish ends the stay, and answers the leases whose end is still to be told.
func (t *leaseState) finish(cause error) (live []*leaseState) {
	t.mu.Lock()
	s := t.more()
	s.over = cause
	all := append([]*leaseState{t}, s.inner...)
	t.mu.Unlock()
	for _, one := range all {
		one.mu.Lock()
		if one.endWith(cause) || one.early {
			live = append(live, one)
		}
		one.early = false
		one.mu.Unlock()
	}
	return live
}

// holdCount is how many leases of the stay are live.
func (t *leaseState) holdCount() int {
	first := t.root()
	first.mu.Lock()
	defer first.mu.Unlock()
	n := len(first.entered().inner)
	if !first.left {
		n++
	}
	return n
}
