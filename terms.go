package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// Option changes how one lock is used.
type Option func(*terms) error

// TTL sets the lease of this lock instead of [Config.TTL].
func TTL(d time.Duration) Option {
	return func(t *terms) error {
		if err := checkTTL(d); err != nil {
			return invalid("%v", err)
		}
		t.ttl = d
		return nil
	}
}

// MaxWait bounds the waiting of Lock and Do: after limit they give up with a
// [*HeldError], which names the holder if the server says in a moment who it is.
// If no server could be asked, its Err says why. 0 means to try once. Without
// MaxWait they wait until their context ends.
func MaxWait(limit time.Duration) Option {
	return func(t *terms) error {
		if limit < 0 {
			return invalid("the wait limit is %v: use 0 to try once, or leave it out to wait for the context", limit)
		}
		t.wait = limit
		return nil
	}
}

// NoRenewal makes leases that end after their TTL unless extended by hand.
// They are not passed on inside the process: each starts with a whole TTL.
func NoRenewal() Option {
	return func(t *terms) error {
		t.fixed = true
		return nil
	}
}

// terms makes the terms of a lock. What is wrong with them is kept for the
// first use.
func (c *Client) terms(name, want string, options []Option) terms {
	t := terms{spec: spec{name: name, place: new(place), manner: &manner{client: c, choice: choice{
		want: want, wait: -1, ttl: c.cfg.TTL,
	}}}}
	if err := wire.CheckName(name); err != nil {
		t.err = invalid("%v", err)
		return t
	}
	for _, option := range options {
		if option == nil {
			t.err = invalid("an option of the lock %q is nil: leave it out", name)
			return t
		}
		if t.err = option(&t); t.err != nil {
			return t
		}
	}
	if t.err = t.conflict(); t.err != nil {
		return t
	}
	t.alone = t.owner != ""
	t.manner = c.manner(t.choice)
	t.one[0] = wire.Key(c.cfg.Prefix, name)
	t.place = c.place(name, t.one[0], t.ack)
	return t
}

// fail notes what is wrong with the terms, unless something was before.
func (t *terms) fail(err error) {
	if t.err == nil && err != nil {
		m := *t.manner
		m.err = err
		t.manner = &m
	}
}

// but changes what was chosen for locks of this kind.
func (t *terms) but(change func(*choice)) {
	if t.err != nil {
		return
	}
	chosen := t.choice
	change(&chosen)
	t.manner = t.client.manner(chosen)
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

// both joins what a function answered with what went wrong with its lock. An error that
// comes alone stays as it is.
func both(err, lock error) error {
	switch {
	case lock == nil:
		return err
	case err == nil:
		return lock
	}
	return errors.Join(err, lock)
}

// do runs f under the lock.
func (t *terms) do(ctx context.Context, f func(ctx context.Context) error) (err error) {
	if err := runnable(ctx, f == nil); err != nil {
		return err
	}
	l, err := t.lock(ctx)
	if err != nil {
		return err
	}
	inner, cancel := l.bind(ctx)
	defer func() {
		cancel()
		err = both(err, l.Release(ctx))
	}()
	return f(inner)
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
	case t.client.isClosing():
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
