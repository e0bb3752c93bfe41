package goredis

import (
	"context"
	"errors"
	"net"
	"sync"

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
	renewing  bool   // the present request renews leases; of whoever has taken the lane

	mu    sync.Mutex    // guards the fields below; taken under own.mu or alone
	conn  *conn         // that the present request was written to; nil: none
	ended bool          // the context of the present request has ended
	told  chan struct{} // buffers that interrupt has run
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
		dial = hedged(dial)
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

// connected reports whether a request needs no new connection, as far as is known.
func (l *lane) connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil && !l.conn.closed.Load() && !l.conn.retired.Load() && !l.conn.old()
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
