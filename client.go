// Client: one process at one store, from New to Close.

package holdfast

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/lifecycle"
	"github.com/holdfast-go/holdfast/internal/localqueue"
	"github.com/holdfast-go/holdfast/internal/pushes"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Client connects one process to its locks. It has the identity of the process, its
// subscription, its renewals, and the queues of its goroutines. Create one client for each
// process and store, and close it at the end. A Client is safe for use by many goroutines.
type Client struct {
	store     store.Store
	cfg       Config
	id        string
	now       func() time.Duration
	chance    func() float64 // from [0, 1): spreads requests that would otherwise go out at the same moment
	simulated bool           // the store has its own clock

	handOverBits uint // the part of a token that counts local hand-overs; 0: none, see store.PlainTokens

	attempts      atomic.Uint64
	localQueue    *localqueue.Queue[*hold, *lock] // the goroutines of this process that want a lock
	params        shared[lockOptions, params]
	routes        shared[route, route]
	pushing       pushState
	events        notifier
	renewer       *renewer.Renewer
	hub           *pushes.Hub
	retention     string
	sharded       bool
	channelPrefix string // channel prefix of the pushes of all locks; empty if sharded
	pushChannel   string // the channel for the pushes to this client

	life     *lifecycle.Group // the acquisitions under way, and the background work
	gone     chan struct{}    // closed when the last goroutine has ended
	closeErr error            // of the first Close; written before gone is closed

	sender       *request.Sender
	preflight    *request.Preflight
	canceller    *request.Canceller
	registration *request.Registration
	waitNotes    *request.WaitNotes        // of code that holds leases of this client
	localWaits   atomic.Uint64             // counts the calls that began under leases
	programs     atomic.Pointer[[]program] // of the holders met last; at most mostPrograms

	awayLoggedAt atomic.Int64 // when the client last logged that the server cannot serve it; 0: never
}

// channelLinger is how long the client keeps the subscription of a lock in a Cluster after
// the last waiter. Without it, a contended lock would subscribe again for each wait.
const channelLinger = 10 * time.Second

// New creates a client of store. It does no I/O: the first acquisition does. If a field of
// cfg is invalid, the error is an [ErrInvalid] that names the field.
func New(s store.Store, cfg Config) (*Client, error) {
	if v := reflect.ValueOf(s); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, invalid("the store is nil: create one, for example with goredis.New(rdb)")
	}
	plain, foreign := store.As[store.PlainTokens](s)
	if foreign = foreign && plain.PlainTokens(); foreign {
		cfg.MaxLocalHandOvers = cmp.Or(cfg.MaxLocalHandOvers, foreignHandOvers)
	}
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails: it would end the program
	// Read as a UUID, an ID is of version 8 (RFC 9562, section 5.8), never the random version 4 that other
	// libraries make: on Redisson's keys, that tells whose a field is.
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	c := &Client{
		store: s, cfg: cfg, id: base64.RawURLEncoding.EncodeToString(id),
		now: clock.Now, chance: mathrand.Float64,
		retention: wire.Millis(cfg.Retention), sharded: s.Sharded(),
		life: lifecycle.New(), gone: make(chan struct{}),
	}
	c.events.observer, c.events.log = cfg.Observer, cfg.Logger
	if fake, ok := store.As[store.Simulated](s); ok {
		if now := fake.Clock(); now != nil {
			c.now, c.simulated = now, true
		}
		if random := fake.Random(); random != nil {
			c.chance = random
		}
	}
	if !foreign {
		c.handOverBits = 10
	}
	if !c.sharded {
		c.channelPrefix = wire.ChannelPrefix(cfg.Prefix, "", false)
		c.pushChannel = c.channelPrefix + c.id
	}
	c.renewer = renewer.New(renewer.Config{
		Now: c.now, Timeout: cfg.RequestTimeout, Late: request.ErrLate,
		Renew: func(ctx context.Context, batch []renewer.Asked) ([]renewer.Outcome, error) {
			return c.renewHolds(ctx, batch)
		},
		Renewed: func(it *renewer.Item, r renewer.Report) { it.Hold.(*hold).renewed(r) },
		Lost:    func(it *renewer.Item, reason renewer.Reason) { it.Hold.(*hold).markLost(reason) },
	})
	c.localQueue = newLocalQueue()
	c.sender = request.New(request.Config{
		Store: c.observedStore(), Prefix: cfg.Prefix, Timeout: cfg.RequestTimeout, Retention: c.retention,
		Now: c.now, Random: c.chance, Life: c.life,
	})
	c.preflight = request.NewPreflight(c.sender)
	c.canceller = request.NewCanceller(c.sender)
	c.registration = request.NewRegistration(c.sender, c.id, cfg.App, Version, c.notRegistered())
	c.registration.Pause = c.renewer.Pause
	c.waitNotes = request.NewWaitNotes(c.registration)
	// On one server, one channel serves all locks for the client's whole life. In a Cluster
	// each lock has its own channel, and a client may wait for a million locks. So those
	// subscriptions end.
	var linger time.Duration
	if c.sharded {
		linger = channelLinger
	}
	c.hub = pushes.New(c.listen, pushReader(c.id), c.canceller.Stray, max(cfg.RequestTimeout, subscribeLimit), linger)
	return c, nil
}

