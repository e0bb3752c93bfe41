package holdfast

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// spec is a lock as its requests need it, made once. There may be many: what
// some have in common is kept once for all of them.
type spec struct {
	name string
	one  [1]string // the key, as requests want it
	*place
	*manner
}

func (s *spec) key() string    { return s.one[0] }
func (s *spec) keys() []string { return s.one[:] }

// terms are a lock and how one of its users takes it: what every kind of lock
// is made of. They do not change once they are made.
type terms struct{ spec }

// terms makes the terms of a lock that is taken as chosen. What is wrong with the
// name or the options is kept for the first use.
func (c *Client) terms(name string, chosen choice, err error) terms {
	if bad := wire.CheckName(name); bad != nil {
		err = invalid("%v", bad)
	}
	if err != nil {
		return terms{spec{name: name, place: new(place), manner: &manner{choice: chosen, client: c, err: err}}}
	}
	key := wire.Key(c.cfg.Prefix, name)
	return terms{spec{
		name: name, one: [1]string{key}, place: c.place(name, key, chosen.ack), manner: c.manner(chosen),
	}}
}

// lock waits for the lock, as long as the terms allow.
func (t *terms) lock(ctx context.Context) (*Lease, error) { return t.placed(t.wanted(ctx)) }

// placed notes where the caller of the lock call took the lease.
func (t *terms) placed(l *Lease, err error) (*Lease, error) {
	if l != nil {
		l.tenure.taken = t.client.events.caller(3)
	}
	return l, err
}

func (t *terms) wanted(ctx context.Context) (*Lease, error) {
	if t.wait == 0 {
		return t.try(ctx)
	}
	if l, err := t.begin(ctx); l != nil || err != nil {
		return l, err
	}
	if t.tries > 0 {
		return t.tryOften(ctx)
	}
	if t.wait < 0 {
		return t.client.lock(ctx, ctx, &t.spec, false)
	}
	limited, cancel := bounded(ctx, t.wait)
	defer cancel()
	return t.client.lock(limited, ctx, &t.spec, false)
}

// try takes the lock if that can be done at once.
func (t *terms) try(ctx context.Context) (*Lease, error) {
	if l, err := t.begin(ctx); l != nil || err != nil {
		return l, err
	}
	return t.placed(t.client.lock(ctx, ctx, &t.spec, true))
}

// do runs f under the lock.
func (t *terms) do(ctx context.Context, f func(ctx context.Context) error) error {
	if err := runnable(ctx, f == nil); err != nil {
		return err
	}
	l, err := t.lock(ctx)
	if err != nil {
		return err
	}
	return do(ctx, l, f)
}

// usable refuses what needs no question to the server.
func (t *terms) usable(ctx context.Context) error {
	if err := t.sound(ctx); err != nil {
		return err
	}
	if held := t.heldBy(ctx); t.want == wire.Exclusive && held != nil {
		return held.deadlock()
	}
	return nil
}

// sound refuses what can work for nobody.
func (t *terms) sound(ctx context.Context) error {
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
func (t *terms) heldBy(ctx context.Context) *tenure {
	for held := tenureOf(ctx); held != nil; held = held.outer() {
		if held.of(t.client, &t.spec) && held.ended() == nil {
			return held
		}
	}
	return nil
}

// choice is how locks are taken: their kind, and what the options say.
type choice struct {
	want   string // the mode, as acquire is told it
	ttl    time.Duration
	fixed  bool
	ack    request.Acks
	rw     leases        // of a read-write lock; zero: of another kind
	wait   time.Duration // limit of the waiting; negative: none
	read   time.Duration // lease of readers, if it is another than that of writers
	alone  bool          // each goroutine of this process asks the server for itself
	owner  string        // the name under which several attempts hold together, as the record has it
	enters bool          // again under a lease's context
	limits
	every
	trying // instead of waiting in line
}

// limits bound for how long a lock is held. A hold that has any is never
// passed inside the process: the next goroutine starts with limits of its own,
// and is kept out by a minimum like everybody else. So what holds for the hold
// holds for its one lease.
type limits struct {
	renewals int32         // at most so many; 0: as many as it takes
	most     time.Duration // not longer than this; 0: as long as it takes
	least    time.Duration // taken for so long, though released earlier
}

// every is what the options say about periods.
type every struct {
	aligned bool // periods begin at fixed times
	offset  time.Duration
	again   bool // a run that fails gives its period back
}

// manner is a choice and what follows from it.
type manner struct {
	choice
	client   *Client
	ttlMS    string
	life     string // ms for which the record is to live: the lease and the retention after it
	patience string
	batch    *request.Batcher // of its acquisitions; nil: each is sent alone
	whole    bool             // never passed inside the process: each lease has a hold of its own
	limit    int              // of a semaphore
	weight   int              // permits of it that are asked for
	err      error            // what was wrong with the name or the options; such a manner is nobody else's
}

// manner is what follows from a choice.
func (c *Client) manner(chosen choice) *manner {
	return c.manners.of(chosen, func() manner { return c.newManner(chosen) })
}

func (c *Client) newManner(chosen choice) manner {
	m := manner{
		choice: chosen, client: c, whole: chosen.fixed || chosen.limits != limits{},
		ttlMS: wire.Millis(chosen.ttl), life: wire.Millis(chosen.ttl + c.cfg.Retention),
		patience: wire.Millis(leasetime.WaiterTTL(chosen.ttl)),
	}
	if m.want == wire.Exclusive && m.owner == "" && !m.ack.Wanted() {
		m.batch = c.sender.Acquires(m.ttlMS, m.life)
	}
	return m
}

// place is where a lock lives: what its requests share with those of its
// neighbours.
type place struct {
	group   string // locks of one group may share a request
	base    string // channel prefix of the pushes
	channel string // where this client's pushes arrive
}

// place is where the lock lives. On one server that is the same for all.
func (c *Client) place(name, key string, ack request.Acks) *place {
	group := c.store.Group(key)
	if ack.Wanted() {
		group += fmt.Sprintf(" acknowledged by %+v in %v", ack.Need, ack.Limit)
	}
	if c.sharded {
		base := wire.Base(c.cfg.Prefix, name, true)
		return &place{group: group, base: base, channel: base + c.id}
	}
	p := place{group: group, base: c.base, channel: c.pushes}
	return c.places.of(p, func() place { return p })
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
