package store

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/script"
)

// Store runs scripts on a server and subscribes to its channels. Many goroutines
// use a Store at the same time.
type Store interface {
	// Run runs one script in a single atomic step on the server that owns keys, and returns
	// its answer: a line of space-separated words, as the script's header lists them.
	//
	// Run returns promptly when ctx ends, even while the server is silent. ctx may have a
	// deadline that its Done channel does not follow, and that channel may be nil: most
	// requests have a deadline and cannot be cancelled, and a store that sets deadlines on its
	// sockets needs neither a timer nor a goroutine for them.
	//
	// If the error is a [*ServerError], the server refused and the script changed nothing. If
	// it is [ErrNotSent], no byte was sent. After any other error the outcome is unknown: the
	// script may have run, may run later, or may never run. Run may send a script more than
	// once (a lost script cache, a client's own retry): every script tolerates that.
	//
	// All keys of one call have the same [Store.Group]. A store that unites several servers may
	// answer ? for a lease: too few servers have answered for it, but other leases of the same
	// renewal are decided.
	Run(ctx context.Context, s *script.Script, keys, args []string) (string, error)

	// Listen subscribes to channel and returns once the server has confirmed the subscription:
	// a message published after that is delivered, or Look is called. If the connection is
	// lost, the store subscribes again by itself, without limit, and calls Look after each
	// confirmation, because messages may have been lost.
	//
	// The functions of l are called one at a time and must not block. ctx bounds only the wait
	// for the confirmation. On error nothing is subscribed. stop ends the subscription, waits
	// until no function of l runs any more, and may be called more than once.
	Listen(ctx context.Context, channel string, l Listener) (stop func(), err error)

	// Group names the set of keys that may share one Run with key: on one server every key has
	// the same group; in a Cluster a slot is a group.
	Group(key string) string

	// Sharded reports whether pushes use sharded pub/sub, so that a channel lives in the slot
	// of its lock.
	Sharded() bool

	// Server describes the server. Its errors are those of Run.
	Server(ctx context.Context) (ServerInfo, error)
}

// Batcher is a Store that can send the requests of several locks as one ([script.AcquireFree],
// [script.ReleaseIdle]) when many goroutines make them at the same time.
type Batcher interface {
	Store
	// Batches reports whether that pays: it does if all keys are on one server.
	Batches() bool
}

// IdleCloser is a Store that has connections or timers of its own, besides those of its
// client.
type IdleCloser interface {
	Store
	// CloseIdleConnections ends those that nothing uses. A client that closes calls it; a
	// later request makes new ones.
	CloseIdleConnections()
}

// Scanner is a [Store] that can read which keys exist. Most stores can.
type Scanner interface {
	Store
	// Scan calls visit with the keys that begin with prefix, a page at a time, from every
	// primary. A page may be empty. A key that exists during the whole scan comes at least
	// once, and may come again; any other key may come or not. Calls of visit follow one
	// another. If visit returns an error, Scan returns it. Its other errors are those of Run. If a
	// primary fails, Scan reads the others before it returns the error.
	//
	// No command of a scan keeps a server busy for long, however many keys there are.
	Scan(ctx context.Context, prefix string, visit func(keys []string) error) error
}

// Broadcaster is a Store that can hear messages of PUBLISH in a Cluster too, where [Store.Listen]
// hears those of SPUBLISH. The library itself sends no such messages in a Cluster; other
// libraries do.
type Broadcaster interface {
	Store
	// ListenBroadcast is Listen for a channel that is not sharded.
	ListenBroadcast(ctx context.Context, channel string, l Listener) (stop func(), err error)
}

// Simulated is a Store with its own time or randomness, such as a fake in virtual time. A
// client uses them instead of the real ones, also while it holds a mutex: they must not panic.
type Simulated interface {
	Store
	// Clock returns a monotonic clock for the leases. nil: the real one.
	Clock() func() time.Duration
	// Random returns a source of numbers in [0, 1), which spread the client's polls. nil: the
	// real one.
	Random() func() float64
}

// Listener receives what arrives on a subscription.
type Listener struct {
	// Message receives the payload of each message.
	Message func(payload string)
	// Look is called when messages may have been lost, so a listener that waits for one looks itself: after a break,
	// when the subscription is restored, and about once a second while it cannot be restored. A store of several
	// servers may leave out the calls while it is not restored at a few of them.
	Look func(restored bool)
	// Awaited reports whether somebody waits for a message now; nil: somebody always does. Only then
	// must a store notice soon that the connection of the subscription is dead. Awaited returns at once.
	Awaited func() bool
}

// ServerInfo describes a server by its answer to HELLO. Fields that the server does not tell
// are empty.
type ServerInfo struct {
	Product string // "redis", "valkey", or what the server calls itself
	Version string // "7.0.15"
	Role    string // "master" or "replica"
	Mode    string // "standalone", "sentinel", "cluster", or "quorum" of several servers
	Address string // where it was reached, without credentials
}

// PlainTokens is a Store whose fencing tokens are not Holdfast's own: a store on the wire of
// another library. A lease's token is the number that the store answered to its acquisition, so
// that it compares with the tokens of that library's clients. It is 0 if the wire has none.
// A hold with a token serves one lease only, because a local hand-over would need a new number.
type PlainTokens interface {
	Store
	// PlainTokens reports whether the tokens are another library's numbers.
	PlainTokens() bool
}