// ID returns the client's identity. It is random, different for every client, and not a
// secret.
func (c *Client) ID() string { return c.id }

func (c *Client) listen(
	ctx context.Context, channel string, message func(string), look func(),
) (func(), error) {
	return c.store.Listen(ctx, channel, store.Listener{Message: func(payload string) {
		if attempt, evicted := strings.CutPrefix(payload, "evicted "); evicted {
			// Any program can publish such a message. So the client believes only the
			// server's answer to a renewal.
			if number, own := c.numberIn(attempt); own {
				c.renewer.RenewNow(func(it *renewer.Item) bool { return it.Hold.(*hold).number == number })
			}
			return
		}
		message(payload)
	}, Look: func(bool) { look() }, Awaited: func() bool { return c.hub.Awaited() }})
}

// pushReader returns what reads the pushes to the client with this ID. It takes no others.
func pushReader(id string) func(payload string) (uint64, pushes.Grant, bool) {
	return func(payload string) (uint64, pushes.Grant, bool) {
		attempt, a, err := wire.ParsePush(payload)
		n, bad := strconv.ParseUint(wire.NumberOf(attempt), 10, 64)
		if err != nil || bad != nil || wire.Client(attempt) != id {
			return 0, pushes.Grant{}, false
		}
		return n, pushes.Grant{
			Token: a.Token, Waiting: a.Waiting, Now: a.Now, Lease: a.Lease, Later: a.Kind == wire.Kept, Left: a.Left,
		}, true
	}
}

// notRegistered returns what reports that the client could not register. Without a
// registration, Inspect shows no name for it.
func (c *Client) notRegistered() func(error) {
	return func(err error) {
		c.events.tell(news{log: func(log *slog.Logger) {
			log.Debug("holdfast: client not registered", "client", c.id, "error", err)
		}})
	}
}

// Stats says what a client does at one moment. Rates and durations are in the events, see
// [observe.Observer].
type Stats struct {
	Calls         int    // calls under way that acquire or read a lock
	Waiters       int    // acquisitions among them that wait in a queue of the server
	Holds         int    // grants that the client has; several leases may share one
	Cancels       int    // requests without an answer that the client repeats in the background
	Subscriptions int    // channels on which the client receives pushes
	Attempts      uint64 // acquisitions at the server since New, those that found the lock held too

	// PushUnavailable: the client has reported [observe.EventPushUnavailable].
	PushUnavailable bool
}

// Stats returns what the client does now. It sends nothing, and works after [Client.Close].
// The numbers are read one after another, so they may not fit together while calls begin
// and end.
func (c *Client) Stats() Stats {
	waiters, subscriptions := c.hub.Count()
	return Stats{
		Calls: c.life.Calls(), Waiters: waiters, Holds: c.renewer.Len(), Cancels: c.canceller.Pending(),
		Subscriptions: subscriptions, Attempts: c.attempts.Load(), PushUnavailable: c.pushing.told.Load(),
	}
}

const (
	// closers bounds how many leases a closing client releases at once. It is high, because
	// leases at a silent node must not delay the release of the others.
	closers = 512
	// closeLimit bounds the requests of one Close. The subscriptions take up to one second
	// more to end.
	closeLimit = 4 * time.Second
)

// Done returns a channel that is closed when the first [Client.Close] or [Client.Abandon]
// begins, before the client ends any lease. When the channel is closed, every acquisition
// returns [ErrClosed], and the contexts of all leases end at once. The client may still
// release its leases then: a second Close waits until it has done so. Done sends nothing,
// and returns the same channel each time.
func (c *Client) Done() <-chan struct{} { return c.life.Closing() }

