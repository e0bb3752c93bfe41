package holdfast

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	mathrand "math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/lifecycle"
	"github.com/holdfast-go/holdfast/internal/pushes"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
	"github.com/holdfast-go/holdfast/internal/wire"
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
	queue     *waitqueue.Queue[*hold, *spec] // the goroutines of this process that want a lock
	manners   shared[choice, manner]
	places    shared[place, place]
	pushing   pushState
	teller    teller
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
		Now: c.now, Renew: c.renew, Renewed: c.renewed, Lost: c.lost, Timeout: cfg.RequestTimeout,
	})
	c.queue = c.newQueue()
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
	c.tell(news{log: func(log *slog.Logger) {
		log.Debug("holdfast: client not registered", "client", c.id, "error", err)
	}})
}
