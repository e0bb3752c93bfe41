package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Mutex is a lock that one owner holds at a time. It is a name and options:
// it has no state that two goroutines could overwrite, may be made anew for
// each use, and shared by any number of goroutines. Waiters are served in
// order of arrival; the goroutines of one process wait as one.
type Mutex struct {
	client *Client
	spec   spec
	wait   time.Duration // limit of Lock's waiting; negative: none
	err    error         // what was wrong with name or options
}

// spec is a lock as its requests need it, made once.
type spec struct {
	name     string
	key      string
	keys     []string
	base     string // channel prefix of the pushes
	channel  string // where this client's pushes arrive
	group    string
	ttl      time.Duration
	ttlMS    string
	patience string
	fixed    bool
}

// Option changes how one lock is used.
type Option func(*Mutex) error

// TTL sets the lease of this lock instead of [Config.TTL].
func TTL(d time.Duration) Option {
	return func(m *Mutex) error {
		if err := checkTTL(d); err != nil {
			return invalid("%v", err)
		}
		m.spec.ttl = d
		return nil
	}
}

// Wait bounds the waiting of Lock and Do: after limit they give up with
// [ErrHeld]. 0 means to try once. Without it they wait until their context ends.
func Wait(limit time.Duration) Option {
	return func(m *Mutex) error {
		if limit < 0 {
			return invalid("the wait limit is %v: use 0 to try once, or leave it out to wait for the context", limit)
		}
		m.wait = limit
		return nil
	}
}

// NoRenewal makes leases that end after their TTL unless extended by hand.
// They are not passed on inside the process: each starts with a whole TTL.
func NoRenewal() Option {
	return func(m *Mutex) error {
		m.spec.fixed = true
		return nil
	}
}

// Mutex names a lock: 1 to 512 bytes of UTF-8. It does no I/O. A name or an
// option that cannot work is reported by the first use, as an [ErrInvalid].
func (c *Client) Mutex(name string, options ...Option) *Mutex {
	m := &Mutex{client: c, wait: -1, spec: spec{name: name, ttl: c.cfg.TTL}}
	if err := wire.CheckName(name); err != nil {
		m.err = invalid("%v", err)
		return m
	}
	for _, option := range options {
		if m.err = option(m); m.err != nil {
			return m
		}
	}
	s := &m.spec
	s.key = wire.Key(c.cfg.Prefix, name)
	s.keys = []string{s.key}
	s.base, s.channel = c.channel(name)
	s.group = c.store.Group(s.key)
	s.ttlMS = wire.Millis(s.ttl)
	s.patience = wire.Millis(lease.Patience(s.ttl))
	return m
}

// channel is where the pushes for a lock arrive, and its part before the
// client. On one server all locks share both.
func (c *Client) channel(name string) (base, channel string) {
	if !c.sharded {
		return c.base, c.pushes
	}
	base = wire.Base(c.cfg.Prefix, name, true)
	return base, base + c.id
}

// Name is the lock's name.
func (m *Mutex) Name() string { return m.spec.name }

// Lock waits for the lock and returns the lease. It waits in order of arrival,
// until ctx ends or the limit of [Wait] passes.
//
// On failure nothing is held and no place in the line is kept: the error is
// ctx's if it ended first, an [ErrHeld] after the limit, a [*ServerError] if
// the server refused, [ErrDeadlock] if ctx belongs to a lease of this lock,
// [ErrClosed], [ErrInvalid], and else an [ErrUnknownOutcome]: then what may
// have been granted is given back in the background.
//
// ctx ends the waiting only, not the lease.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	if m.wait == 0 {
		return m.TryLock(ctx)
	}
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	if m.wait < 0 {
		return m.client.lock(ctx, ctx, &m.spec, false)
	}
	limited, cancel := context.WithTimeout(ctx, m.wait)
	defer cancel()
	start := m.client.now()
	l, err := m.client.lock(limited, ctx, &m.spec, false)
	if errors.Is(err, context.DeadlineExceeded) && limited.Err() != nil && ctx.Err() == nil &&
		!errors.Is(err, ErrUnknownOutcome) {
		return nil, &HeldError{Name: m.spec.name, Waited: m.client.now() - start}
	}
	return l, err
}

// TryLock takes the lock if it is free, and does not wait: the error is a
// [*HeldError] if it is not. The other errors are those of [Mutex.Lock].
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	return m.client.lock(ctx, ctx, &m.spec, true)
}

// Do runs f under the lock. The context that f is given is ctx's child, and is
// also done when the lease is lost; f should return then. The lock is released
// when f returns or panics.
//
// The error joins f's error and what went wrong with the lease: if it is an
// [ErrNotHeld], f did not have the lock to its end. If the lock could not be
// taken, f did not run and the error is that of [Mutex.Lock].
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) (err error) {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	inner, cancel := l.bind(ctx)
	defer func() {
		cancel()
		err = errors.Join(err, l.Release(ctx))
	}()
	return f(inner)
}

// usable refuses what needs no question to the server.
func (m *Mutex) usable(ctx context.Context) error {
	switch {
	case m.err != nil:
		return m.err
	case ctx == nil:
		return invalid("the context is nil: use context.Background()")
	case m.client.isClosing():
		return ErrClosed
	case ctx.Err() != nil:
		return fmt.Errorf("holdfast: lock %q: %w", m.spec.name, ctx.Err())
	}
	for t := tenureOf(ctx); t != nil; t = t.outer {
		if t.hold.client == m.client && t.hold.spec.key == m.spec.key && t.ended() == nil {
			return fmt.Errorf("holdfast: lock %q: %w", m.spec.name, ErrDeadlock)
		}
	}
	return nil
}
