package goredis

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/script"
)

// The store has connections of its own, made with the options of the user's client and used with
// its hooks. The application may use all connections of its pool for long, and may let them rest
// until a router has forgotten them. The store knows of each of its own connections when it answered
// last.
const (
	// spareForRenewals is how many connections there are for renewals only, besides as many as the
	// client's pool has.
	spareForRenewals = 4
	// ownIdle is how long connections are kept that nothing uses.
	ownIdle = 2 * time.Minute
	// ownMoving is how long a connection lives if the client follows a primary that moves. go-redis
	// drops only the connections of its own pool then.
	ownMoving = time.Second
	// ownReadTimeout bounds a request without a deadline, unless the client's own limit is longer.
	ownReadTimeout = time.Minute
	// probeLimit bounds one question of a new connection.
	probeLimit = 3 * time.Second
)

// errGivenUp is the end of a request on a connection that does not answer although the server has
// answered on a newer one. The request may have run, and may yet run.
var errGivenUp = errors.New("the connection does not answer, and a newer one does")

// urgency says how a request gets its connection.
type urgency uint8

const (
	ordinary urgency = iota
	renewing         // keeps a lease: never waits for other requests
)

func urgencyOf(action *script.Script) urgency {
	if action.Name == script.Renew.Name { // a neighbour's wire has a script with the same name
		return renewing
	}
	return ordinary
}

// own is the store's connections to one server.
//
// The rule of silence: a request that has no answer after a part of its time puts its connection in
// doubt. Then own asks on a new connection, or on one that has just answered. When that one has
// answered, the connections in doubt are given up: the server carries requests out in the order in which
// they arrive, so an answer would be there. If it does not answer either, the server is slow or
// silent, and all requests go on waiting. So a slow server gets nothing twice, and a dead connection
// costs little more than the doubt.
type own struct {
	client  *redis.Client // the user's
	made    time.Time
	follows bool          // the client follows a primary
	others  chan struct{} // a place for each request that is not a renewal
	patient atomic.Int32  // requests that wait for acknowledgements
	renewed atomic.Int32  // renewals that are under way
	noPing  atomic.Bool   // the server refuses PING, or its answer may not come first

	mu      sync.Mutex // guards the fields below; no I/O while it is held
	pool    *hooked    // nil: none
	users   int
	usedAt  time.Duration
	idle    *time.Timer // closes pool; not nil while there is one
	closing bool        // pool is to be closed when its last use ends
	probing bool
	again   bool // a connection has come into doubt while another was probed

	connsMu sync.Mutex // guards conns; taken under mu or alone
	conns   map[*conn]struct{}
}

func newOwn(rdb *redis.Client) *own {
	return &own{
		client: rdb, made: time.Now(), follows: rdb.Options().Addr == failoverAddr,
		others: make(chan struct{}, max(rdb.Options().PoolSize, 1)), conns: make(map[*conn]struct{}),
	}
}

// now is the time since own was made, never 0.
func (o *own) now() time.Duration { return max(time.Since(o.made), 1) }

// get returns the pool; put must be called after use.
func (o *own) get() *hooked {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.users++
	o.closing = false
	if o.pool == nil {
		o.open()
	}
	return o.pool
}

// open makes the pool. o.mu is held.
func (o *own) open() {
	options := *o.client.Options()
	options.PoolSize = cap(o.others) + spareForRenewals + 1 // one for the question of a doubt
	options.MinIdleConns, options.MaxIdleConns, options.MaxActiveConns = 0, 0, 0
	options.PoolFIFO = false // what has answered last is used first
	options.MaxRetries, options.ContextTimeoutEnabled = -1, true
	options.ReadTimeout = max(options.ReadTimeout, ownReadTimeout)
	options.PushNotificationProcessor, options.ClientSideCacheConfig, options.ClientSideCache = nil, nil, nil
	if o.follows {
		options.ConnMaxLifetime, options.ConnMaxLifetimeJitter = ownMoving, 0
	}
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	dial := options.Dialer
	if o.follows {
		dial = hedged(dial)
	}
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return o.watch(c), nil
	}
	pool := newHooked(o.client, redis.NewClient(&options))
	o.pool = &pool
	o.idle = time.AfterFunc(ownIdle, o.closeIdle)
}

const (
	// hedgeAfter is when a dialer that must ask a Sentinel first tries once more.
	hedgeAfter = 250 * time.Millisecond
	// maxHedges bounds how often it does.
	maxHedges = 4
)

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// hedged is a dialer that begins to dial once more if it takes long. go-redis asks a Sentinel for the
// primary over a connection that may be dead. While the first question waits on that, the next one is sent
// over another connection.
func hedged(dial dialer) dialer {
	type made struct {
		conn net.Conn
		err  error
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		results := make(chan made, maxHedges)
		begin := func() {
			go func() {
				c, err := dial(ctx, network, addr)
				results <- made{c, err}
			}()
		}
		begin()
		begun, ended := 1, 0
		more := time.NewTicker(hedgeAfter)
		defer more.Stop()
		for {
			select {
			case r := <-results:
				if ended++; r.err != nil && ended < begun {
					continue
				}
				go func() {
					for range begun - ended {
						if late := <-results; late.conn != nil {
							_ = late.conn.Close()
						}
					}
				}()
				return r.conn, r.err
			case <-more.C:
				if begun < maxHedges {
					begin()
					begun++
				}
			}
		}
	}
}

