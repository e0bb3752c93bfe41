// Client: it assembles the parts and ends them.

package holdfast

import (
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
	"github.com/holdfast-go/holdfast/internal/pushes"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Client is one process's party in locking: its identity, its subscription,
// its renewals and the lines of its goroutines. Make one per process and
// store, and close it at the end. It is safe for use by many goroutines.
type Client struct {
	store  store.Store
	cfg    Config
	id     string
	log    *slog.Logger
	now    func() time.Duration
	chance func() float64 // spreads what would else happen at one time; from [0, 1)
	fake   bool           // the store lives in a time of its own

	attempts  atomic.Uint64
	queue     *waitqueue.Queue[*hold, *lock] // the goroutines of this process that want a lock
	params    shared[lockOptions, params]
	routes    shared[route, route]
	pushing   pushState
	events    notifier
	renewer   *renewer.Renewer
	hub       *pushes.Hub
	retention string
	sharded   bool
	base      string // channel prefix of the pushes of all locks; empty if sharded
	pushes    string // where this client's arrive

	life     *lifecycle.Group // the acquisitions under way, and what runs in the background
	gone     chan struct{}    // closed when nothing runs any more
	closeErr error            // of the first Close; written before gone is closed

	sender       *request.Sender
	preflight    *request.Preflight
	canceller    *request.Canceller
	registration *request.Registration

	away atomic.Int64 // when the log was last told that the server is; 0: never
}

// channelLinger is for how long the subscription to one lock of a Cluster is
// kept though nobody waits: a lock that is fought over does not subscribe anew
// each time.
const channelLinger = 10 * time.Second

// New makes a client of store. It does no I/O: the first acquisition does.
// The error is an [ErrInvalid] that says which field of cfg cannot work.
func New(s store.Store, cfg Config) (*Client, error) {
	if v := reflect.ValueOf(s); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, invalid("the store is nil: make one, for example with goredis.New(rdb)")
	}
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails: it would end the program
	c := &Client{
		store: s, cfg: cfg, id: base64.RawURLEncoding.EncodeToString(id),
		log: cfg.Logger, now: clock.Now, chance: mathrand.Float64,
		retention: wire.Millis(cfg.Retention), sharded: s.Sharded(),
		life: lifecycle.New(), gone: make(chan struct{}),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.events.observer, c.events.log, c.events.logs = cfg.Observer, c.log, cfg.Logger != nil
	if fake, ok := s.(store.Simulated); ok {
		if now := fake.Clock(); now != nil {
			c.now, c.fake = now, true
		}
		if random := fake.Random(); random != nil {
			c.chance = random
		}
	}
	if !c.sharded {
		c.base = wire.Base(cfg.Prefix, "", false)
		c.pushes = c.base + c.id
	}
	c.renewer = renewer.New(renewer.Config{
		Now: c.now, Timeout: cfg.RequestTimeout,
		Renew: func(ctx context.Context, batch []*renewer.Item) ([]renewer.Outcome, error) {
			return renewHolds(ctx, c, batch)
		},
		Renewed: func(l *renewer.Item, waiting int, lag time.Duration, err error) {
			l.Hold.(*hold).renewed(waiting, lag, err)
		},
		Lost: func(l *renewer.Item, reason renewer.Reason) { l.Hold.(*hold).markLost(reason) },
	})
	c.queue = newQueue(c)
	c.sender = request.New(request.Config{
		Store: s, Prefix: cfg.Prefix, Timeout: cfg.RequestTimeout, Retention: c.retention,
		Now: c.now, Random: c.chance, Life: c.life,
	})
	c.preflight = request.NewPreflight(c.sender)
	c.canceller = request.NewCanceller(c.sender)
	c.registration = request.NewRegistration(c.sender, c.id, cfg.App, Version, c.notRegistered)
	// One channel serves all locks of a server, for good. In a Cluster each
	// lock has its own: a client may come to wait for a million of them.
	var linger time.Duration
	if c.sharded {
		linger = channelLinger
	}
	c.hub = pushes.New(c.listen, c.readPush, c.canceller.Stray, max(cfg.RequestTimeout, subscribing), linger)
	return c, nil
}

// ID is the client's identity: random, new for every client, no secret.
func (c *Client) ID() string { return c.id }

func (c *Client) listen(
	ctx context.Context, channel string, message func(string), resumed func(),
) (func(), error) {
	return c.store.Listen(ctx, channel, store.Listener{Message: func(payload string) {
		if attempt, evicted := strings.CutPrefix(payload, "evicted "); evicted {
			// Anybody can push: only the server's answer to a renewal is believed.
			c.renewer.Recheck(func(l *renewer.Item) bool { return l.Hold.(*hold).made(attempt) })
			return
		}
		message(payload)
	}, Resumed: resumed})
}

func (c *Client) readPush(payload string) (uint64, pushes.Grant, bool) {
	attempt, a, err := wire.ParsePush(payload)
	client, number, _ := strings.Cut(attempt, "/")
	n, bad := strconv.ParseUint(number, 10, 64)
	if err != nil || bad != nil || client != c.id {
		return 0, pushes.Grant{}, false
	}
	return n, pushes.Grant{
		Token: a.Token, Waiting: a.Waiting, Now: a.Now, Lease: a.Lease, Later: a.Kind == wire.Kept, Left: a.Left,
	}, true
}

// notRegistered notes that people cannot see this client by name.
func (c *Client) notRegistered(err error) {
	c.events.tell(news{log: func(log *slog.Logger) {
		log.Debug("holdfast: client not registered", "client", c.id, "error", err)
	}})
}

const (
	// closers bounds how many leases are released at once when a client closes:
	// those at a silent node must not keep the others from being released.
	closers = 512
	// closeLimit bounds what a Close asks of the server. The subscriptions take
	// up to a second more to end.
	closeLimit = 4 * time.Second
)

// Close releases every lease, ends their contexts with [ErrClosed] as the
// cause, and returns when nothing of the client runs any more: no goroutine,
// no subscription, no timer. Acquisitions under way return [ErrClosed]. The
// store stays open: it is the caller's.
//
// It takes five seconds at most, and less if ctx ends before. The error says how
// many leases could not be seen to be released: those end by themselves within
// their TTL. A second Close returns when the first one does, with its error.
func (c *Client) Close(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	limit, parent := closeLimit, ctx
	if request.Ended(ctx) != nil {
		// Like a release it works although ctx has ended: for one request's time.
		limit, parent = min(limit, c.cfg.RequestTimeout), context.WithoutCancel(ctx)
	}
	limited, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	first, err := c.close(limited, true)
	if first {
		c.closeErr = request.InTime(ctx, err)
		close(c.gone)
		return c.closeErr
	}
	select {
	case <-c.gone:
		return c.closeErr
	case <-parent.Done():
		return fmt.Errorf("holdfast: close: %w", parent.Err())
	}
}

// Abandon closes the client without releasing its leases: the locks stay
// taken until the leases end by themselves, within their TTL. Of them it says
// nothing to the server; acquisitions that are under way may still give their
// places in line back, as far as that goes without waiting. It is for a process
// that ends while its work must not be taken over at once.
func (c *Client) Abandon() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if first, _ := c.close(ended, false); first {
		close(c.gone)
	}
}

