package goredis

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/mark"
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
	ordinary  urgency = iota
	extending         // keeps a lease: never waits for other requests
	renewing          // does so, and nobody waits for its answer
)

func urgencyOf(ctx context.Context, action *script.Script) urgency {
	switch {
	case action.Name != script.Renew.Name: // a neighbour's wire has a script with the same name
		return ordinary
	case mark.IsAwaited(ctx):
		return extending
	}
	return renewing
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
	others  chan struct{} // a place for each request
	spare   chan struct{} // a place that only a renewal takes
	patient atomic.Int32  // requests that wait for acknowledgements
	renewed atomic.Int32  // renewals that are under way
	looks   adapter.Looks
	noPing  atomic.Bool // the server refuses PING, or its answer may not come first

	mu      sync.Mutex // guards the fields below; no I/O while it is held
	free    []*lane    // that nothing uses; the last one was used last
	users   int        // lanes that are in use
	usedAt  time.Duration
	idle    *time.Timer // closes free; not nil while there are lanes
	closing bool        // free is to be closed when the last use ends
	probing bool
	again   bool // a connection has come into doubt while another was probed

	connsMu sync.Mutex // guards conns; taken under mu or alone
	conns   map[*conn]struct{}
}

func newOwn(rdb *redis.Client) *own {
	return &own{
		client: rdb, made: time.Now(), follows: rdb.Options().Addr == failoverAddr,
		others: make(chan struct{}, max(rdb.Options().PoolSize, 1)),
		spare:  make(chan struct{}, spareForRenewals), conns: make(map[*conn]struct{}),
	}
}

// now is the time since own was made, never 0.
func (o *own) now() time.Duration { return max(time.Since(o.made), 1) }

// get returns a lane; put must be called after use.
func (o *own) get() *lane {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.users++
	o.closing = false
	if o.idle == nil {
		o.idle = time.AfterFunc(ownIdle, o.closeIdle)
	}
	at := len(o.free) - 1
	if at < 0 {
		return o.newLane()
	}
	for i, l := range slices.Backward(o.free) {
		if l.connected() {
			at = i // a new connection might be refused, or never be made
			break
		}
	}
	l := o.free[at]
	o.free = slices.Delete(o.free, at, at+1)
	return l
}

func (o *own) put(l *lane) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.usedAt = o.now()
	o.free = append(o.free, l) // what has answered last is used first
	if o.users--; o.users == 0 && o.closing {
		o.closeFree()
	}
}

// closeIdle closes the connections if nothing has used them for long.
func (o *own) closeIdle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch left := o.usedAt + ownIdle - o.now(); {
	case o.idle == nil: // closed meanwhile
	case o.users == 0 && left <= 0:
		o.closeFree()
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
		o.closeFree()
	}
}

// closeFree closes the connections, which are idle. o.mu is held.
func (o *own) closeFree() {
	if o.idle == nil {
		return
	}
	o.idle.Stop()
	for _, l := range o.free {
		l.close()
	}
	o.free, o.idle = nil, nil
}

// request is what is under way for one caller.
type request struct {
	lane  *lane
	place chan struct{}
	how   urgency
	waits bool // for acknowledgements
}

// begin waits for a place, and takes a lane.
func (o *own) begin(ctx context.Context, deadline *adapter.Deadline, how urgency, waits bool) (request, error) {
	r := request{place: o.others, how: how, waits: waits}
	spare := o.spare
	if how == ordinary {
		spare = nil
	}
	switch {
	case enter(spare):
		r.place = spare
	case enter(o.others):
	default:
		select {
		case o.others <- struct{}{}:
		case spare <- struct{}{}:
			r.place = spare
		case <-ctx.Done():
			return r, adapter.Unsent(ctx.Err())
		case <-deadline.Passed():
			return r, adapter.Unsent(context.DeadlineExceeded)
		}
	}
	if how != ordinary {
		o.renewed.Add(1)
	}
	if waits {
		o.patient.Add(1)
	}
	r.lane = o.get()
	r.lane.renewing = how == renewing
	return r, nil
}

// enter takes a place without waiting.
func enter(places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
		return false
	}
}

// end gives lane and place back.
func (o *own) end(r request) {
	r.lane.renewing = false
	o.put(r.lane)
	if r.waits {
		o.patient.Add(-1)
	}
	if r.how != ordinary {
		o.renewed.Add(-1)
	}
	<-r.place
}

// sendHere sends commands over one connection, and returns the first error.
func (o *own) sendHere(ctx context.Context, how urgency, cmds commands) error {
	r, err := o.begin(ctx, nil, how, len(cmds.more) > 0)
	if err != nil {
		return err
	}
	defer o.end(r)
	return r.lane.sendOn(ctx, cmds)
}

// send is sendHere that returns when ctx ends or deadline passes.
//
// go-redis handles deadlines: own makes it set them on the socket, and it watches Done while it connects. Nothing
// wakes a read when a context is cancelled before its deadline, so lane.follow does that. While the server leaves
// requests unanswered (not steady), or if a connection is to be made, there is a goroutine, see
// [adapter.Lingering]. Only if the server has closed the connection, a cancel may be noticed as late as deadline.
func (o *own) send(
	ctx context.Context, deadline *adapter.Deadline, steady bool, how urgency, cmds commands,
) error {
	if ctx.Done() == nil && deadline == nil {
		return o.sendHere(ctx, how, cmds)
	}
	r, err := o.begin(ctx, deadline, how, len(cmds.more) > 0)
	if err != nil {
		return err
	}
	if steady && deadline != nil && r.lane.connected() {
		defer o.end(r)
		defer r.lane.unfollow(r.lane.follow(ctx))
		return r.lane.sendOn(adapter.Bounded(ctx, deadline), cmds)
	}
	return await(ctx, deadline, func(ctx context.Context) error {
		defer o.end(r)
		return r.lane.sendOn(ctx, cmds)
	})
}

// doubt is called when a request has no answer for so long. It begins to find out whether the server
// answers elsewhere.
func (o *own) doubt() {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.idle == nil:
	case o.probing:
		o.again = true
	default:
		o.probing = true
		go o.probe()
	}
}

// probe asks until the server has answered, or no connection is in doubt any more.
func (o *own) probe() {
	l := o.get()
	defer o.put(l)
	for {
		o.retire()
		asked := o.now()
		ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
		answered := l.answers(ctx)
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
	l := o.get()
	defer o.put(l)
	o.retire()
	return l.answers(ctx)
}

// watch makes a conn of a new connection.
func (o *own) watch(c net.Conn, l *lane) net.Conn {
	w := &conn{Conn: c, own: o, lane: l, raw: adapter.SocketOf(c)}
	w.made = o.now()
	w.answered.Store(int64(w.made))
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
