package redislock

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/stringlock"
	"github.com/holdfast-go/holdfast/internal/timelimit"
	"github.com/holdfast-go/holdfast/store"
)

// The errors to compare with. Their texts are those of redislock.
var (
	// ErrNotObtained says that others hold the lock, or that a lock to refresh is lost.
	ErrNotObtained = errors.New("redislock: not obtained")
	// ErrLockNotHeld says that the lock to release was not held any more.
	ErrLockNotHeld = errors.New("redislock: lock not held")
	// ErrReleased is the cause of [Lock.Context] after a release.
	ErrReleased = errors.New("redislock: released")
	// ErrClosed is the cause of [Lock.Context] after [Client.Close].
	ErrClosed = errors.New("redislock: closed")

	errNoKeys = errors.New("redislock: no keys")
)

// RedisClient is a connection to a server: what goredis.New or rueidis.New of this library return.
type RedisClient interface {
	store.Store
}

// Client obtains locks. Many goroutines may use it.
type Client struct {
	holds *stringlock.Holds

	mu    sync.Mutex         // guards the field below
	named map[string][]*Lock // the live locks that were obtained with a token of the caller
}

// New returns a client. It does no I/O. Without a client of the server, New panics.
func New(client RedisClient) *Client {
	if client == nil {
		panic("redislock: New needs a client")
	}
	return &Client{
		holds: stringlock.NewHolds([]store.Store{client}, lost, ErrClosed), named: make(map[string][]*Lock),
	}
}

// lost is the cause of a context whose lock is lost.
func lost(key string, why renewer.Reason) error {
	return &holdfast.LostError{Name: key, Reason: holdfast.LossReason(why)}
}

// Close ends the background work, and the contexts of all locks with [ErrClosed]. It releases
// nothing. redislock has no such method: a program that uses one Client until it ends needs none.
func (c *Client) Close() { c.holds.Close() }

// Options are the options of a lock.
type Options struct {
	// RetryStrategy says when to try again. Default: never.
	RetryStrategy RetryStrategy
	// Metadata is written behind the token.
	Metadata string
	// Token says whose the lock is: the same token obtains it again. Default: 16 random bytes in
	// base64.
	//
	// If the lock has other metadata now, only the Client that wrote it obtains it again, because
	// on the wire nothing separates the token from the metadata. redislock also gives the lock to
	// a token that is only the beginning of its holder's.
	Token string
	// Renew renews the lock, at a third of its TTL, until its release or loss. redislock has no
	// such option.
	Renew bool
}

func (o *Options) orDefault() Options {
	all := Options{}
	if o != nil {
		all = *o
	}
	if all.RetryStrategy == nil {
		all.RetryStrategy = NoRetry()
	}
	return all
}

// Obtain obtains a lock through a new client, see [Client.Obtain].
func Obtain(ctx context.Context, client RedisClient, key string, ttl time.Duration, opt *Options) (*Lock, error) {
	return New(client).Obtain(ctx, key, ttl, opt)
}

// ObtainMulti obtains a lock through a new client, see [Client.ObtainMulti].
func ObtainMulti(
	ctx context.Context, client RedisClient, keys []string, ttl time.Duration, opt *Options,
) (*Lock, error) {
	return New(client).ObtainMulti(ctx, keys, ttl, opt)
}

// Obtain tries to obtain the lock of a key for ttl, in whole milliseconds. If ctx has no
// deadline, it tries again for at most ttl.
//
// After an error the caller holds nothing: what the server may have given, or may yet give, is
// taken back in the background. With [Options.Token] nothing is taken back, because another holder may
// have the lock by the same token. The lock may then stay until ttl is over, and the token obtains it.
// The error is [ErrNotObtained] if others hold the lock, joined with that of ctx if it ends between
// two tries.
func (c *Client) Obtain(ctx context.Context, key string, ttl time.Duration, opt *Options) (*Lock, error) {
	return c.ObtainMulti(ctx, []string{key}, ttl, opt)
}

// ObtainMulti is [Client.Obtain] for several keys: all or none. In a Cluster they must be in one
// slot.
func (c *Client) ObtainMulti(
	ctx context.Context, keys []string, ttl time.Duration, opt *Options,
) (lock *Lock, err error) {
	if len(keys) == 0 {
		return nil, errNoKeys
	}
	o := opt.orDefault()
	token := o.Token
	if token == "" {
		token = randomToken()
	}
	k := stringlock.Lock{
		Keys: slices.Clone(keys), Value: token + o.Metadata, TTL: ttl.Truncate(time.Millisecond),
	}
	if o.Token != "" {
		k.Own = c.valuesOf(token)
	}
	err = retry(ctx, ttl, o.RetryStrategy, func(ctx context.Context) (bool, error) {
		var err error
		lock, err = c.try(ctx, k, o)
		return lock != nil || err != nil, err
	})
	if err != nil {
		return nil, err
	}
	lock.tokenLen = len(token)
	if o.Token != "" {
		c.remember(token, lock)
	}
	return lock, nil
}