// close reports whether it was the first.
func (c *Client) close(ctx context.Context, release bool) (first bool, err error) {
	if !c.life.Close() {
		return false, nil
	}
	c.registration.Stop()

	leases := c.renewer.All()
	var told error
	if !release {
		told = ErrClosed
	}
	for _, l := range leases {
		l.Hold.(*hold).finish(told)
	}
	if release {
		if err = c.releaseAll(ctx, leases); err == nil {
			c.registration.End(ctx)
		}
	}

	// Acquisitions under way end by themselves; what they leave behind is
	// cancelled in the background, for as long as ctx allows.
	c.life.Wait(ctx)
	c.hub.Stop()
	c.renewer.Stop()
	if s, ok := c.store.(store.IdleCloser); ok {
		s.CloseIdleConnections()
	}
	c.events.lastNews()
	return true, err
}

// releaseAll gives back what is held: many in one request where that can be done,
// the others each by itself.
func (c *Client) releaseAll(ctx context.Context, leases []*renewer.Item) error {
	var plain, others []*hold
	for _, l := range leases {
		h := l.Hold.(*hold)
		switch {
		case !c.renewer.Remove(l): // lost, or released by its holder meanwhile
		case c.sender.Batches() && h.plain():
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
	abreast(slices.Collect(slices.Chunk(plain, closeBatch)), func(batch []*hold) {
		left, err := c.releaseBatch(ctx, batch)
		note(len(batch)-len(left), err)
		mu.Lock()
		defer mu.Unlock()
		others = append(others, left...)
	})
	abreast(others, func(h *hold) {
		err := ctx.Err() // what is left when time is up is not even tried
		if err == nil {
			err = h.release(ctx, releaseMode{})
		}
		note(1, err)
	})
	if failed > 0 {
		return fmt.Errorf("%d of %d leases were not seen to be released: %w", failed, total, first)
	}
	return nil
}

// closeBatch is how many holds a closing client releases in one request.
const closeBatch = 32

// plain reports whether the hold may be released together with others.
func (h *hold) plain() bool {
	return h.lock.want == wire.Exclusive && h.lock.owner == "" && h.lock.minHold == 0 && h.waiting.Load() == 0
}

// abreast does something with each, many at a time.
func abreast[T any](all []T, do func(T)) {
	var wg sync.WaitGroup
	next := make(chan T)
	for range min(closers, len(all)) {
		wg.Go(func() {
			for one := range next {
				do(one)
			}
		})
	}
	for _, one := range all {
		next <- one
	}
	close(next)
	wg.Wait()
}

// releaseBatch releases holds that nobody waits for, and answers those that are to
// be released one by one: somebody does, or the server refused them together. With
// an error nothing is known of the others; it was tried for as long as ctx allows.
func (c *Client) releaseBatch(ctx context.Context, batch []*hold) (left []*hold, err error) {
	keys, args := make([]string, len(batch)), make([]string, len(batch))
	for i, h := range batch {
		keys[i], args[i] = h.lock.key(), h.attempt
	}
	for failures := 0; ; failures++ {
		_, each, err := c.sender.RunSeveral(ctx, script.ReleaseIdle, keys, args)
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
			return nil, wrap("release of", batch[0].lock.name, err)
		}
	}
}
