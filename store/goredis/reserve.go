package goredis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/script"
)

// An application may use all connections of its pool for long, for example with BLPOP. A
// renewal that waited for one would lose its lease. So the store has a few connections of its
// own, made with the client's options and used with its hooks. It dials them when they are
// first needed, and closes them when nothing has needed them for a while. A lock that is
// released before its first renewal never makes one.
const (
	reserveSize = 10
	// reserveShared bounds how many other requests than renewals use the reserve at once: some
	// of its connections are always left to renewals.
	reserveShared = 6
	// reserveIdle is how long a reserve is kept after its last use.
	reserveIdle = 2 * time.Minute
	// reserveMoving is how long a connection of the reserve lives if the client follows a
	// primary that moves.
	reserveMoving = time.Second
	// reserveSpare is for how long a pool that had a spare connection is not asked again.
	reserveSpare = time.Millisecond
)

// urgency says how a request gets its connection.
type urgency uint8

const (
	ordinary urgency = iota // over the client's pool
	freeing                 // releases a hold or keeps a position: over the pool unless that is full
	renewing                // keeps a lease: never waits for the application's requests
)

func urgencyOf(action *script.Script) urgency {
	switch action.Name { // a neighbour's wire has scripts of its own, with the same names
	case script.Renew.Name:
		return renewing
	case script.Release.Name, script.ReleaseIdle.Name, script.ReleaseAfter.Name, script.Cancel.Name,
		script.CancelRun.Name, script.Poll.Name, script.Convert.Name, script.Proclaim.Name:
		return freeing
	}
	return ordinary
}

// reserve is the store's own connections to one server.
//
// A client that follows a primary by Sentinels drops its connections when another server
// becomes the primary. It cannot drop these. An old primary that still answers would say that
// it does not know a lease. So such a client's reserve is used only while its pool is full,
// and each of its connections lives only shortly.
type reserve struct {
	client         *redis.Client // the user's
	followsPrimary bool          // it follows a primary
	shared         atomic.Int32
	spareAt        atomic.Int64 // when the client's pool last had a spare connection, in ns since made
	made           time.Time

	mu      sync.Mutex // guards the fields below; no I/O while it is held
	own     *hooked    // nil: none
	users   int
	idle    *time.Timer // closes own; nil while it is in use
	closing bool        // own is to be closed when its last use ends
}

// get returns own; put must be called after use.
func (r *reserve) get() *hooked {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users++
	r.closing = false
	if r.idle != nil {
		r.idle.Stop()
		r.idle = nil
	}
	if r.own == nil {
		options := *r.client.Options()
		options.PoolSize, options.MinIdleConns, options.MaxIdleConns, options.MaxActiveConns = reserveSize, 0, 0, 0
		options.MaxRetries, options.ContextTimeoutEnabled = -1, true
		options.PushNotificationProcessor = nil
		if r.followsPrimary {
			options.ConnMaxLifetime, options.ConnMaxLifetimeJitter = reserveMoving, 0
		}
		options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		own := newHooked(r.client, redis.NewClient(&options))
		r.own = &own
	}
	return r.own
}

func (r *reserve) put() {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.users--; {
	case r.users > 0:
	case r.closing:
		r.end()
	default:
		r.idle = time.AfterFunc(reserveIdle, r.close)
	}
}

// close closes the connections at once, or when their last use ends: a request that its caller
// has given up may linger on one.
func (r *reserve) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing = r.users > 0; !r.closing {
		r.end()
	}
}

// end closes the connections, which are idle. r.mu is held.
func (r *reserve) end() {
	if r.idle != nil {
		r.idle.Stop()
		r.idle = nil
	}
	if r.own != nil {
		_ = r.own.pool.Close()
		r.own = nil
	}
}

// full reports whether a request over the client's pool would have to wait. It asks the pool
// at most once in reserveSpare while there is a spare connection, because that costs two
// allocations. If the pool has filled up since, the request waits as an ordinary one does, and
// its repetition does not.
func (r *reserve) full() bool {
	now := int64(time.Since(r.made))
	if at := r.spareAt.Load(); at != 0 && now-at < int64(reserveSpare) {
		return false
	}
	stats := r.client.PoolStats()
	full := stats.IdleConns == 0 && int(stats.TotalConns) >= r.client.Options().PoolSize
	if !full {
		r.spareAt.Store(now)
	}
	return full
}

// sendUrgent is send over the connection that suits the request.
func (o *noRetry) sendUrgent(ctx context.Context, how urgency, cmds commands) error {
	r := &o.reserve
	switch {
	case how == ordinary, (how == freeing || r.followsPrimary) && !r.full():
		return o.send(ctx, cmds)
	case how == freeing:
		defer r.shared.Add(-1)
		if r.shared.Add(1) > reserveShared {
			return o.send(ctx, cmds)
		}
	}
	defer r.put()
	err := r.get().send(ctx, cmds)
	var unsent notSentError
	refusal := serverError(err)
	kept := errors.As(err, &unsent) || refusal != nil && refusal.Code == "NOAUTH" // nothing has run
	if kept && ctx.Err() == nil && (refusal == nil || !r.full()) {
		// The server accepts no more connections, or not with this password, or not without one.
		// Those of the pool may have been made before.
		return o.send(ctx, cmds)
	}
	return err
}
