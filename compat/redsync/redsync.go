package redsync

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/stringlock"
	"github.com/holdfast-go/holdfast/store"
)

// Pool is a connection to one server: what goredis.New or rueidis.New of this library return.
type Pool = store.Store

// Redsync makes mutexes on its servers. Many goroutines may use it.
type Redsync struct{ holds *stringlock.Holds }

// New returns a Redsync over one server, or over several that know nothing of each other. It does
// no I/O. Without a pool, New panics.
func New(pools ...Pool) *Redsync {
	if len(pools) == 0 {
		panic("redsync: New needs a pool")
	}
	return &Redsync{stringlock.NewHolds(pools, lost, ErrClosed)}
}

// lost is the cause of a context whose lock is lost.
func lost(key string, why renewer.Reason) error {
	return &holdfast.LostError{Name: key, Reason: holdfast.LossReason(why)}
}

// Close ends the background work, and the contexts of all mutexes with [ErrClosed]. It unlocks
// nothing. redsync has no such method: a program that uses one Redsync until it ends needs none.
func (r *Redsync) Close() { r.holds.Close() }

const (
	defaultExpiry = 8 * time.Second
	defaultTries  = 32
	shortestDelay = 50 * time.Millisecond
	longestDelay  = 250 * time.Millisecond
	defaultDrift  = 0.01
	defaultLimit  = 0.05
)

// NewMutex returns a mutex with that name, which is its key.
func (r *Redsync) NewMutex(name string, options ...Option) *Mutex {
	m := &Mutex{
		name: name, holds: r.holds, expiry: defaultExpiry, tries: defaultTries, genValue: genValue,
		driftFactor: defaultDrift, timeoutFactor: defaultLimit,
		delay: randomDelay,
	}
	for _, o := range options {
		o.Apply(m)
	}
	return m
}

// randomDelay is the pause by default.
func randomDelay(int) time.Duration {
	return shortestDelay + rand.N(longestDelay-shortestDelay) //nolint:gosec // not a secret
}

// A DelayFunc returns the pause before a try. tries counts those before it.
type DelayFunc func(tries int) time.Duration

// An Option configures a mutex.
type Option interface {
	Apply(*Mutex)
}

// OptionFunc is an option that is a function.
type OptionFunc func(*Mutex)

// Apply calls f.
func (f OptionFunc) Apply(mutex *Mutex) { f(mutex) }

// WithExpiry sets how long the lock lasts if nothing extends it. Default: 8 s.
func WithExpiry(expiry time.Duration) Option { return OptionFunc(func(m *Mutex) { m.expiry = expiry }) }

// WithTries sets how often Lock tries. Default: 32.
func WithTries(tries int) Option { return OptionFunc(func(m *Mutex) { m.tries = tries }) }

// WithRetryDelay sets the pause between two tries. Default: random, from 50 ms to 250 ms.
func WithRetryDelay(delay time.Duration) Option {
	return WithRetryDelayFunc(func(int) time.Duration { return delay })
}

// WithRetryDelayFunc sets what returns the pause between two tries.
func WithRetryDelayFunc(delayFunc DelayFunc) Option {
	return OptionFunc(func(m *Mutex) { m.delay = delayFunc })
}

// WithSetNXOnExtend makes Extend set the key anew on a server that has lost it, but only while the
// lock is still trusted here. After that another client may have had the lock. redsync sets it
// then, too.
func WithSetNXOnExtend() Option { return OptionFunc(func(m *Mutex) { m.setsAgain = true }) }

// WithDriftFactor sets which part of the expiry is not trusted, because clocks differ in rate.
// Default: 0.01.
func WithDriftFactor(factor float64) Option {
	return OptionFunc(func(m *Mutex) { m.driftFactor = factor })
}

// WithTimeoutFactor sets how long a try waits for a server, as a part of the expiry. Default: 0.05.
func WithTimeoutFactor(factor float64) Option {
	return OptionFunc(func(m *Mutex) { m.timeoutFactor = factor })
}

// WithGenValueFunc sets what makes the value of an acquisition. No two acquisitions may have the
// same. Default: 16 random bytes in base64.
func WithGenValueFunc(genValueFunc func() (string, error)) Option {
	return OptionFunc(func(m *Mutex) { m.genValue = genValueFunc })
}

// WithValue gives the mutex the value of a lock that another mutex has acquired, maybe in another
// process. Unlock and Extend then work on that lock.
func WithValue(v string) Option { return OptionFunc(func(m *Mutex) { m.value = v }) }

// WithFailFast makes calls return as soon as a majority has decided.
func WithFailFast(b bool) Option { return OptionFunc(func(m *Mutex) { m.failFast = b }) }

// WithShufflePools changes nothing here: all servers are asked at once, and errors number them in
// the order of New.
func WithShufflePools(bool) Option { return OptionFunc(func(*Mutex) {}) }

// WithRenewal renews the lock, at a third of its expiry, until Unlock, its loss or Close: a mutex that
// nobody unlocks stays locked as long as the program runs. redsync has no
// such option.
func WithRenewal() Option { return OptionFunc(func(m *Mutex) { m.renews = true }) }

// NewStore makes a store for native locks on redsync's wire, over one server or several: pass it
// to holdfast.New. Programs with redsync and programs with such a client exclude each other. The
// key is the name of the lock, whatever Config.Prefix is.
//
// Leases have no fencing token: their Token is 0. Read-write locks, semaphores, owners, periodic
// jobs and elections are refused. Waiters look ten times a second, because redsync sends no
// message at a release; those of such clients wake each other at once. There is no order.
func NewStore(pools ...Pool) *Store {
	if len(pools) == 0 {
		panic("redsync: NewStore needs a pool")
	}
	return &Store{stringlock.NewStore(pools, "redsync")}
}

// Store is a store on redsync's wire.
type Store struct{ *stringlock.Store }

// Lost returns a channel that is closed when the lock is lost or unlocked, at the latest at
// [Mutex.Until]. It is that of the lock which the next Unlock ends. A mutex that holds nothing
// returns a closed channel.
func (m *Mutex) Lost() <-chan struct{} { return m.Context().Done() }

// Context returns a context that ends as [Mutex.Lost] does. [context.Cause] is a
// [*holdfast.LostError], [ErrUnlocked] or [ErrClosed]. It has the values of the context of the
// lock call, and does not end with that.
func (m *Mutex) Context() context.Context {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) > 0 {
		return m.held[0].hold.Context()
	}
	return nothingHeld
}

// nothingHeld is the context of a mutex that holds nothing.
var nothingHeld = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrUnlocked)
	return ctx
}()