// try tries once. If others hold the lock, or the answer came after the end of the lease, it
// returns neither a lock nor an error. The lease counts from before the request.
func (c *Client) try(ctx context.Context, k stringlock.Lock, o Options) (*Lock, error) {
	if o.Token != "" {
		c.shorten(o.Token, k)
	}
	sent := clock.Now()
	replies := c.holds.Acquire(ctx, stringlock.RequestTimeout, k, stringlock.Wait{})
	r := replies[0]
	if r.Err == nil && r.Answer != stringlock.Held {
		return nil, nil
	}
	if r.Err == nil {
		hold := c.holds.Add(ctx, k, replies, stringlock.Term{Sent: sent, Renews: o.Renew})
		if hold != nil {
			return &Lock{Client: c, hold: hold, lock: k}, nil
		}
	}
	if o.Token == "" { // otherwise the same value may be that of a lock that is held
		ended, cancel := context.WithCancel(ctx)
		cancel() // nothing to wait for: it goes on in the background
		c.holds.GiveUp(ended, stringlock.RequestTimeout, k, replies)
	}
	if end := ctx.Err(); end != nil && errors.Is(r.Err, end) {
		return nil, end // users compare with it
	}
	return nil, r.Err
}

// retry calls try until it is done, the strategy ends, or ctx ends. Without a deadline of ctx
// it goes on for at most ttl. try may return an error and not be done: then the next one may
// succeed.
func retry(
	ctx context.Context, ttl time.Duration, strategy RetryStrategy,
	try func(ctx context.Context) (done bool, err error),
) error {
	if _, bounded := ctx.Deadline(); !bounded {
		ctx = timelimit.Within(ctx, ttl) // it costs no timer, as a request needs none
	}
	last := ErrNotObtained
	for {
		done, err := try(ctx)
		if done {
			return err
		}
		if err != nil {
			last = err
		}
		pause := strategy.NextBackoff()
		if pause < 1 {
			return last
		}
		if err := sleep(ctx, pause); err != nil {
			return errors.Join(last, err)
		}
	}
}

// sleep waits for d. It returns an error as soon as ctx ends, whose Done may not tell of the deadline.
func sleep(ctx context.Context, d time.Duration) error {
	end, bounded := ctx.Deadline()
	if bounded {
		d = min(d, time.Until(end))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if bounded && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return nil
}

// valuesOf returns the values that live locks with this token have on the server.
func (c *Client) valuesOf(token string) (values []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.named[token] {
		values = append(values, l.lock.Value)
	}
	return values
}

// shorten makes the locks with this token that share a key with k end no later than the keys may end,
// before a request gives the keys a TTL that may be shorter.
func (c *Client) shorten(token string, k stringlock.Lock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.named[token] {
		if slices.ContainsFunc(k.Keys, l.has) {
			l.hold.Shorten(k.TTL)
		}
	}
}

// remember notes a lock with a token of the caller's. Locks with the same token and keys have
// other metadata now: they are lost.
func (c *Client) remember(token string, lock *Lock) {
	c.mu.Lock()
	all := slices.DeleteFunc(c.named[token], func(l *Lock) bool { return l.hold.Lost() })
	var replaced []*Lock
	for _, l := range all {
		if l.lock.Value != lock.lock.Value && slices.ContainsFunc(l.lock.Keys, lock.has) {
			replaced = append(replaced, l)
		}
	}
	c.named[token] = append(all, lock)
	c.mu.Unlock()
	for _, l := range replaced {
		l.hold.End(lost(l.Key(), renewer.NotHeld))
	}
}

// forget returns the other live locks that have the value of this one: they end with it.
func (c *Client) forget(lock *Lock) (others []*Lock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	token := lock.Token()
	all, known := c.named[token]
	if !known {
		return nil
	}
	for _, l := range all {
		if l != lock && l.lock.Value == lock.lock.Value && slices.ContainsFunc(l.lock.Keys, lock.has) {
			others = append(others, l)
		}
	}
	all = slices.DeleteFunc(all, func(l *Lock) bool { return l == lock || slices.Contains(others, l) || l.hold.Lost() })
	if c.named[token] = all; len(all) == 0 {
		delete(c.named, token)
	}
	return others
}

func randomToken() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails: it would end the program
	return base64.RawURLEncoding.EncodeToString(b)
}