func (o *own) put() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.usedAt = o.now()
	if o.users--; o.users == 0 && o.closing {
		o.end()
	}
}

// closeIdle closes the connections if nothing has used them for long.
func (o *own) closeIdle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch left := o.usedAt + ownIdle - o.now(); {
	case o.idle == nil: // closed meanwhile
	case o.users == 0 && left <= 0:
		o.end()
	default:
		o.idle.Reset(max(left, ownIdle/4))
	}
}

// close closes the connections at once, or when their last use ends: a request that its caller
// has given up may linger on one.
func (o *own) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing = o.users > 0; !o.closing {
		o.end()
	}
}

// end closes the connections, which are idle. o.mu is held.
func (o *own) end() {
	if o.pool == nil {
		return
	}
	o.idle.Stop()
	_ = o.pool.pool.Close()
	o.pool, o.idle = nil, nil
}

// send sends commands over one connection, and returns the first error.
func (o *own) send(ctx context.Context, how urgency, cmds commands) error {
	if how != renewing {
		select {
		case o.others <- struct{}{}:
		default:
			select {
			case o.others <- struct{}{}:
			case <-ctx.Done():
				return notSentError{ctx.Err()}
			}
		}
		defer func() { <-o.others }()
	} else {
		o.renewed.Add(1)
		defer o.renewed.Add(-1)
	}
	if len(cmds.more) > 0 {
		o.patient.Add(1)
		defer o.patient.Add(-1)
	}
	defer o.put()
	pool := o.get()
	err := pool.send(ctx, cmds)
	for tries := 0; err != nil && errors.Is(err, errRetired) && tries < cap(o.others)+spareForRenewals; tries++ {
		err = pool.send(ctx, cmds)
	}
	return err
}

// doubt is called when a request has no answer for so long. It begins to find out whether the server
// answers elsewhere.
func (o *own) doubt() {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.pool == nil:
	case o.probing:
		o.again = true
	default:
		o.probing = true
		o.users++
		go o.probe(o.pool.pool)
	}
}

// probe asks until the server has answered, or no connection is in doubt any more.
func (o *own) probe(pool *redis.Client) {
	defer o.put()
	for {
		o.retire()
		asked := o.now()
		ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
		answered := o.ping(ctx, pool)
		cancel()
		if answered {
			o.giveUp(asked)
		}
		o.mu.Lock()
		if goOn := o.again || !answered; !goOn || !o.inDoubt() {
			o.probing, o.again = false, false
			o.mu.Unlock()
			return
		}
		o.again = false
		o.mu.Unlock()
		time.Sleep(doubtRested / 4) // a server that is not there refuses at once
	}
}

// retire makes the pool leave its idle connections when it comes to them, but for those that have just
// answered.
func (o *own) retire() {
	o.connsMu.Lock()
	defer o.connsMu.Unlock()
	for c := range o.conns {
		if c.asked.Load() == 0 && o.now()-time.Duration(c.answered.Load()) > doubtRested/2 {
			c.retired.Store(true)
		}
	}
}

// giveUp ends the requests in doubt that were sent before that.
func (o *own) giveUp(before time.Duration) {
	o.connsMu.Lock()
	defer o.connsMu.Unlock()
	for c := range o.conns {
		c.giveUp(before)
	}
}

// inDoubt reports whether a connection is in doubt.
func (o *own) inDoubt() bool {
	o.connsMu.Lock()
	defer o.connsMu.Unlock()
	for c := range o.conns {
		if c.asked.Load() != 0 && c.doubted.Load() {
			return true
		}
	}
	return false
}

// answers reports whether the server answers, on a new connection or on one that has just answered.
func (o *own) answers(ctx context.Context) bool {
	defer o.put()
	pool := o.get().pool
	o.retire()
	return o.ping(ctx, pool)
}

// ping asks on a connection that is not retired. A refusal is an answer, too, and so is what has shown that the
// connection is dead.
func (o *own) ping(ctx context.Context, pool *redis.Client) bool {
	err := pool.Ping(ctx).Err()
	for tries := 0; err != nil && errors.Is(err, errRetired) && tries < cap(o.others)+spareForRenewals; tries++ {
		err = pool.Ping(ctx).Err()
	}
	return err == nil || serverError(err) != nil || errors.Is(err, errGivenUp)
}

// watch makes a conn of a new connection.
func (o *own) watch(c net.Conn) net.Conn {
	w := &conn{Conn: c, own: o}
	w.answered.Store(int64(o.now()))
	o.connsMu.Lock()
	o.conns[w] = struct{}{}
	o.connsMu.Unlock()
	if raw, ok := c.(syscall.Conn); ok {
		return &plainConn{w, raw}
	}
	return w
}

func (o *own) forget(c *conn) {
	o.connsMu.Lock()
	defer o.connsMu.Unlock()
	delete(o.conns, c)
}
