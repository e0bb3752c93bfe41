package holdfast

import (
	"context"
	"fmt"

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
		l.tenure.taken = t.client.caller(3)
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