// Lock is a lock that was obtained.
type Lock struct {
	*Client

	hold     *stringlock.Hold
	lock     stringlock.Lock
	tokenLen int
}

func (l *Lock) has(key string) bool { return slices.Contains(l.lock.Keys, key) }

// Key returns the key, the first one if there are several.
func (l *Lock) Key() string { return l.lock.Keys[0] }

// Keys returns the keys.
func (l *Lock) Keys() []string { return l.lock.Keys }

// Token returns the token.
func (l *Lock) Token() string { return l.lock.Value[:l.tokenLen] }

// Metadata returns the metadata.
func (l *Lock) Metadata() string { return l.lock.Value[l.tokenLen:] }

// Lost returns a channel that is closed when the lock is lost or released, before the server can
// give it to another client. If another Client shortens or releases the lock by its token, this one
// learns that from its next request.
func (l *Lock) Lost() <-chan struct{} { return l.hold.Context().Done() }

// Context returns a context that ends as [Lock.Lost] does. [context.Cause] is a
// [*holdfast.LostError], [ErrReleased] or [ErrClosed]. It has the values of the context of the
// call that obtained the lock, and does not end with that.
func (l *Lock) Context() context.Context { return l.hold.Context() }

// TTL asks the server how long the lock lasts, the shortest time if it has several keys. It is 0 if
// the lock is not held any more.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) {
	if l == nil {
		return 0, ErrLockNotHeld
	}
	r := l.holds.Left(ctx, stringlock.RequestTimeout, l.lock)[0]
	if r.Err != nil || r.Answer != stringlock.Held {
		return 0, r.Err
	}
	return max(r.Left, 0), nil
}

// Refresh makes the lock last for ttl from now on, shorter or longer than before. An error of the
// server is retried by the strategy of opt. [ErrNotObtained] says that the lock is lost. After
// another error the lock ends at its old end or after ttl, whichever is sooner.
func (l *Lock) Refresh(ctx context.Context, ttl time.Duration, opt *Options) error {
	if l == nil {
		return ErrNotObtained
	}
	k := l.lock
	k.TTL = ttl.Truncate(time.Millisecond)
	return retry(ctx, ttl, opt.orDefault().RetryStrategy, func(ctx context.Context) (bool, error) {
		l.hold.Shorten(k.TTL)
		l.shorten(l.Token(), k)
		sent := clock.Now()
		r := l.holds.Extend(ctx, stringlock.RequestTimeout, k, stringlock.How{}, stringlock.Wait{})[0]
		switch {
		case r.Err != nil:
			return false, r.Err
		case r.Answer != stringlock.Held:
			l.hold.End(lost(l.Key(), renewer.NotHeld))
			return true, ErrNotObtained
		case !l.hold.Restart(sent, 0, k.TTL):
			return true, l.ended()
		}
		return true, nil
	})
}

// ended is the error of a refresh that the server made, while the lock was told as lost here.
func (l *Lock) ended() error {
	cause := context.Cause(l.hold.Context())
	if cause == nil {
		cause = lost(l.Key(), renewer.Expired)
	}
	return fmt.Errorf("%w: %w", ErrNotObtained, cause)
}

// Release releases the lock, and works even if ctx has ended. If the server does not answer, it
// goes on in the background for one TTL at most. [ErrLockNotHeld] says that the lock was not held
// any more, or not on all keys.
func (l *Lock) Release(ctx context.Context) error {
	if l == nil {
		return ErrLockNotHeld
	}
	for _, other := range l.forget(l) {
		other.hold.End(lost(other.Key(), renewer.NotHeld))
	}
	r := l.hold.Release(ctx, stringlock.RequestTimeout, ErrReleased, nil)[0]
	switch {
	case r.Err != nil:
		return r.Err
	case r.Answer != stringlock.Held:
		return ErrLockNotHeld
	}
	return nil
}

// NewStore makes a store for native locks on redislock's wire: pass it to holdfast.New. Programs
// with redislock and programs with such a client exclude each other. The key is the name of the
// lock, whatever Config.Prefix is.
//
// Leases have no fencing token: their Token is 0. Read-write locks, semaphores, owners, periodic
// jobs and elections are refused. Waiters look ten times a second, because redislock sends no
// message at a release; those of such clients wake each other at once. There is no order.
func NewStore(client RedisClient) *Store {
	return &Store{stringlock.NewStore([]store.Store{client}, "redislock")}
}

// Store is a store on redislock's wire.
type Store struct{ *stringlock.Store }