// Close releases every lease and ends the client. The lease contexts end with [ErrClosed]
// as the cause, and acquisitions under way return [ErrClosed]. When Close returns, the
// client has no goroutine, no subscription and no timer left. The store stays open, because
// the caller owns it.
//
// Close takes at most five seconds, and less if ctx ends earlier. If ctx belongs to a lease, which Close may end
// itself, only the deadline of ctx counts. The error says for how many leases no release was confirmed. Those
// leases end within their TTL. A second Close returns when the first one returns, with the same error.
func (c *Client) Close(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	limit, parent := closeLimit, ctx
	at, bounded := ctx.Deadline()
	switch {
	case request.Ended(ctx) != nil:
		// Like a release, Close works on an ended ctx. It takes the time of one request.
		limit, parent = min(limit, c.cfg.RequestTimeout), context.WithoutCancel(ctx)
	case leaseOf(ctx) != nil:
		// Close ends ctx itself, before it releases the lease.
		if parent = context.WithoutCancel(ctx); bounded {
			var cancel context.CancelFunc
			parent, cancel = context.WithDeadline(parent, at)
			defer cancel()
		}
	}
	limited, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	first, err := c.close(limited, true)
	if first {
		c.closeErr = request.InTime(parent, err)
		close(c.gone)
		return c.closeErr
	}
	select {
	case <-c.gone:
		return c.closeErr
	case <-parent.Done():
		return errorf("holdfast: close: %w", parent.Err())
	}
}

// Abandon closes the client and does not release its leases. The locks stay held until the
// leases end, within their TTL. Abandon sends nothing about these leases. Acquisitions
// under way may still leave the wait queue, if that needs no waiting.
//
// Use Abandon when a process ends and no other process should get its locks at once.
func (c *Client) Abandon() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if first, _ := c.close(ended, false); first {
		close(c.gone)
	}
}

// close reports whether this was the first call.
func (c *Client) close(ctx context.Context, release bool) (first bool, err error) {
	if !c.life.Close() {
		return false, nil
	}
	c.localQueue.Close()
	c.registration.Stop()

	leases := c.renewer.All()
	var told error
	if !release {
		told = ErrClosed
	}
	for _, it := range leases {
		it.Hold.(*hold).endAtClose(told)
	}
	if release {
		if err = c.releaseAll(ctx, leases); err == nil {
			c.registration.End(ctx)
		}
	}

	// Acquisitions under way end by themselves. Their cancels run in the background, for as
	// long as ctx allows.
	c.life.Wait(ctx)
	c.hub.Stop()
	c.renewer.Stop()
	if s, ok := store.As[store.IdleCloser](c.store); ok {
		s.CloseIdleConnections()
	}
	c.events.deliverRest()
	return true, err
}

// releaseAll releases the holds. It releases many in one request if the store and the holds
// allow it, and the others one by one.
func (c *Client) releaseAll(ctx context.Context, leases []*renewer.Item) error {
	var plain, others []*hold
	for _, it := range leases {
		h := it.Hold.(*hold)
		switch {
		case !c.renewer.Remove(it): // lost, or released by its holder in the meantime
		case h.heldBack() > 0, h.kept() > 0: // it ends with its lease
		case c.sender.CanBatch() && h.batchable():
			plain = append(plain, h)
		default:
			others = append(others, h)
		}
	}
	total := len(plain) + len(others)
	var mu sync.Mutex
	failed := 0
	var first error
	note := func(n int, err error) {
		if err == nil || errors.Is(err, ErrNotHeld) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if failed += n; first == nil {
			first = err
		}
	}
	request.InParallel(closers, slices.Collect(slices.Chunk(plain, closeBatch)), func(_ int, batch []*hold) {
		left, err := c.releaseBatch(ctx, batch)
		note(len(batch)-len(left), err)
		mu.Lock()
		defer mu.Unlock()
		others = append(others, left...)
	})
	request.InParallel(closers, others, func(_ int, h *hold) {
		err := ctx.Err() // after the time limit the remaining leases are not tried
		if err == nil {
			err = h.release(ctx, releaseMode{})
		}
		note(1, err)
	})
	if failed > 0 {
		return fmt.Errorf("the release of %d of %d leases was not confirmed: %w", failed, total, first)
	}
	return nil
}

// closeBatch is how many holds a closing client releases in one request.
const closeBatch = 32

// releaseBatch releases holds without waiters in one request. It returns those that need a
// request of their own: a waiter has come, or the server refused the batch. It retries for
// as long as ctx allows. After an error the state of the other holds is unknown.
func (c *Client) releaseBatch(ctx context.Context, batch []*hold) (left []*hold, err error) {
	keys, args := make([]string, len(batch)), make([]string, len(batch))
	for i, h := range batch {
		keys[i], args[i] = h.lock.key(), h.attemptID()
	}
	for failures := 0; ; failures++ {
		_, each, err := c.sender.RunSeveral(ctx, c.sender.Timeout, script.ReleaseIdle, keys, args)
		switch {
		case err == nil:
			for i, h := range batch {
				if each[i] != '1' {
					left = append(left, h)
				}
			}
			return left, nil
		case request.Refusal(err) != nil && !request.Transient(err), errors.Is(err, wire.ErrAnswer):
			return batch, nil
		}
		timer := time.NewTimer(backoff.Default.After(failures, c.chance()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, wrap(releaseText, batch[0].lock.name, err)
		}
	}
}
