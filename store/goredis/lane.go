package goredis

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// lane is a go-redis client that serves one request at a time, so that the store knows which connection a
// request is on: the end of the request's context ends its reading. A lane without its connection costs 4.5 KB and
// some ten microseconds. Example: two goroutines send requests at the same time, so own makes two lanes, and each
// has one connection. A context ends while its request is on the second one. lane.end moves the deadline of that
// socket into the past, and go-redis' read returns.
type lane struct {
	hooked
	interrupt func() // made once
	renewing  bool   // the present request renews leases, and nobody waits for it; of whoever has taken the lane

	mu     sync.Mutex    // guards the fields below; taken under own.mu or alone
	conn   *conn         // that the present request was written to; nil: none
	former net.Conn      // to use if no other can be made, see hedged; nil: none
	closed bool          // there is no former any more
	ended  bool          // the context of the present request has ended
	told   chan struct{} // buffers that interrupt has run
}

// newLane makes a lane. It does no I/O.
func (o *own) newLane() *lane {
	l := &lane{told: make(chan struct{}, 1)}
	l.interrupt = l.end
	options := *o.client.Options()
	// One connection is used. go-redis refuses after as many failures as the pool may have connections.
	options.PoolSize = cap(o.others) + spareForRenewals + 1
	options.MinIdleConns, options.MaxIdleConns, options.MaxActiveConns = 0, 0, 0
	options.MaxRetries, options.ContextTimeoutEnabled = -1, true
	options.ReadTimeout = max(options.ReadTimeout, ownReadTimeout)
	options.PushNotificationProcessor, options.ClientSideCacheConfig, options.ClientSideCache = nil, nil, nil
	if o.follows {
		options.ConnMaxLifetime, options.ConnMaxLifetimeJitter = ownMoving, 0
	}
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	dial := options.Dialer
	if o.follows {
		dial = l.hedged(dial)
	}
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return o.watch(c, l), nil
	}
	l.hooked = newHooked(o.client, redis.NewClient(&options))
	return l
}

const (
	// hedgeAfter is when a dialer that must ask a Sentinel first tries once more.
	hedgeAfter = 250 * time.Millisecond
	// maxHedges bounds how often it does.
	maxHedges = 4
	// formerAfter is how long a new connection may take before the former one serves on.
	formerAfter = 2 * hedgeAfter
)

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// hedged is a dialer that begins to dial once more if it takes long. go-redis asks a Sentinel for the
// primary over a connection that may be dead. While the first question waits on that, the next one is sent
// over another connection.
//
// If no Sentinel tells the primary, the connection that was left because of its age serves on. Otherwise all
// leases would be lost with the Sentinels, although the primary is well.
func (l *lane) hedged(dial dialer) dialer {
	type made struct {
		conn net.Conn
		err  error
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		results := make(chan made, maxHedges)
		begun, ended := 0, 0
		begin := func() {
			begun++
			go func() {
				c, err := dial(ctx, network, addr)
				results <- made{c, err}
			}()
		}
		// leave is called at the end. What is made later is for f.
		leave := func(f func(net.Conn)) {
			for range begun - ended {
				go func() { f((<-results).conn) }()
			}
		}
		begin()
		more, late := time.NewTicker(hedgeAfter), time.NewTimer(formerAfter)
		defer more.Stop()
		defer late.Stop()
		for {
			select {
			case r := <-results:
				if ended++; r.err != nil && ended < begun {
					continue
				}
				leave(closeIf)
				former := l.takeFormer()
				if r.err != nil && former != nil {
					return former, nil
				}
				closeIf(former)
				return r.conn, r.err
			case <-late.C:
				if former := l.takeFormer(); former != nil {
					leave(l.comeLate)
					return former, nil
				}
			case <-more.C:
				if begun < maxHedges {
					begin()
				}
			}
		}
	}
}

func closeIf(c net.Conn) {
	if c != nil {
		_ = c.Close()
	}
}

// connected reports whether a request needs no new connection, as far as is known.
func (l *lane) connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil && !l.conn.closed.Load() && !l.conn.retired.Load() && !l.conn.old()
}

// keeps reports whether it keeps a connection that go-redis leaves only because it is old, until there is another one.
func (l *lane) keeps(c *conn) bool {
	if !c.old() || c.asked.Load() != 0 || c.retired.Load() || c.over.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.former != nil {
		return false
	}
	l.former = c.Conn
	return true
}

// comeLate takes a connection that was made when the former one served on already: it is the next one to do so.
func (l *lane) comeLate(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c != nil && !l.closed {
		c, l.former = l.former, c
	}
	closeIf(c)
}

// takeFormer returns the connection to use if no other can be made, nil if there is none.
func (l *lane) takeFormer() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	former := l.former
	l.former = nil
	return former
}

// close closes the lane's connections.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	_ = l.pool.Close()
	closeIf(l.takeFormer())
}

// sendOn sends commands, once more if the connection has rested for too long.
func (l *lane) sendOn(ctx context.Context, cmds commands) error {
	err := l.send(ctx, cmds)
	if errors.Is(err, errRetired) {
		err = l.send(ctx, cmds)
	}
	return err
}

// follow ends the reading of the present request when ctx ends. unfollow must be called after the request.
func (l *lane) follow(ctx context.Context) (unhook func() bool) {
	if ctx.Done() == nil {
		return nil
	}
	return context.AfterFunc(ctx, l.interrupt)
}

func (l *lane) unfollow(unhook func() bool) {
	if unhook == nil || unhook() {
		return
	}
	<-l.told // it must not end the next request
	l.mu.Lock()
	l.ended = false
	l.mu.Unlock()
}

// end ends the present request.
func (l *lane) end() {
	l.mu.Lock()
	l.ended = true
	c := l.conn
	l.mu.Unlock()
	if c != nil {
		c.cut()
	}
	l.told <- struct{}{}
}

// begin notes that a request is written to c. It reports false if the context has ended.
func (l *lane) begin(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = c
	return !l.ended
}

// answers asks on a connection that is not retired. The question is a script that no server knows: while a server
// holds writes back (CLIENT PAUSE, a failover that was asked for), it answers PING, but no script. A refusal is an
// answer, too, and so is what has shown that the connection is dead.
func (l *lane) answers(ctx context.Context) bool {
	ask := func() error { return l.pool.EvalSha(ctx, "", nil).Err() }
	err := ask()
	if errors.Is(err, errRetired) {
		err = ask()
	}
	return Refusal(err) != nil || errors.Is(err, errGivenUp)
}
